"""The contract of every adapter of the port *tables*."""

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError, PreconditionError
from graveler.storage.tables.port import (
    Absent,
    Check,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Query,
    QueryPage,
    Tables,
    Value,
    Write,
)
from tests.storage.adapters import EXAMPLES, TABLES

K = Key("partition", b"sort")
OTHER = Key("partition", b"other")
ITEM: Item = {"text": "ü", "bytes": b"\0\xff", "number": -(2**63), "big": 2**63 - 1, "flag": True, "list": ["a", ""]}


def test_an_item_comes_back_as_it_was_put(tables: Tables) -> None:
    assert tables.get(K) is None
    tables.put(K, ITEM)
    found = tables.get(K)
    assert found == ITEM
    assert found is not None
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in ITEM.items()}
    tables.put(K, {})
    assert tables.get(K) == {}
    tables.delete(K)
    assert tables.get(K) is None
    tables.delete(K)


def test_a_stored_item_is_not_changed_through_a_reference(tables: Tables) -> None:
    names = ["a"]
    item: dict[str, Value] = {"names": names}
    tables.put(K, item)
    names.append("b")
    item["more"] = 1
    assert tables.get(K) == {"names": ["a"]}


def test_many_items_come_in_the_order_that_was_asked_for(tables: Tables) -> None:
    keys = [Key(f"p{number % 3}", b"%03d" % number) for number in range(250)]
    tables.write_many([Put(key, {"n": number}) for number, key in enumerate(keys) if number % 2])
    asked = [*reversed(keys), keys[1], keys[1]]
    expected = [{"n": number} if number % 2 else None for number in reversed(range(250))] + [{"n": 1}] * 2
    assert tables.get_many(asked) == expected
    assert tables.get_many([]) == []


@pytest.mark.parametrize(
    ("condition", "when_there", "when_missing"),
    [
        (Absent(), False, True),
        (Matches(), True, False),
        (Matches({"a": 1}), True, False),
        (Matches({"a": 1, "b": "x"}), True, False),
        (Matches({"a": 2}), False, False),
        (Matches({"a": True}), False, False),
        (Matches({"b": b"x"}), False, False),
        (Matches({"c": None}), True, False),
        (Matches({"a": None}), False, False),
        (Matches({"l": ["p", "q"]}), True, False),
        (Matches({"l": ["q", "p"]}), False, False),
        (Matches({"c": ""}), False, False),
    ],
)
def test_conditions(
    tables: Tables, condition: Condition, when_there: bool, when_missing: bool, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["tables"] == "moto" and condition == Matches({"a": True}):
        pytest.skip("moto takes 1 for True")
    item: Item = {"a": 1, "b": "x", "l": ["p", "q"]}
    for there, expected in ((True, when_there), (False, when_missing)):
        for write in (Put(K, {"new": 1}, condition), Delete(K, condition), Check(K, condition)):
            tables.write_many([Put(K, item) if there else Delete(K), Delete(OTHER)])
            if expected:
                tables.transact([Put(OTHER, {}), write])
                assert tables.get(OTHER) == {}
            else:
                with pytest.raises(ConditionFailedError) as caught:
                    tables.transact([Put(OTHER, {}), write])
                assert caught.value.failures == {1: item if there else None}
                assert tables.get_many([K, OTHER]) == [item if there else None, None]


def test_conditions_of_single_writes(tables: Tables) -> None:
    tables.put(K, {"n": 1}, Absent())
    with pytest.raises(ConditionFailedError) as caught:
        tables.put(K, {"n": 2}, Absent())
    assert caught.value.failures == {0: {"n": 1}}
    assert isinstance(caught.value, PreconditionError)
    tables.put(K, {"n": 2}, Matches({"n": 1}))
    with pytest.raises(ConditionFailedError):
        tables.delete(K, Matches({"n": 1}))
    tables.delete(K, Matches({"n": 2}))
    with pytest.raises(ConditionFailedError) as caught:
        tables.delete(K, Matches())
    assert caught.value.failures == {0: None}


def test_replace_and_get_reads_what_stands_there_when_the_item_is_in_its_place(tables: Tables) -> None:
    other, none = Key("p", b"other"), Key("q", b"none")
    tables.put(other, {"n": 7})
    assert tables.replace_and_get(K, {"n": 1}, [other, none]) == (None, [{"n": 7}, None])
    assert tables.replace_and_get(K, {"n": 2}, [none, other]) == ({"n": 1}, [None, {"n": 7}])
    assert tables.get(K) == {"n": 2}
    assert tables.get_many([other, K, none, K]) == [{"n": 7}, {"n": 2}, None, {"n": 2}]


def test_replace_returns_what_stood_there(tables: Tables) -> None:
    assert tables.replace(K, {"n": 1, "b": b"\0"}) is None
    assert tables.replace(K, {}) == {"n": 1, "b": b"\0"}
    assert tables.replace(K, {"n": 3}) == {}
    assert tables.get(K) == {"n": 3}
    with pytest.raises(InvalidError):
        tables.replace(K, {"b": bytes(400_001)})
    assert tables.get(K) == {"n": 3}


def test_a_transaction_names_every_condition_that_failed(tables: Tables) -> None:
    tables.put(K, {"n": 1})
    with pytest.raises(ConditionFailedError) as caught:
        tables.transact([Check(K, Absent()), Put(OTHER, {}, Absent()), Delete(Key("q", b"x"), Matches())])
    assert caught.value.failures == {0: {"n": 1}, 2: None}
    assert tables.get(OTHER) is None


def test_a_transaction_of_nothing_does_nothing(tables: Tables) -> None:
    tables.transact([])
    tables.write_many([])


def test_queries(tables: Tables) -> None:
    sorts = [b"\0", b"a", b"a\0", b"aa", b"b", b"b\xff", b"\xc3\xa4", b"\xff", b"\xff" * 1024]
    tables.write_many([Put(Key("p", sort), {"s": sort}) for sort in reversed(sorts)])
    tables.write_many([Put(Key("p2", b"a"), {}), Put(Key("o", b"a"), {})])

    def found(start: bytes = b"", end: bytes | None = None, limit: int = 1000, descending: bool = False) -> QueryPage:
        return tables.query("p", start=start, end=end, limit=limit, descending=descending)

    everything: list[tuple[bytes, Item]] = [(sort, {"s": sort}) for sort in sorts]
    assert found() == QueryPage(everything, False)
    assert found(descending=True) == QueryPage(everything[::-1], False)
    assert found(start=b"a", end=b"b") == QueryPage(everything[1:4], False)
    assert found(start=b"a", end=b"b", limit=2) == QueryPage(everything[1:3], True)
    assert found(start=b"a", end=b"b", limit=2, descending=True) == QueryPage(everything[2:4][::-1], True)
    assert found(end=b"a") == QueryPage(everything[:1], False)
    assert found(start=b"b", end=b"a") == QueryPage([], False)
    assert found(start=b"b", end=b"b") == QueryPage([], False)
    assert found(end=b"") == QueryPage([], False)
    assert found(limit=9).items == everything
    assert tables.query("nothing here") == QueryPage([], False)


def test_a_scan_goes_on_behind_the_longest_keys(tables: Tables) -> None:
    longest, last = b"a\xff" + bytes(1022), b"\xff" * 1024
    sorts = [b"a", longest, b"b", last]
    tables.write_many([Put(Key("p", sort), {}) for sort in sorts])
    seen, start = [], b""
    while True:
        page = tables.query("p", start=start, limit=1)
        seen += [sort for sort, _ in page.items]
        if not page.more:
            break
        start = page.items[-1][0] + b"\0"
    assert seen == sorts
    assert tables.query("p", start=last + b"\0") == QueryPage([], False)
    assert [sort for sort, _ in tables.query("p", end=longest + b"\0").items] == sorts[:2]
    assert [sort for sort, _ in tables.query("p", start=longest + b"\0", end=last).items] == [b"b"]


def test_several_queries_are_answered_in_their_order(tables: Tables) -> None:
    tables.write_many([Put(Key(f"p{n}", b"%d" % at), {"n": n}) for n in range(20) for at in range(n % 3)])
    asked = [Query(f"p{n}", limit=1, descending=bool(n % 2)) for n in reversed(range(20))]
    expected = [tables.query(q.partition, limit=1, descending=q.descending) for q in asked]
    assert tables.query_many(asked) == expected
    assert tables.query_many([]) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_query_for_nothing_is_refused(tables: Tables, limit: int) -> None:
    with pytest.raises(InvalidError, match="limit"):
        tables.query("p", limit=limit)


@pytest.mark.parametrize(
    "key",
    [
        Key("p", b""),
        Key("p", b"x" * 1025),
        Key("", b"x"),
        Key("x" * 2049, b"x"),
        Key("ä" * 1025, b"x"),
        Key("\ud800", b"x"),
    ],
)
def test_keys_beyond_the_limits_are_refused(tables: Tables, key: Key) -> None:
    for call in (
        lambda: tables.get(key),
        lambda: tables.get_many([K, key]),
        lambda: tables.put(key, {}),
        lambda: tables.replace(key, {}),
        lambda: tables.delete(key),
        lambda: tables.write_many([Put(K, {}), Delete(key)]),
        lambda: tables.transact([Put(K, {}), Check(key, Absent())]),
    ):
        with pytest.raises(InvalidError):
            call()
    assert tables.get(K) is None


def test_keys_at_the_limits(tables: Tables) -> None:
    for key in (Key("p" * 2048, b"x" * 1024), Key("ä" * 1024, b"\0"), Key("a\0b", b"a\0b"), Key("a\0c", b"a\0b")):
        tables.put(key, {"p": key.partition})
        assert tables.get(key) == {"p": key.partition}
        assert tables.query(key.partition).items == [(key.sort, {"p": key.partition})]


def test_an_item_has_at_most_400_kilobytes(tables: Tables) -> None:
    # Names count as well as values: 2 for the key's, 13 for the key, 1 for "b".
    tables.put(K, {"b": bytes(400_000 - 2 - 13 - 1)})
    values: list[Value] = [bytes(400_000 - 2 - 13), "ä" * 200_000, ["x" * 99] * 4000]
    for value in values:
        with pytest.raises(InvalidError, match="400,000"):
            tables.put(OTHER, {"b": value})
        with pytest.raises(InvalidError, match="400,000"):
            tables.write_many([Put(OTHER, {"b": value})])
        with pytest.raises(InvalidError, match="400,000"):
            tables.transact([Put(OTHER, {"b": value})])
    assert tables.get(OTHER) is None


@pytest.mark.parametrize(
    "value", [None, 1.5, {"a": 1}, ("a",), [1], [b"x"], 2**64, -(2**63) - 1, "\ud800", ["\ud800"], bytearray()]
)
def test_what_is_no_value_is_refused(tables: Tables, value: object) -> None:
    with pytest.raises(InvalidError):
        tables.put(K, {"a": value})  # type: ignore[dict-item]
    assert tables.get(K) is None


def test_a_transaction_has_at_most_100_writes_of_distinct_keys(tables: Tables) -> None:
    keys = [Key("p", b"%03d" % number) for number in range(101)]
    tables.transact([Put(key, {}) for key in keys[:100]])
    with pytest.raises(InvalidError, match="at most 100"):
        tables.transact([Put(key, {}) for key in keys])
    pairs: list[list[Write]] = [[Put(K, {}), Delete(K)], [Put(K, {}), Check(K, Absent())]]
    for writes in pairs:
        with pytest.raises(InvalidError, match="same key"):
            tables.transact(writes)
    with pytest.raises(InvalidError, match="4,000,000"):
        tables.transact([Put(key, {"b": bytes(390_000)}) for key in keys[:11]])
    assert tables.get(K) is None


def test_a_batch_has_distinct_keys_and_no_conditions(tables: Tables) -> None:
    with pytest.raises(InvalidError, match="same key"):
        tables.write_many([Put(K, {}), Delete(K)])
    with pytest.raises(InvalidError, match="condition"):
        tables.write_many([Put(K, {}, Absent())])
    assert tables.get(K) is None


def test_threads_that_count_lose_nothing(tables: Tables, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["tables"] == "moto":
        pytest.skip("moto looks at a condition and writes in two steps")
    tables.put(K, {"n": 0})

    def count() -> None:
        done = 0
        while done < 50:
            item = tables.get(K)
            assert item is not None
            number = item["n"]
            assert isinstance(number, int)
            try:
                tables.put(K, {"n": number + 1}, Matches({"n": number}))
            except ConditionFailedError:
                continue
            done += 1

    threads = [Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tables.get(K) == {"n": 300}


# Against a dict

SORTS = st.one_of(st.sampled_from([b"a", b"aa", b"b", b"\0", b"\xff"]), st.binary(min_size=1, max_size=3))
TABLE_KEYS = st.builds(Key, st.sampled_from(["p", "q", "pp", "ä"]), SORTS)
VALUES = st.one_of(
    st.sampled_from([0, 1, True, False, "", "x", b"", b"x", ["x"]]),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.text(max_size=3), max_size=3),
)
NAMES = st.sampled_from(["a", "b", "c"])
ITEMS = st.dictionaries(NAMES, VALUES, max_size=3)
CONDITIONS = st.one_of(
    st.just(Absent()), st.builds(Matches, st.dictionaries(NAMES, st.one_of(st.none(), VALUES), max_size=2))
)
PUTS = st.builds(Put, TABLE_KEYS, ITEMS)
DELETES = st.builds(Delete, TABLE_KEYS)
CONDITIONAL = st.one_of(
    PUTS,
    DELETES,
    st.builds(Put, TABLE_KEYS, ITEMS, CONDITIONS),
    st.builds(Delete, TABLE_KEYS, CONDITIONS),
    st.builds(Check, TABLE_KEYS, CONDITIONS),
)


def _distinct(writes: st.SearchStrategy[Write]) -> st.SearchStrategy[list[Write]]:
    return st.lists(writes, max_size=6, unique_by=lambda write: write.key)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("transact"), _distinct(CONDITIONAL)),
        st.tuples(st.just("write_many"), _distinct(st.one_of(PUTS, DELETES))),
        st.tuples(
            st.just("query"),
            st.tuples(
                st.sampled_from(["p", "q", "pp", "ä"]),
                st.one_of(st.just(b""), SORTS),
                st.one_of(st.none(), SORTS),
                st.integers(1, 4),
                st.booleans(),
            ),
        ),
    ),
    max_size=15,
)


@pytest.mark.parametrize("adapter", sorted(TABLES))
def test_it_does_what_a_dict_does(adapter: str) -> None:
    @settings(deadline=None, max_examples=EXAMPLES.get(adapter, 60))
    @given(steps=STEPS)
    def explore(steps: list[tuple[str, object]]) -> None:
        does_what_a_dict_does(adapter, steps)

    explore()


def does_what_a_dict_does(adapter: str, steps: list[tuple[str, object]]) -> None:
    model: dict[Key, Item] = {}
    with TemporaryDirectory() as folder, TABLES[adapter](Path(folder)) as tables:
        for verb, argument in steps:
            if verb == "query":
                assert isinstance(argument, tuple)
                partition, start, end, limit, descending = argument
                page = tables.query(partition, start=start, end=end, limit=limit, descending=descending)
                wanted = sorted(
                    (
                        (key.sort, item)
                        for key, item in model.items()
                        if key.partition == partition and start <= key.sort and (end is None or key.sort < end)
                    ),
                    key=lambda pair: pair[0],
                    reverse=descending,
                )
                assert page.items == wanted[:limit]
                assert page.more == (len(wanted) > limit)
                continue
            assert isinstance(argument, list)
            if verb == "write_many":
                tables.write_many(argument)
                _apply(model, argument)
                continue
            failures = {
                position: model.get(write.key)
                for position, write in enumerate(argument)
                if not _expected(write.condition, model.get(write.key))
            }
            if failures:
                with pytest.raises(ConditionFailedError) as caught:
                    tables.transact(argument)
                assert caught.value.failures == failures
            else:
                tables.transact(argument)
                _apply(model, argument)
        keys = sorted(model, key=lambda key: (key.partition, key.sort))
        assert tables.get_many(keys) == [model[key] for key in keys]
        assert [tables.get(key) for key in keys] == [model[key] for key in keys]


def _apply(model: dict[Key, Item], writes: list[Write]) -> None:
    for write in writes:
        if isinstance(write, Put):
            model[write.key] = write.item
        elif isinstance(write, Delete):
            model.pop(write.key, None)


def _expected(condition: Condition | None, item: Item | None) -> bool:
    if condition is None:
        return True
    if isinstance(condition, Absent):
        return item is None
    return item is not None and all(
        (name not in item) if wanted is None else (name in item and repr(item[name]) == repr(wanted))
        for name, wanted in condition.attributes.items()
    )
