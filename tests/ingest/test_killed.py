"""Ingest killed between any two requests, or with any request answered wrongly, and run again: the result is the same."""

from collections.abc import Callable
from typing import get_args

import pytest
from msgspec.structs import replace

from graveler.ingest.events import ObjectEvent
from graveler.ingest.reconcile import Reconciler
from graveler.ingest.rules import CommitPolicy, RuleStore
from graveler.lake.lake import Lake
from tests.ingest.support import RULE, Shore
from tests.lake.faults import Faults, Kind
from tests.lake.support import NAME, died
from tests.support.instruments import Boundaries

KINDS: tuple[Kind, ...] = get_args(Kind)
COMMIT = CommitPolicy(objects=3)


def prepared() -> tuple[Shore, list[ObjectEvent]]:
    """Objects that are committed, and then events that overwrite, delete and add some; one is late."""
    shore = Shore()
    shore.add(replace(RULE, commit=COMMIT))
    bucket = shore.bucket
    early = [bucket.put(f"in/{name}") for name in "abc"]
    shore.ingester().process(early)
    late = bucket.put("in/d", "old")
    events = [bucket.put("in/a", "2"), bucket.delete("in/b"), bucket.put("in/d", "new"), bucket.put("in/e"), late]
    return shore, events


def ingest(shore: Shore, events: list[ObjectEvent]) -> Callable[[Lake], bool]:
    """Whether all was told to be done."""
    from graveler.ingest.ingester import Ingester

    def run(lake: Lake) -> bool:
        batch = Ingester(lake, shore.clock).process(events)
        return all(result.outcome.is_done for result in batch.results) and not batch.commits_failed

    return run


def reconcile(shore: Shore, _: list[ObjectEvent]) -> Callable[[Lake], bool]:
    def run(lake: Lake) -> bool:
        repository = lake.repository(NAME)
        rule = RuleStore(lake.tables).of(repository.repository).rules[0]
        return not Reconciler(lake.tables, shore.clock).reconcile(repository, rule).refused

    return run


@pytest.mark.parametrize("job", [ingest, reconcile])
def test_whoever_is_killed_and_comes_again_ends_the_same(
    job: Callable[[Shore, list[ObjectEvent]], Callable[[Lake], bool]],
) -> None:
    shore, events = prepared()
    seen = Boundaries()
    assert job(shore, events)(shore.lake(seen=seen))
    assert shore.branch() == shore.branch("main@") == shore.bucket.held()
    log = shore.log()
    assert len(log) == 2
    for ordinal in range(len(seen.seen)):
        for kind in KINDS:
            shore, events = prepared()
            requests, faults = Boundaries(), Faults(ordinal, kind, shore.clock)
            lake = shore.lake(faults, requests)
            told: list[bool] = []
            died(lambda: told.append(job(shore, events)(lake)))  # noqa: B023 - called at once
            if kind != "very_late":
                requests.deliver()
            if told == [True] and not faults.dead:
                assert shore.branch() == shore.bucket.held(), (ordinal, kind, "acknowledged")
            shore.clock.time += 60.0  # leases run out
            assert job(shore, events)(shore.lake()), (ordinal, kind)
            requests.deliver()
            shore.ingester().commit_due()
            assert shore.branch() == shore.branch("main@") == shore.bucket.held(), (ordinal, kind)
            assert shore.log()[0] == log[0]
            assert len(shore.log()) == 2, (ordinal, kind, shore.log())


def test_two_at_once_with_the_same_events_stage_them_once() -> None:
    shore, events = prepared()
    other = shore.ingester()
    done: list[bool] = []

    def meanwhile(method: str, _: int) -> None:
        if method == "transact" and not done:
            done.append(True)
            assert all(result.outcome.is_done for result in other.process(events).results)

    batch = shore.ingester(meanwhile).process(events)
    assert done == [True]
    assert {result.outcome.value for result in batch.results} == {"stale"}
    assert shore.branch() == shore.bucket.held()
    assert len(shore.log()) == 2
