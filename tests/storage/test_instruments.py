"""The instruments count and break requests as documented."""

from pathlib import Path

import pytest

from graveler.errors import UnavailableError
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import ObjectConditionError, Objects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Absent, ConditionFailedError, Key, Put, Tables
from tests.support.instruments import (
    Boundaries,
    CountingObjects,
    CountingTables,
    Fault,
    FaultyObjects,
    FaultyTables,
    fail_nth,
)

K = Key("p", b"k")


def test_requests_on_objects_are_counted(tmp_path: Path) -> None:
    objects = CountingObjects(MemoryObjects())
    (tmp_path / "file").write_bytes(b"123")
    objects.put("k", b"12")
    objects.put("f", tmp_path / "file")
    objects.get("k")
    objects.get_range("f", 1, 2)
    assert b"".join(objects.stream("f")) == b"123"
    objects.presign("k", "GET", 1)
    assert objects.calls == {"put": 2, "get": 1, "get_range": 1, "stream": 1, "presign": 1}
    assert (objects.requests, objects.bytes_read, objects.bytes_written) == (5, 7, 5)
    assert objects.keys[:3] == [("put", "k"), ("put", "f"), ("get", "k")]
    objects.reset()
    assert (objects.requests, objects.keys, objects.bytes_read, objects.bytes_written) == (0, [], 0, 0)


@pytest.mark.parametrize(("number", "pages"), [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_a_listing_counts_by_page(number: int, pages: int) -> None:
    objects = CountingObjects(MemoryObjects())
    for each in range(number):
        objects.put(str(each), b"")
    objects.reset()
    assert len(list(objects.list())) == number
    assert objects.calls == {"list": pages}


def test_requests_on_tables_are_counted_by_batch() -> None:
    tables = CountingTables(MemoryTables())
    keys = [Key("p", b"%d" % number) for number in range(101)]
    tables.write_many([Put(key, {}) for key in keys])
    tables.get_many(keys)
    tables.query("p", limit=10)
    tables.put(K, {})
    tables.get(K)
    tables.delete(K)
    tables.transact([Put(keys[0], {}), Put(keys[1], {})])
    one = dict.fromkeys(("query", "put", "get", "delete", "transact"), 1)
    assert tables.calls == {"write_many": 5, "get_many": 2, **one}
    assert tables.items["query"] == 10
    assert tables.items["transact"] == 2
    assert tables.requests == 12
    tables.reset()
    assert tables.requests == 0


@pytest.mark.parametrize(
    ("fault", "there", "error"),
    [
        ("fail_before", False, UnavailableError),
        ("fail_after", True, UnavailableError),
        ("repeat", True, ObjectConditionError),  # the second try meets the first
        (None, True, None),
    ],
)
def test_faults_of_objects(fault: Fault, there: bool, error: type[Exception] | None) -> None:
    inner: Objects = MemoryObjects()
    objects = FaultyObjects(inner, fail_nth(0, fault))
    if error is None:
        objects.put("k", b"", if_absent=True)
    else:
        with pytest.raises(error):
            objects.put("k", b"", if_absent=True)
    assert bool(list(inner.list())) is there
    assert bool(list(objects.list())) is there


@pytest.mark.parametrize(
    ("fault", "there", "error"),
    [
        ("fail_before", False, UnavailableError),
        ("fail_after", True, UnavailableError),
        ("repeat", True, ConditionFailedError),
        (None, True, None),
    ],
)
def test_faults_of_tables(fault: Fault, there: bool, error: type[Exception] | None) -> None:
    inner: Tables = MemoryTables()
    tables = FaultyTables(inner, fail_nth(0, fault))
    if error is None:
        tables.put(K, {}, Absent())
    else:
        with pytest.raises(error):
            tables.put(K, {}, Absent())
    assert (inner.get(K) is not None) is there


def test_a_lost_answer_is_lost_also_when_it_was_a_refusal() -> None:
    inner = MemoryTables()
    inner.put(K, {})
    with pytest.raises(UnavailableError, match="lost"):
        FaultyTables(inner, fail_nth(0, "fail_after")).put(K, {}, Absent())


def test_a_batch_can_fail_in_its_midst() -> None:
    inner = MemoryTables()
    tables = FaultyTables(inner, fail_nth(2, "fail_before"))
    with pytest.raises(UnavailableError):
        tables.write_many([Put(Key("p", b"%03d" % number), {}) for number in range(100)])
    assert len(inner.query("p").items) == 50


def test_a_listing_can_fail_at_its_second_page() -> None:
    inner = MemoryObjects()
    for number in range(1500):
        inner.put(f"{number:04}", b"")
    listing = FaultyObjects(inner, fail_nth(1, "fail_before")).list()
    assert [next(listing).key for _ in range(1000)] == [f"{number:04}" for number in range(1000)]
    with pytest.raises(UnavailableError):
        next(listing)


def test_one_count_may_run_over_both_ports() -> None:
    boundaries = Boundaries()
    faults = fail_nth(2, "fail_before")
    objects = FaultyObjects(MemoryObjects(), faults, boundaries)
    tables = FaultyTables(MemoryTables(), faults, boundaries)
    objects.put("k", b"")
    tables.put(K, {})
    with pytest.raises(UnavailableError, match=r"request 2 \(head\)"):
        objects.head("k")
    assert boundaries.seen == ["put", "put", "head"]
