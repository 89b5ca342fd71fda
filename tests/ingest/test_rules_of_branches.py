"""Ingest onto a branch with rules: objects are staged, and their commit passes as a candidate, or not at all."""

from msgspec.structs import replace

from graveler.ingest.rules import CommitPolicy
from tests.ingest.support import RULE, Shore
from tests.lake.gates.support import TESTED, candidates, post, set_rules


def test_a_commit_of_ingested_objects_waits_for_its_status() -> None:
    shore = Shore()
    shore.add(replace(RULE, commit=CommitPolicy(seconds=60)))
    set_rules(shore.repository(), TESTED)
    head = shore.repository().branch("main").commit_id
    assert shore.ingester().process([shore.bucket.put("in/a")]).results[0].outcome.is_done
    shore.clock.time += 60
    shore.ingester().commit_due()
    assert shore.repository().branch("main").commit_id == head
    [candidate] = candidates(shore.repository())
    post(shore.repository(), shore.repository().commit_of(candidate.commit_id))
    shore.clock.time += 60
    shore.ingester().commit_due()
    assert shore.repository().branch("main").commit_id == candidate.commit_id
    assert shore.branch("main@") == shore.bucket.held()
