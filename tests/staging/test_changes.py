"""Items staged under tokens: the newest token counts, tombstones stay, scans are whole and in order, in bounded pages."""

from random import Random

import pytest

from graveler.errors import CorruptError, InvalidError
from graveler.model import CommitID, RepositoryUID, Token
from graveler.staging.changes import PAGE, StagedChanges, StagedReader
from graveler.staging.cleanup import LONGEST_REQUEST, SECOND_SWEEP, CleanupQueue
from graveler.staging.tokens import MAX_SHARDS, Outcomes, TokenState, new_token, shard_count
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import ConditionFailedError, Key, Value
from tests.support.instruments import CountingTables

UID = RepositoryUID("repo1")


def staged() -> tuple[StagedChanges, CountingTables]:
    tables = CountingTables(MemoryTables())
    return StagedChanges(tables, UID), tables


def test_the_newest_token_counts_also_with_a_tombstone() -> None:
    changes, _ = staged()
    old, new = new_token(), new_token(4)
    changes.put_and_look(old, b"k", b"1", ())
    changes.put_and_look(old, b"l", b"1", ())
    changes.put_and_look(new, b"k", None, ())
    changes.put_and_look(new, b"m", b"2", ())
    found = [changes.get([new, old], key) for key in (b"k", b"l", b"m", b"n")]
    assert [None if item is None else item.packed for item in found] == [None, b"1", b"2", None]
    assert found[0] is not None, "a tombstone is something"
    assert list(changes.scan([new, old])) == [(b"k", None), (b"l", b"1"), (b"m", b"2")]
    assert list(changes.scan([old, new])) == [(b"k", b"1"), (b"l", b"1"), (b"m", b"2")]


def test_a_look_at_one_key_is_one_request_whatever_the_tokens() -> None:
    changes, tables = staged()
    changes.get([new_token(shards) for shards in (1, 4, 64)], b"k")
    assert tables.calls == {"get_many": 1}


@pytest.mark.parametrize("seed", range(8))
def test_scans_are_the_newest_of_each_key_in_order(seed: int) -> None:
    random = Random(seed)
    changes, _ = staged()
    tokens = [new_token(random.choice((1, 2, 8))) for _ in range(random.randrange(1, 4))]  # the newest first
    keys = [f"{random.choice('abé')}/{n:04}".encode() for n in range(random.choice((3, 300, 3000)))]
    model: dict[bytes, bytes | None] = {}
    for token in reversed(tokens):
        chosen = {key: random.choice((None, b"v%d" % random.randrange(9))) for key in keys if random.random() < 0.5}
        changes.put_many(token, list(chosen.items()))
        model.update(chosen)
    assert list(changes.scan(tokens)) == sorted(model.items())
    assert changes.exists(tokens) == bool(model)
    reader = StagedReader(changes, tokens)
    for _ in range(20):
        start, end = sorted(random.choice([*keys, b"", b"zz"]) for _ in range(2))
        expected = [(key, value) for key, value in sorted(model.items()) if start <= key < end]
        assert list(changes.scan(tokens, start, end)) == expected
        limit = random.choice((1, 2, 10, PAGE))
        chunk = changes.chunk(tokens, start, end, limit)
        assert list(zip(chunk.keys, chunk.packed, strict=True)) == expected[: len(chunk.keys)]
        if chunk.complete_upto is None:
            assert len(chunk.keys) == len(expected)
        else:
            assert chunk.keys[-1] == chunk.complete_upto
    # One reader that goes on: some records before a place may come too, never after a gap.
    place = b""
    for _ in range(10):
        place = max(place, random.choice(keys))
        assert next(iter(reader.scan(place, None)), None) == next(
            ((key, value) for key, value in sorted(model.items()) if key >= place), None
        )


def test_a_reader_that_goes_on_inside_its_page_asks_nothing() -> None:
    changes, tables = staged()
    token = new_token()
    changes.put_many(token, [(b"%04d" % n, None) for n in range(1500)])
    tables.reset()
    reader = StagedReader(changes, [token])
    for start in range(0, 1000, 50):
        chunk = reader.chunk(b"%04d" % start, None)
        assert chunk.complete_upto == b"0999"
    assert tables.calls == {"query": 1}
    assert len(list(reader.scan(b"0500", None))) == 1000
    assert tables.calls == {"query": 2}


def test_removing_leaves_nothing_and_other_tokens_alone() -> None:
    changes, _ = staged()
    one, other = new_token(3), new_token()
    changes.put_many(one, [(b"%04d" % n, b"x") for n in range(2500)])
    changes.put_and_look(other, b"k", b"1", ())
    assert not changes.remove(one, limit=100)
    while not changes.remove(one):
        pass
    assert not changes.exists([one])
    assert changes.exists([other])


@pytest.mark.parametrize("shards", [0, -1, MAX_SHARDS + 1])
def test_shards_are_bounded(shards: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {MAX_SHARDS}"):
        new_token(shards)


def test_tokens_tell_their_shards_and_are_all_different() -> None:
    assert [shard_count(new_token(n)) for n in (1, 7, MAX_SHARDS)] == [1, 7, MAX_SHARDS]
    assert len({new_token() for _ in range(1000)}) == 1000


def test_a_key_always_falls_in_the_same_shard_and_keys_spread() -> None:
    changes, _ = staged()
    token = new_token(8)
    partitions = {place.partition for n in range(200) for place in changes.keys([token], b"k%d" % n)}
    assert len(partitions) == 8
    assert partitions == set(changes.partitions(token))


def test_items_that_are_no_records_are_corrupt() -> None:
    changes, tables = staged()
    token = new_token()
    (place,) = changes.keys([token], b"k")
    tables.put(place, {"record": "text"})
    with pytest.raises(CorruptError, match="staged item"):
        changes.get([token], b"k")


def test_keys_are_those_of_the_table() -> None:
    changes, _ = staged()
    changes.put_and_look(new_token(), b"x" * 1024, b"1", ())
    for key in (b"", b"x" * 1025):
        with pytest.raises(InvalidError):
            changes.put_and_look(new_token(), key, b"1", ())


# Outcomes


def test_a_claim_is_made_once_and_renewed_by_its_owner_alone() -> None:
    tables = MemoryTables()
    outcomes, token = Outcomes(tables, UID), new_token()
    assert outcomes.get(token) is None
    tables.transact([outcomes.seal_write(token, "me", 6.5, "request")])
    with pytest.raises(ConditionFailedError):
        tables.transact([outcomes.seal_write(token, "other", 6.0)])
    with pytest.raises(ConditionFailedError):
        tables.transact([outcomes.renew_write(token, "other", 6.0)])
    beats = set()
    for seconds in (6.5, 20.0, 20.0):
        outcome = outcomes.get(token)
        assert outcome is not None
        assert outcome.beat
        assert (outcome.state, outcome.owner, outcome.request) == (TokenState.SEALED, "me", "request")
        assert outcome.seconds == seconds
        beats.add(outcome.beat)
        tables.transact([outcomes.renew_write(token, "me", 20.0, "request")])
    assert len(beats) == 3, "each renewal is a new beat"
    tables.transact([outcomes.renew_write(token, "me", 0.0, "request")])
    outcome = outcomes.get(token)
    assert outcome is not None
    assert not outcome.beat, "it was given back"
    tables.transact([outcomes.decide_write(token, TokenState.PUBLISHED, "me", 120.0, CommitID("c" * 64))])
    with pytest.raises(ConditionFailedError):
        tables.transact([outcomes.renew_write(token, "me", 6.0)])
    outcome = outcomes.get(token)
    assert outcome is not None
    assert not outcome.beat
    assert outcome.commit_id == "c" * 64
    assert outcomes.get_many((token, new_token())) == [outcome, None]


@pytest.mark.parametrize(
    "item", [{}, {"state": "sealed"}, {"state": "unheard of", "owner": "me"}, {"state": 1, "owner": "me"}]
)
def test_outcomes_that_cannot_be_read_are_corrupt(item: dict[str, str]) -> None:
    tables = MemoryTables()
    outcomes, token = Outcomes(tables, UID), new_token()
    tables.put(outcomes.key(token), item)
    with pytest.raises(CorruptError, match="staging token"):
        outcomes.get(token)


# Clean-up


def test_the_queue_sweeps_late_and_twice_in_the_order_of_time() -> None:
    changes, tables = staged()
    queue = CleanupQueue(tables, UID)
    first, second = new_token(), new_token(2)
    for time, token in ((1000.0, first), (1100.0, second)):
        changes.put_and_look(token, b"k", b"1", ())
        tables.transact([queue.add_write(token, time)])
    assert list(queue.waiting()) == [first, second]
    assert queue.sweep(changes, 1000.0 + LONGEST_REQUEST) == 0
    assert queue.sweep(changes, 1000.1 + LONGEST_REQUEST) == 1
    assert not changes.exists([first])
    assert changes.exists([second])
    changes.put_and_look(first, b"late", b"1", ())
    now = 1200.0 + LONGEST_REQUEST
    assert queue.sweep(changes, now) == 1
    assert list(queue.waiting()) == [first, second]
    assert queue.sweep(changes, now + SECOND_SWEEP + 1) == 2
    assert not changes.exists([first, second])
    assert list(queue.waiting()) == []


def test_a_sweep_with_nothing_due_is_one_request() -> None:
    changes, tables = staged()
    queue = CleanupQueue(tables, UID)
    tables.transact([queue.add_write(new_token(), 1000.0)])
    tables.reset()
    assert queue.sweep(changes, 1001.0) == 0
    assert tables.calls == {"query": 1}


def test_a_sweep_takes_some_tokens_at_a_time_and_may_run_twice_at_once() -> None:
    changes, tables = staged()
    queue = CleanupQueue(tables, UID)
    for _ in range(25):
        token = new_token()
        changes.put_and_look(token, b"k", None, ())
        tables.transact([queue.add_write(token, 0.0)])
    assert [queue.sweep(changes, 10_000.0) for _ in range(4)] == [10, 10, 5, 0]
    assert len(list(queue.waiting())) == 25
    place, _ = min(tables.query(f"{UID}/cleanup").items)
    tables.delete(Key(f"{UID}/cleanup", place))  # another process was faster
    assert queue.sweep(changes, 1e9) == 10


def test_a_whole_sweep_removes_all_of_large_tokens_as_long_as_it_may() -> None:
    """A commit takes the occasion for a thousand items of a token; who has the time goes on, or what is due only grows."""
    changes, tables = staged()
    queue = CleanupQueue(tables, UID)
    tokens = sorted(new_token() for _ in range(3))
    for token in tokens:
        changes.put_many(token, [(b"%05d" % number, None) for number in range(2 * PAGE + 1)])
        tables.transact([queue.add_write(token, 0.0)])
    assert queue.sweep(changes, 10_000.0) == 0
    allowed = iter([True] * 3 + [False])
    assert queue.sweep_all(changes, 10_000.0, lambda: next(allowed)) == 1
    assert queue.sweep_all(changes, 10_000.0, lambda: True) == 2
    assert not changes.exists(tokens)
    assert queue.sweep_all(changes, 10_000.0, lambda: True) == 0
    assert list(queue.waiting()) == tokens, "the second sweep is a day later"
    assert queue.sweep_all(changes, 1e9, lambda: True) == 3
    assert list(queue.waiting()) == []


def test_the_queue_lists_more_than_a_page() -> None:
    tables = MemoryTables()
    queue = CleanupQueue(tables, UID)
    tokens = [new_token() for _ in range(1200)]
    for number, token in enumerate(tokens):
        tables.transact([queue.add_write(token, float(number))])
    assert list(queue.waiting()) == tokens
    assert Token("none") not in tokens


@pytest.mark.parametrize("token", ["", "t", "t-", "t-x", "t-0", "t-65", "t-1 ", "t-\u0661", "t-" + "9" * 5000])
def test_what_is_no_token_is_corrupt(token: str) -> None:
    with pytest.raises(CorruptError, match="is not a staging token"):
        shard_count(Token(token))


@pytest.mark.parametrize("state", ["new", "", None, 1, ["sealed"]])
def test_an_unknown_outcome_is_corrupt(state: Value | None) -> None:
    tables = MemoryTables()
    outcomes = Outcomes(tables, UID)
    token = new_token()
    item: dict[str, Value] = {"owner": "me"}
    if state is not None:
        item["state"] = state
    tables.put(outcomes.key(token), item)
    with pytest.raises(CorruptError, match="has no state and owner"):
        outcomes.get(token)


def test_the_clean_up_passes_over_entries_that_make_no_sense() -> None:
    changes, tables = staged()
    queue = CleanupQueue(tables, UID)
    partition = f"{UID}/cleanup"
    senseless: list[dict[str, Value]] = [
        {},
        {"token": "t-1"},
        {"sweep": 1},
        {"token": "t-1", "sweep": 3},
        {"token": "t", "sweep": 1},
        {"token": 7, "sweep": 1},
        {"token": "t-1", "sweep": "1"},
    ]
    for number in range(35):
        tables.put(Key(partition, number.to_bytes(9, "big")), senseless[number % len(senseless)])
    token = new_token()
    changes.put_and_look(token, b"k", b"1", ())
    write = queue.add_write(token, 0.0)
    tables.put(write.key, write.item)
    assert list(queue.waiting()) == [token]
    assert queue.sweep(changes, LONGEST_REQUEST + 1.0) == 1
    assert not changes.exists([token])
    assert len(tables.query(partition).items) == 36  # for fsck; and the second sweep
