"""One history has one result, whatever is late, duplicated or split, and whenever somebody reconciles."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from random import Random

import pytest
from msgspec.structs import replace

from graveler.errors import BusyError
from graveler.ingest.events import ObjectEvent
from graveler.ingest.reconcile import Reconciler
from graveler.ingest.results import Outcome, Result
from graveler.ingest.rules import CommitPolicy, Deletes, Rule, RuleStore
from tests.ingest.support import RULE, Shore
from tests.ingest.versions import KEYS, VersionedBucket
from tests.lake.support import NAME, Schedule
from tests.support.campaigns import WHOLE, share
from tests.support.instruments import Fault

HISTORIES = range(3000 if WHOLE else 60)
VERSIONED = pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
DELETES = pytest.mark.parametrize("deletes", list(Deletes), ids=lambda deletes: deletes.value)


class Beach(Shore):
    """A shore whose bucket may have versions."""

    def __init__(self, versioned: bool, rule: Rule = RULE) -> None:
        super().__init__()
        self.versions = VersionedBucket(self.clock, versioned)
        self.bucket.store = self.versions.store
        self.rule = self.add(rule)

    def take(self, *events: ObjectEvent, schedule: Schedule | None = None) -> list[Outcome]:
        results = self.ingester(schedule).process(events).results
        assert all(result.outcome.is_done for result in results), results
        return [result.outcome for result in results]

    def reconcile(self, schedule: Schedule | None = None) -> None:
        lake = self.lake(schedule)
        report = Reconciler(lake.tables, self.clock).reconcile(lake.repository(NAME), self.rule)
        assert report.refused == ()


def cuts(random: Random, events: Sequence[ObjectEvent]) -> Iterator[Sequence[ObjectEvent]]:
    """The events in batches."""
    left = list(events)
    while left:
        size = random.choice((1, 2, 3, len(left)))
        yield left[:size]
        del left[:size]


@VERSIONED
@DELETES
@pytest.mark.parametrize("reconciles", [False, True], ids=["events alone", "reconciled"])
def test_any_order_and_cut_of_any_history_ends_the_same(versioned: bool, deletes: Deletes, reconciles: bool) -> None:
    for seed in share(HISTORIES, 4, f"late {versioned} {deletes} {reconciles}"):
        random = Random(seed)
        beach = Beach(versioned, replace(RULE, deletes=deletes))
        bucket, told = beach.versions, 0
        waiting: list[ObjectEvent] = []
        for _ in range(random.randrange(1, 12)):
            bucket.change(random, random.choice(KEYS))
            waiting += bucket.events[told:]
            told = len(bucket.events)
            if random.random() < 0.2:
                random.shuffle(waiting)
                some = random.randrange(len(waiting) + 1)
                beach.take(*waiting[:some])
                del waiting[: max(0, some - random.choice((0, 0, 1)))]  # one may come again
            if reconciles and random.random() < 0.3:
                beach.reconcile()
        waiting += random.choices(bucket.events, k=2)
        random.shuffle(waiting)
        for batch in cuts(random, waiting):
            beach.take(*batch)
            if reconciles and random.random() < 0.2:
                beach.reconcile()
        assert beach.branch() == bucket.wanted(deletes), seed


@VERSIONED
@DELETES
def test_no_order_of_one_keys_events_and_no_cut_tells(versioned: bool, deletes: Deletes) -> None:
    """All orders and all cuts, of histories of up to three changes."""
    histories = [steps for length in (1, 2, 3) for steps in product("pqdv" if versioned else "pqd", repeat=length)]
    for steps in share(histories, 3, f"orders {versioned} {deletes}"):
        made = told_of(steps, versioned)
        if made is None:
            continue
        for order in permutations(range(len(made.events))):
            for cut in product((False, True), repeat=len(order) - 1):
                beach = Beach(versioned, replace(RULE, deletes=deletes))
                for step in steps:
                    happen(beach.versions, step)
                batch: list[ObjectEvent] = []
                for number, ends in zip(order, (*cut, True), strict=True):
                    batch.append(beach.versions.events[number])
                    if ends:
                        beach.take(*batch)
                        batch = []
                assert beach.branch() == beach.versions.wanted(deletes), (steps, order, cut)


@VERSIONED
@DELETES
@pytest.mark.parametrize("had", ["no rule", "a rule", "a rule that took less"])
def test_what_was_seen_before_a_rule_was_made_is_not_undone(versioned: bool, deletes: Deletes, had: str) -> None:
    """All histories of up to three changes, all sets of their events that came before the rule was made (by another one of its
    name, or by none), and all orders of the others."""
    histories = [steps for length in (1, 2, 3) for steps in product("pqdv" if versioned else "pqd", repeat=length)]
    for steps in share(histories, 3, f"made {versioned} {deletes} {had}"):
        made = told_of(steps, versioned)
        if made is None:
            continue
        for early in product((False, True), repeat=len(steps)):
            late = [at for at, is_early in enumerate(early) if not is_early]
            for order in permutations(late):
                rule = replace(RULE, deletes=deletes)
                beach = Beach(versioned, replace(rule, suffixes=(".csv",)) if had == "a rule that took less" else rule)
                if had == "no rule":
                    RuleStore(beach.tables).remove(beach.repository().repository, rule.name)
                for step in steps:
                    happen(beach.versions, step)
                events = beach.versions.events
                beach.ingester().process([event for event, is_early in zip(events, early, strict=True) if is_early])
                beach.clock.time += 3.0
                if had == "a rule":
                    RuleStore(beach.tables).remove(beach.repository().repository, rule.name)
                RuleStore(beach.tables).put(beach.lake(), NAME, rule)
                for at in order:
                    beach.take(events[at])
                wanted = beach.versions.wanted(deletes)
                if had == "a rule" or not any(early):
                    assert beach.branch() == wanted, (steps, early, order)
                else:  # what was told when nobody took it may be missing; what was replaced is never there
                    etag = beach.versions.etag("in/a")
                    there = {} if etag is None else {"data/a": etag}
                    assert beach.branch() in (wanted, there, {}) or (etag is None and deletes is Deletes.KEEP), steps


def told_of(steps: Sequence[str], versioned: bool) -> VersionedBucket | None:
    """What a history tells; None if it cannot be."""
    bucket = Beach(versioned).versions
    try:
        for step in steps:
            happen(bucket, step)
    except (KeyError, IndexError):
        return None
    return bucket


def happen(bucket: VersionedBucket, step: str) -> None:
    if step in "pq":
        bucket.put("in/a", "x" if step == "p" else "xx")
    elif step == "d":
        bucket.delete("in/a")
    else:
        bucket.delete_version("in/a", -1)


@VERSIONED
@DELETES
def test_no_late_event_undoes_a_reconciling(versioned: bool, deletes: Deletes) -> None:
    """Of each history some events come at once, some are lost, and some come after the reconciling, in any order."""
    kinds = ("pqdv" if versioned else "pqd") if deletes is Deletes.APPLY else "pqd"
    histories = [steps for length in (2, 3) for steps in product(kinds, repeat=length)]
    cases = [(steps, fates) for steps in histories for fates in product("nlt", repeat=len(steps))]
    for steps, fates in share(cases, 5, f"undo {versioned} {deletes}"):
        if told_of(steps, versioned) is None:
            continue
        beach = Beach(versioned, replace(RULE, deletes=deletes))
        bucket = beach.versions
        for step, fate in zip(steps, fates, strict=True):
            happen(bucket, step)
            if fate == "n":
                beach.take(bucket.events[-1])
        beach.reconcile()
        held = beach.branch()
        if deletes is Deletes.APPLY:
            assert held == bucket.wanted(deletes)
        late = [event for event, fate in zip(bucket.events, fates, strict=True) if fate == "t"]
        for order in permutations(late):
            for event in order:
                beach.take(event)
                after = beach.branch()
                if deletes is Deletes.APPLY or bucket.etag("in/a") is not None:
                    assert after == held, (steps, fates, order)
                elif held:  # what is kept is replaced by what was created later alone
                    created = bucket.created["in/a"]
                    assert created.index(after["data/a"]) >= created.index(held["data/a"]), (steps, fates, order)


class At:
    """Something happens at one request, of one ``method`` if it is given; ``fault`` is what becomes of the request."""

    def __init__(
        self, ordinal: int, method: str = "", call: Callable[[], None] = lambda: None, fault: Fault = None
    ) -> None:
        self._left = ordinal
        self._method = method
        self._call = call
        self._fault = fault
        self.done = False

    def __call__(self, method: str, _: int) -> Fault:
        if self.done or method != (self._method or method):
            return None
        self._left -= 1
        if self._left >= 0:
            return None
        self.done = True
        self._call()
        return self._fault


@pytest.mark.parametrize("first", ["put", "delete"])
@pytest.mark.parametrize("at", range(4))
def test_who_read_before_the_reconciling_began_does_not_stage_behind_its_back(first: str, at: int) -> None:
    """At any request of the ingesting process, somebody else reconciles."""
    beach = Beach(versioned=False)
    late = beach.versions.put("in/a", "x")
    if first == "put":
        beach.versions.put("in/a", "xx")
    else:
        beach.versions.delete("in/a")
    meanwhile = At(at, call=beach.reconcile)
    beach.take(late, schedule=meanwhile)
    assert meanwhile.done
    assert beach.branch() == beach.versions.wanted(Deletes.APPLY)


@pytest.mark.parametrize("at", range(8))
def test_two_that_reconcile_at_once_do_not_undo_one_another(at: int) -> None:
    """At any request of one, another object is there, and somebody else reconciles."""
    beach = Beach(versioned=False)
    beach.take(beach.versions.put("in/a", "x"))
    beach.versions.put("in/a", "xx")

    def change() -> None:
        beach.versions.put("in/a", "xxx")
        beach.reconcile()

    meanwhile = At(at, call=change)
    beach.reconcile(meanwhile)
    assert meanwhile.done
    assert beach.branch() == beach.versions.wanted(Deletes.APPLY)


# Markers

MARKED = replace(RULE, suffixes=(".csv",), commit=CommitPolicy(marker="_SUCCESS"))


def test_a_lost_marker_is_made_good_and_counted_once() -> None:
    beach = Beach(False, MARKED)
    bucket = beach.versions
    bucket.put("in/1/a.csv", "x")
    marker = bucket.put("in/1/_SUCCESS", "x")
    beach.reconcile()
    assert len(beach.log()) == 1
    assert beach.branch("main@") == bucket.wanted(Deletes.APPLY) | {} or sorted(beach.branch("main@")) == [
        "data/1/a.csv"
    ]
    bucket.put("in/2/a.csv", "x")
    beach.take(*bucket.events)
    assert len(beach.log()) == 1, "the marker's own event comes late, and half of the next folder is there"
    beach.reconcile()
    beach.take(marker)
    assert len(beach.log()) == 1
    beach.take(bucket.put("in/2/_SUCCESS", "x"))
    assert len(beach.log()) == 2


def test_a_marker_that_is_overwritten_marks_again_whoever_has_counted_the_one_before() -> None:
    beach = Beach(False, MARKED)
    bucket = beach.versions
    for number in range(6):
        event = bucket.put(f"in/{number}.csv", "x")
        marker = bucket.put("in/_SUCCESS", "")
        if number % 3 == 0:
            beach.reconcile()
        elif number % 3 == 1:
            beach.take(event, marker)
        else:
            beach.take(event)
            beach.reconcile()
        assert len(beach.log()) == number + 1
        beach.reconcile()
        beach.take(*bucket.events)
        assert len(beach.log()) == number + 1


def test_a_version_of_a_marker_that_is_deleted_marks_nothing_and_hides_no_lost_one() -> None:
    beach = Beach(True, MARKED)
    bucket = beach.versions
    beach.take(bucket.put("in/_SUCCESS", ""))
    bucket.put("in/_SUCCESS", "")
    beach.take(bucket.put("in/a.csv", "x"))
    beach.take(bucket.delete_version("in/_SUCCESS", 0))
    assert beach.log() == []
    beach.reconcile()
    assert len(beach.log()) == 1
    beach.take(*bucket.events)
    assert len(beach.log()) == 1


@pytest.mark.parametrize(("method", "at"), [*product(("transact", "get_many"), range(3))])
def test_no_marker_commits_half_of_a_batch(method: str, at: int) -> None:
    """Whichever request fails, what is committed has all that the marker marks."""
    beach = Beach(False, MARKED)
    bucket = beach.versions
    marker = bucket.put("in/_SUCCESS", "")  # tells first, since events have no order
    events = [marker, *(bucket.put(f"in/{number}.csv", "x") for number in range(100))]
    fails = At(at, method, fault="refuse")
    try:
        results = beach.ingester(fails).process(events).results
    except BusyError:
        results = (Result(Outcome.RETRY),) * len(events)
    assert fails.done
    assert len(beach.branch("main@")) in (0, 100)
    beach.take(*(event for event, result in zip(events, results, strict=True) if not result.outcome.is_done))
    beach.ingester().commit_due()
    assert len(beach.branch("main@")) == 100


def test_what_lands_behind_a_listing_is_linked_before_its_marker_counts() -> None:
    beach = Beach(False, MARKED)
    bucket = beach.versions
    bucket.put("in/1/a.csv", "x")
    bucket.put("in/1/z.csv", "x")
    done: list[bool] = []
    store_list = bucket.store.list

    def listing(prefix: str = "", after: str = "") -> Iterator[object]:
        for stored in store_list(prefix, after):
            yield stored
            if not done:
                done.append(True)
                bucket.put("in/1/Z.csv", "x")  # before the place where the listing is
                bucket.put("in/1/_SUCCESS", "")
                yield bucket.store.head("in/1/_SUCCESS")

    bucket.store.list = listing  # type: ignore[method-assign, assignment]
    beach.reconcile()
    assert sorted(beach.branch("main@")) == ["data/1/Z.csv", "data/1/a.csv", "data/1/z.csv"]


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_a_marker_that_was_deleted_counts_whatever_the_order_and_once(order: Sequence[int]) -> None:
    """Put and deleted for good: all orders of its events, each by itself, and again."""
    beach = Beach(True, MARKED)
    bucket = beach.versions
    bucket.put("in/a.csv", "x")
    bucket.put("in/_SUCCESS", "")
    bucket.delete_version("in/_SUCCESS", 0)
    bucket.put("in/b.csv", "x")
    for number in order:
        beach.take(bucket.events[number])
    at_once = len(beach.log())
    assert at_once == (1 if min(order.index(0), order.index(3)) < order.index(1) else 0), "there was something to mark"
    beach.take(bucket.put("in/c.csv", "x"))
    for number in order:
        beach.take(bucket.events[number])
    assert len(beach.log()) == at_once


def test_a_marker_whose_objects_are_committed_counts_for_no_others_when_its_event_comes() -> None:
    beach = Beach(False, MARKED)
    bucket = beach.versions
    beach.take(bucket.put("in/1/a.csv", "x"))
    marker = bucket.put("in/1/_SUCCESS", "")
    beach.repository().commit("main", "by hand")
    beach.reconcile()
    beach.take(bucket.put("in/2/a.csv", "x"))
    beach.take(marker)
    assert beach.log() == ["by hand"]


def test_a_marker_waits_where_the_source_cannot_be_asked() -> None:
    beach = Beach(False, MARKED)
    bucket = beach.versions
    beach.reconcile()
    events = [bucket.put("in/_SUCCESS", ""), bucket.put("in/a.csv", "x"), bucket.put("in/b.csv", "x")]
    results = beach.ingester(At(0, "head", fault="refuse")).process(events).results
    assert [result.outcome for result in results] == [Outcome.RETRY, Outcome.RETRY, Outcome.STAGED]
    assert beach.log() == []
    beach.take(*events)
    assert len(beach.log()) == 1
    assert beach.branch("main@") == {"data/a.csv": bucket.etag("in/a.csv"), "data/b.csv": bucket.etag("in/b.csv")}
