"""Whatever events are duplicated, late or reordered, the branch ends with exactly the bucket's contents."""

import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.ingester import CHUNK, Ingester
from graveler.ingest.ledger import KEEP
from graveler.ingest.results import Message, Outcome
from graveler.ingest.rules import CommitPolicy, Deletes, Overwrites, RuleStore
from graveler.lake.lake import Lake
from tests.ingest.support import BUCKET, RULE, Shore, traffic
from tests.lake.support import NAME, NAMESPACE
from tests.support.instruments import CountingTables

EVENTS = int(os.environ.get("GRAVELER_INGEST_EVENTS", "4000" if "GRAVELER_SOAK_SECONDS" in os.environ else "1000"))


def outcomes(shore: Shore, *events: ObjectEvent) -> list[Outcome]:
    return [result.outcome for result in shore.ingester().process(events).results]


@pytest.mark.parametrize("seed", range(2))
def test_many_events_end_in_what_the_bucket_holds(seed: int) -> None:
    random = Random(seed)
    shore = Shore()
    shore.add(replace(RULE, commit=CommitPolicy(objects=100)))
    events = traffic(shore.bucket, random, EVENTS * 4 // 5, EVENTS // 10)
    assert len(events) > EVENTS * 9 // 10
    workers = [shore.ingester() for _ in range(3)]
    at = 0
    while at < len(events):
        size = random.choice((1, 10, 100))
        batch = random.choice(workers).process(events[at : at + size])
        assert all(result.outcome.is_done for result in batch.results)
        assert batch.commits_failed == ()
        at += size
    assert shore.branch() == shore.bucket.held()
    assert len(shore.log()) > 1


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_order_of_one_keys_events_ends_the_same(data: st.DataObject) -> None:
    shore = Shore()
    shore.add()
    for kind in data.draw(st.lists(st.sampled_from("123-"), min_size=1, max_size=5)):
        if kind == "-":
            shore.bucket.delete("in/a")
        else:
            shore.bucket.put("in/a", kind)
    told = shore.bucket.events
    again = data.draw(st.lists(st.sampled_from(told), max_size=4))
    events = data.draw(st.permutations([*told, *again]))
    cut = data.draw(st.integers(0, len(events)))
    for part in (events[:cut], events[cut:]):
        assert all(result.outcome.is_done for result in shore.ingester().process(part).results)
    assert shore.branch() == shore.bucket.held()


def test_an_older_event_never_undoes_a_newer_one() -> None:
    shore = Shore()
    shore.add()
    first, gone, second = shore.bucket.put("in/a", "1"), shore.bucket.delete("in/a"), shore.bucket.put("in/a", "2")
    assert outcomes(shore, second) == [Outcome.STAGED]
    held = shore.branch()
    assert outcomes(shore, first) == outcomes(shore, gone) == outcomes(shore, second) == [Outcome.STALE]
    assert shore.branch() == held == shore.bucket.held()


def test_a_repeated_event_does_not_bring_back_what_somebody_deleted_from_the_branch() -> None:
    shore = Shore()
    shore.add()
    event = shore.bucket.put("in/a")
    outcomes(shore, event)
    shore.repository().delete("main", ["data/a"])
    assert outcomes(shore, event) == [Outcome.STALE]
    assert shore.branch() == {}


def test_a_commit_at_the_same_moment_loses_no_change() -> None:
    shore = Shore()
    shore.add()
    done: list[bool] = []

    def meanwhile(method: str, _: int) -> None:
        if method == "transact" and not done:  # the branch was read, and its open token is about to be sealed
            done.append(True)
            shore.repository().upload("main", "mine", b"1")
            shore.repository().commit("main", "mine")

    result = shore.ingester(meanwhile).process([shore.bucket.put("in/a")]).results[0]
    assert (done, result.outcome) == ([True], Outcome.STAGED)
    assert shore.branch() == shore.bucket.held()


def test_of_two_at_one_key_the_older_event_gives_way() -> None:
    """Also where nothing is staged, and only the last event is noted."""
    shore = Shore()
    shore.add(replace(RULE, suffixes=(".csv",), commit=CommitPolicy(marker="a")))
    first, gone, second = shore.bucket.put("in/a", "1"), shore.bucket.delete("in/a"), shore.bucket.put("in/a", "2")
    outcomes(shore, first)
    done: list[bool] = []

    def meanwhile(method: str, _: int) -> None:
        if method == "transact" and not done:
            done.append(True)
            assert outcomes(shore, second) == [Outcome.STAGED]

    assert shore.ingester(meanwhile).process([gone]).results[0].outcome is Outcome.STALE
    assert outcomes(shore, second) == [Outcome.STALE]


def test_nothing_is_copied() -> None:
    shore = Shore()
    shore.add()
    outcomes(shore, shore.bucket.put("in/x/a b+c%20.csv", "text"))
    entry = shore.repository().stat("main", "data/x/a b+c%20.csv")
    assert entry.address == "s3://landing/in/x/a b+c%20.csv"
    assert shore.repository().read("main", entry.path) == b"text"


def test_a_version_that_is_deleted_for_good_shows_the_one_below_it() -> None:
    shore = Shore()
    shore.add()
    event = shore.bucket.put("in/a", "old")
    newer = replace(event, sequencer="ff", etag="0" * 32)
    gone = replace(event, sequencer="ff1", kind=EventKind.VERSION_DELETED, version="v2")
    assert outcomes(shore, newer, gone) == [Outcome.STALE, Outcome.STAGED]
    assert shore.branch() == shore.bucket.held()
    shore.bucket.store.delete("in/a")
    outcomes(shore, replace(gone, sequencer="ff2", version="v1"))
    assert shore.branch() == {}


def test_deletes_can_be_kept_and_overwrites_refused() -> None:
    shore = Shore()
    shore.add(replace(RULE, deletes=Deletes.KEEP, overwrites=Overwrites.REFUSE))
    first = shore.bucket.put("in/a", "1")
    same, other = replace(first, sequencer="f1"), replace(first, sequencer="f2", etag="0" * 32)
    results = shore.ingester().process([first, same, other]).results
    assert [result.outcome for result in results] == [Outcome.STALE, Outcome.STAGED, Outcome.POISON]
    assert "'s3://landing/in/a' was overwritten, which rule 'r' refuses" in results[2].reason
    assert outcomes(shore, other) == [Outcome.POISON]
    assert outcomes(shore, replace(first, sequencer="f3", kind=EventKind.DELETED)) == [Outcome.SKIPPED]
    assert shore.branch() == {"data/a": first.etag}


def test_with_verify_what_vanished_or_is_another_object_by_now_is_skipped() -> None:
    shore = Shore()
    shore.add(replace(RULE, verify=True))
    first, second, gone = shore.bucket.put("in/a", "1"), shore.bucket.put("in/a", "22"), shore.bucket.put("in/b")
    shore.bucket.store.delete("in/b")
    results = shore.ingester().process([first, gone]).results
    assert [result.outcome for result in results] == [Outcome.SKIPPED] * 2
    assert outcomes(shore, second) == [Outcome.STAGED]


def test_bad_records_are_named_and_the_others_go_on() -> None:
    shore = Shore()
    shore.add()
    good = shore.bucket.put("in/good")
    batch = shore.ingester().process(
        [
            replace(good, bucket="s3://other"),
            replace(good, key="elsewhere/a"),
            replace(good, key="in/" + "x" * 1030),
            replace(good, key="in/bad", size=1 << 70),
            good,
        ]
    )
    assert [result.outcome.value for result in batch.results] == ["poison", "skipped", "poison", "poison", "staged"]
    assert "no rule applies to 's3://other'" in batch.results[0].reason
    assert shore.branch() == shore.bucket.held()


@pytest.mark.parametrize("how", ["deleted", "protected", "read-only"])
def test_a_branch_that_may_not_be_changed_is_named_and_other_rules_go_on(how: str) -> None:
    shore = Shore()
    repository = shore.repository()
    repository.create_branch("b", "main")
    shore.add(replace(RULE, branch="b"))
    other = replace(RULE, name="o", source=f"{BUCKET}/other/", destination="other/")
    shore.add(other)
    events = [shore.bucket.put("in/a"), shore.bucket.put("other/a")]
    if how == "deleted":
        repository.delete_branch("b")
    elif how == "protected":
        repository.protect(["b"])
    else:
        repository.set_read_only(True)
    first, second = shore.ingester().process(events).results
    assert first.outcome is Outcome.POISON
    assert "b" in first.reason or "read-only" in first.reason
    assert second.outcome is (Outcome.POISON if how == "read-only" else Outcome.STAGED)
    if how == "deleted":
        repository.create_branch("b", "main")
        assert outcomes(shore, events[0]) == [Outcome.STAGED]
        assert shore.branch("b") == shore.bucket.held()


def test_messages_get_the_worst_of_their_events() -> None:
    shore = Shore()
    shore.add()
    line = b'{"address": "s3://landing/in/a", "kind": "created", "sequencer": "1", "size": 1, "etag": "e", "time": 1700000000}'
    results, batch = shore.ingester().process_messages(
        [Message("1", "nonsense"), Message("2", line.decode()), Message("3", '{"Event": "s3:TestEvent"}')]
    )
    assert [result.outcome.value for result in results] == ["poison", "staged", "skipped"]
    assert "not a JSON" in results[0].reason
    assert len(batch.results) == 1


def test_a_chunk_costs_two_reads_and_a_transaction() -> None:
    shore = Shore()
    shore.add()
    tables = CountingTables(shore.tables)
    ingester = Ingester(Lake(tables, shore.objects, clock=shore.clock), shore.clock)
    assert ingester.process([shore.bucket.put("in/first")]).results[0].outcome is Outcome.STAGED
    tables.reset()
    events = [shore.bucket.put(f"in/{number}") for number in range(CHUNK)]
    assert {result.outcome for result in ingester.process(events).results} == {Outcome.STAGED}
    # The rules; the repository; last events, counts and the branch; the transaction.
    assert tables.calls == {"query": 1, "get_many": 2, "transact": 1}
    tables.reset()
    ingester.process(events)
    assert tables.calls == {"query": 1, "get_many": 2}, "what was seen before costs no write"


def test_last_events_expire_and_not_where_overwrites_are_refused() -> None:
    for overwrites, expire in ((Overwrites.REPLACE, True), (Overwrites.REFUSE, False)):
        shore = Shore()
        rule = shore.add(replace(RULE, overwrites=overwrites))
        outcomes(shore, shore.bucket.put("in/a"))
        uid = RuleStore(shore.tables).of(shore.repository().repository).uid
        items = [
            item for shard in range(16) for _, item in shore.tables.query(f"{uid}/ingest/seen/{rule.id}/{shard}").items
        ]
        assert [item.get("expires") for item in items] == [int(shore.clock.now()) + KEEP if expire else None]


def test_without_any_rule_every_event_is_skipped_and_whoever_names_a_repository_is_told() -> None:
    shore = Shore()
    event = shore.bucket.put("in/a")
    (result,) = shore.ingester().process([event]).results
    assert (result.outcome, "there is no rule" in result.reason) == (Outcome.SKIPPED, True)
    (result,) = shore.ingester().process([event], shore.repository().repository).results
    assert (result.outcome, "no rule applies to" in result.reason) == (Outcome.POISON, True)


@pytest.mark.parametrize("again", [False, True])
def test_rules_of_a_repository_that_is_gone_are_none(again: bool) -> None:
    """Also where another one has its name: the event waits among the dead letters for whoever wants it."""
    shore = Shore()
    shore.add()
    events = [shore.bucket.put("in/a"), shore.bucket.put("elsewhere/a")]
    shore.lake().delete_repository(NAME)
    if again:
        shore.lake().create_repository(NAME, NAMESPACE + "-again")
    for result in shore.ingester().process(events).results:
        assert (result.outcome, "no rule applies to 's3://landing'" in result.reason) == (Outcome.POISON, True)
