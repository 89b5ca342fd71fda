"""Reconciliation: whatever events were lost, the branch ends with the source's contents, and nothing else is touched."""

from collections import Counter
from math import ceil
from random import Random

import pytest
from msgspec.structs import replace

from graveler.ingest.ingester import CHUNK
from graveler.ingest.reconcile import Reconciled, Reconciler
from graveler.ingest.rules import CommitPolicy, Deletes, Overwrites, Rule
from graveler.lake.lake import Lake
from tests.ingest.support import BUCKET, RULE, Shore, traffic
from tests.lake.support import NAME, changes
from tests.support.instruments import CountingObjects, CountingTables


def reconcile(shore: Shore, rule: Rule, *, dry_run: bool = False) -> Reconciled:
    lake = shore.lake()
    return Reconciler(lake.tables, shore.clock).reconcile(lake.repository(NAME), rule, dry_run=dry_run)


@pytest.mark.parametrize("seed", range(3))
def test_lost_events_are_made_good(seed: int) -> None:
    random = Random(seed)
    shore = Shore()
    rule = shore.add()
    events = traffic(shore.bucket, random, 200, 60)
    arrived = [event for event in events if random.random() < 0.5]
    shore.ingester().process(arrived)
    before = shore.branch()
    asked = reconcile(shore, rule, dry_run=True)
    assert shore.branch() == before
    report = reconcile(shore, rule)
    assert (report.linked, report.deleted) == (asked.linked, asked.deleted)
    assert report.linked
    assert report.deleted
    assert shore.branch() == shore.bucket.held()
    assert report.objects == len(shore.bucket.held())
    again = reconcile(shore, rule)
    assert (again.linked_count, again.deleted_count, again.refused) == (0, 0, ())
    shore.ingester().process(shore.bucket.events)  # and if they arrive after all, they do no harm
    assert shore.branch() == shore.bucket.held()


def test_a_newer_event_that_comes_meanwhile_is_not_undone() -> None:
    shore = Shore()
    rule = shore.add()
    shore.bucket.put("in/a", "old")
    done: list[bool] = []

    def meanwhile(method: str, _: int) -> None:
        if method == "transact" and not done:  # the object was looked at, and is about to be staged
            done.append(True)
            shore.ingester().process([shore.bucket.delete("in/a")])

    lake = shore.lake(meanwhile)
    Reconciler(lake.tables, shore.clock).reconcile(lake.repository(NAME), rule)
    assert done == [True]
    assert shore.branch() == shore.bucket.held() == {}


def test_what_does_not_come_from_the_source_is_left_alone() -> None:
    shore = Shore()
    rule = shore.add(replace(RULE, suffixes=(".csv",)))
    repository = shore.repository()
    repository.upload("main", "data/mine", b"1")
    repository.upload("main", "data/mine.csv", b"1")
    repository.upload("main", "elsewhere", b"1")
    shore.bucket.put("in/a.csv")
    shore.bucket.put("in/a.txt")
    report = reconcile(shore, rule)
    assert (report.linked, report.deleted) == (("data/a.csv",), ())
    assert sorted(shore.branch()) == ["data/a.csv", "data/mine", "data/mine.csv"]


def test_kept_deletes_stay_and_refused_overwrites_are_reported() -> None:
    shore = Shore()
    rule = shore.add(replace(RULE, deletes=Deletes.KEEP, overwrites=Overwrites.REFUSE))
    shore.ingester().process([shore.bucket.put("in/a"), shore.bucket.put("in/b")])
    held = shore.branch()
    shore.bucket.put("in/a", "other")
    shore.bucket.delete("in/b")
    shore.bucket.put("in/" + "x" * 1021)
    report = reconcile(shore, rule)
    assert (report.linked_count, report.deleted_count) == (0, 0)
    why = [(refused.path[:6], refused.reason) for refused in report.refused]
    assert why[0] == ("data/a", "was overwritten, which rule 'r' refuses")
    assert (why[1][0], "at most 1024 are allowed" in why[1][1]) == ("data/x", True)
    assert shore.branch() == held


def test_what_is_due_afterwards_is_committed() -> None:
    shore = Shore()
    rule = shore.add(replace(RULE, commit=CommitPolicy(objects=100)))
    for number in range(120):
        shore.bucket.put(f"in/{number}")
    report = reconcile(shore, rule)
    assert report.linked_count == 120
    assert [commit.message for commit in report.commits] == ["Ingest 120 objects by rule r"]
    assert changes(shore.repository()) == {}


@pytest.mark.parametrize("differences", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_what_it_costs(differences: int) -> None:
    shore = Shore()
    rule = shore.add()
    shore.ingester().process([shore.bucket.put(f"in/same-{number}") for number in range(5)])
    for number in range(differences):
        shore.bucket.put(f"in/{number}")
    tables, objects = CountingTables(shore.tables), CountingObjects(shore.bucket.store)
    lake = Lake(tables, shore.objects, clock=shore.clock, outside=lambda address: (objects, address[len(BUCKET) + 1 :]))
    repository = lake.repository(NAME)
    repository.branch("main")
    tables.reset()
    report = Reconciler(tables, shore.clock).reconcile(repository, rule)
    assert report.linked_count == differences
    assert objects.calls == Counter({"list": 1, "head": differences})
    chunks = ceil(differences / CHUNK)
    # When the source was compared is written twice, and whether a commit is due is read. Two reads find the branch to list.
    assert (tables.calls["put"], tables.calls["transact"]) == (2, chunks)
    assert tables.calls["get"] == 2 + 1
    assert tables.calls["get_many"] == chunks + 2
