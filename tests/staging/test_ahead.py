"""Pages of staged changes: each read once, the next of each shard on its way while one is used, all in key order."""

from collections import Counter
from collections.abc import Sequence
from threading import Event, Lock, get_ident
from typing import Any

import pytest

from graveler.errors import CorruptError
from graveler.model import RepositoryUID, Token
from graveler.staging.changes import PAGE, StagedChanges, records_of
from graveler.staging.partition_scan import ReadAhead
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Item, Key, LocalTables, Put, Query, QueryPage
from tests.support.patience import PATIENCE


class Slow(MemoryTables):
    """Counts queries; those that go on where another one ended wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()
        self.asked: Counter[str] = Counter()
        self.begun = Event()
        self.let_go = Event()
        self.let_go.set()

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        with self.lock:
            self.asked[partition] += 1
        if start:
            self.begun.set()
            assert self.let_go.wait(PATIENCE)
        return super().query(partition, start=start, end=end, limit=limit, descending=descending)


def staged(tables: Slow, shards: int, count: int) -> tuple[StagedChanges, Token, list[bytes]]:
    changes = StagedChanges(tables, RepositoryUID("r"), shards)
    token = changes.first_token()
    keys = [b"%06d" % number for number in range(count)]
    changes.put_many(token, [(key, b"1") for key in keys])
    return changes, token, keys


@pytest.mark.parametrize("shards", [1, 2, 8])
def test_each_page_is_read_once(shards: int) -> None:
    tables = Slow()
    changes, token, keys = staged(tables, shards, 12_000)
    assert [key for key, _ in changes.scan([token])] == keys
    sizes = [len(MemoryTables.query(tables, place, limit=12_000).items) for place in changes.partitions(token)]
    assert [tables.asked[place] for place in changes.partitions(token)] == [-(-size // PAGE) for size in sizes]


def test_the_next_page_is_on_its_way_while_one_is_used() -> None:
    tables = Slow()
    changes, token, keys = staged(tables, 8, 10_000)
    tables.let_go.clear()
    scan = changes.scan([token])
    assert next(scan)[0] == keys[0]
    assert tables.begun.wait(PATIENCE)  # nobody has asked for more than the first change
    tables.let_go.set()
    assert [key for key, _ in scan] == keys[1:]


def test_newer_tokens_count_wherever_their_pages_end() -> None:
    tables = Slow()
    older, newer = Token("older-2"), Token("newer-1")
    changes = StagedChanges(tables, RepositoryUID("r"))
    newest = changes.first_token()
    old, new = {b"%05d" % n: b"old" for n in range(5_000)}, {b"%05d" % n: None for n in range(0, 9_000, 3)}
    changes.put_many(older, list(old.items()))
    changes.put_many(newer, list(new.items()))
    changes.put_many(newest, [(b"00003", b"newest")])
    expected: dict[bytes, bytes | None] = {**old, **new, b"00003": b"newest"}
    assert list(changes.scan([newest, newer, older])) == sorted(expected.items())
    inside = [pair for pair in sorted(expected.items()) if b"00100" <= pair[0] < b"04100"]
    assert list(changes.scan([newest, newer, older], b"00100", b"04100")) == inside
    assert list(changes.scan([])) == []


def test_an_error_of_a_page_ahead_reaches_who_reads() -> None:
    class Failing(MemoryTables):
        def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
            return [MemoryTables.query(self, one.partition, limit=one.limit) for one in queries]

        def query(self, *_: object, **__: object) -> QueryPage:
            raise OSError("gone")

    tables = Failing()
    tables.write_many([Put(Key("p", b"%d" % number), {"record": b"1"}) for number in range(5)])
    read: list[bytes] = []
    with pytest.raises(OSError, match="gone"):
        read.extend(key for key, _ in ReadAhead[bytes | None](tables, [Query("p", limit=3)], records_of))
    assert read == [b"0", b"1", b"2"]  # those of the page before


class Local(Slow):
    """Tables whose requests take no waiting. Notes the threads that ask."""

    is_local = True

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def query(self, partition: str, **terms: Any) -> QueryPage:
        self.threads.add(get_ident())
        return super().query(partition, **terms)


@pytest.mark.parametrize("shards", [1, 8])
def test_where_nothing_has_to_be_waited_for_the_reader_reads_each_page_when_it_needs_it(shards: int) -> None:
    tables = Local()
    assert isinstance(tables, LocalTables)
    changes, token, keys = staged(tables, shards, 12_000)
    scan = changes.scan([token])
    assert next(scan)[0] == keys[0]
    assert tables.asked.total() == shards
    assert [key for key, _ in scan] == keys[1:]
    sizes = [len(MemoryTables.query(tables, place, limit=12_000).items) for place in changes.partitions(token)]
    assert [tables.asked[place] for place in changes.partitions(token)] == [-(-size // PAGE) for size in sizes]
    assert tables.threads == {get_ident()}


def test_a_staged_item_that_is_no_record_is_named() -> None:
    items: list[Item] = [{"record": b"1"}, {}, {"record": "text"}]
    assert records_of(items[:2]) == [b"1", None]
    with pytest.raises(CorruptError, match="'text', which is not a record"):
        records_of(items)
