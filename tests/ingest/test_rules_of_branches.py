"""Ingest onto a branch with rules: objects are staged, and their commit passes as a candidate, or not at all."""

from msgspec.structs import replace

from graveler.ingest.reconcile import Reconciler
from graveler.ingest.results import Batch
from graveler.ingest.rules import CommitPolicy
from graveler.lake.turns import KeptFor
from graveler.model import StatusState
from tests.ingest.support import RULE, Shore
from tests.lake.gates.support import TESTED, candidates, post, set_rules

EACH_MINUTE = replace(RULE, commit=CommitPolicy(seconds=60))


def guarded_shore() -> Shore:
    """A shore whose branch main has rules, where a commit of one object is due."""
    shore = Shore()
    shore.add(EACH_MINUTE)
    set_rules(shore.repository(), TESTED)
    assert shore.ingester().process([shore.bucket.put("in/a")]).results[0].outcome.is_done
    shore.clock.time += 60
    return shore


def test_a_commit_of_ingested_objects_waits_for_its_status() -> None:
    shore = guarded_shore()
    head = shore.repository().branch("main").commit_id
    for _ in range(2):  # it has not failed, and is looked at again
        assert shore.ingester().commit_due() == Batch(())
        shore.clock.time += 60
    assert shore.repository().branch("main").commit_id == head
    [candidate] = candidates(shore.repository())
    post(shore.repository(), shore.repository().commit_of(candidate.commit_id))
    shore.ingester().commit_due()
    assert shore.repository().branch("main").commit_id == candidate.commit_id
    assert shore.branch("main@") == shore.bucket.held()


def test_a_commit_whose_candidate_failed_is_named() -> None:
    shore = guarded_shore()
    shore.ingester().commit_due()
    [candidate] = candidates(shore.repository())
    post(shore.repository(), shore.repository().commit_of(candidate.commit_id), StatusState.FAILURE)
    [failed] = shore.ingester().commit_due().commits_failed
    assert "'test' failed" in failed.reason


def test_a_commit_that_waits_for_long_is_overdue() -> None:
    shore = guarded_shore()
    shore.clock.time += 900
    batch = shore.ingester().commit_due()
    assert (batch.commits_failed, [late.rule for late in batch.overdue]) == ((), ["r"])


def test_changes_that_another_candidate_holds_are_waited_for() -> None:
    shore = guarded_shore()
    shore.ingester().commit_due()
    shore.add(replace(EACH_MINUTE, name="s", source="s3://landing/other/", destination="other/"))
    shore.ingester().process([shore.bucket.put("other/a")])
    shore.clock.time += 60
    assert shore.ingester().commit_due() == Batch(())
    [candidate] = candidates(shore.repository())
    post(shore.repository(), shore.repository().commit_of(candidate.commit_id))
    assert [result.commit.id for result in shore.ingester().commit_due().commits] == [candidate.commit_id]


def test_a_commit_waits_while_a_candidate_keeps_the_branch() -> None:
    shore = Shore()
    rule = shore.add(EACH_MINUTE)
    shore.ingester().process([shore.bucket.put("in/a")])
    shore.clock.time += 60
    repository = shore.repository()
    turns = repository.parts.turns
    with turns.at("main", "ticket", keep=True) as turn:
        turn.state()
    with turns.keeping("main", "ticket", KeptFor("c" * 64, "etl", int(shore.clock.time) + 60)):
        batch = shore.ingester().commit_due()
        reconciled = Reconciler(shore.tables, shore.clock).reconcile(repository, rule)
    assert (batch, reconciled.commits, shore.log()) == (Batch(()), (), [])
    turns.release("main", "ticket")
    assert len(shore.ingester().commit_due().commits) == 1
