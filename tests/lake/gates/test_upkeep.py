"""Candidates in the upkeep of a repository: the collector, fsck, dumps, and how much space they hold."""

import pytest

from graveler.errors import ExpiredCommitError, GravelerError, PreconditionError, RuleError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.gates.candidates import CANDIDATE_SECONDS, Candidates
from graveler.model import CandidateState, Commit, LakeRule
from graveler.retention.garbage import Garbage
from graveler.retention.space import HolderKind
from tests.lake.gates.support import candidates, guarded_world, post
from tests.lake.support import NAME, World, put
from tests.retention.support import AGE, check_live, collect, contents


def refused_merge(world: World) -> Commit:
    """The candidate of a merge that lacks its status, and whose source is gone from all refs."""
    with pytest.raises(RuleError) as error:
        world.main.merge("dev", "main")
    return world.main.commit_of(error.value.candidate)


def test_an_open_candidate_holds_its_objects() -> None:
    world = guarded_world()
    world.main.create_tag("source", "dev")
    with pytest.raises(RuleError) as error:
        world.main.merge("source", "main")
    commit = world.main.commit_of(error.value.candidate)
    world.main.delete_tag("source")
    world.main.hard_reset("dev", "dev~1")
    for _ in range(3):
        world.clock.time += AGE
        collect(world)
    assert contents(world.repository(), commit.id) == {"a": "1", "b": "2"}
    assert check_live(world)["main"] == {"a": "1"}
    post(world.main, commit)
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.OPEN]


def test_the_collector_ends_candidates_whose_time_is_over() -> None:
    world = guarded_world()
    commit = refused_merge(world)
    world.main.delete_branch("dev")
    world.clock.time += CANDIDATE_SECONDS + 1
    for _ in range(4):
        collect(world)
        world.clock.time += AGE
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.EXPIRED]
    with pytest.raises(GravelerError):
        contents(world.repository(), commit.id)
    post(world.main, commit)
    with pytest.raises((ExpiredCommitError, GravelerError)):
        world.repository().hard_reset("main", commit.id)


def test_the_collector_ends_candidates_whose_source_is_gone() -> None:
    world = guarded_world()
    refused_merge(world)
    world.main.delete_branch("dev")
    collect(world)
    [candidate] = candidates(world.main)
    assert (candidate.state, candidate.reason) == (CandidateState.GONE, "branch 'dev' was deleted or renamed")


def test_the_space_that_candidates_hold_is_shown() -> None:
    world = guarded_world()
    refused_merge(world)
    kinds = {holding.kind for holding in Garbage(world.repository()).space().holders}
    assert HolderKind.CANDIDATE in kinds


def test_fsck_reaches_candidates_and_removes_rows_that_cannot_be_read() -> None:
    world = guarded_world()
    commit = refused_merge(world)
    report = world.lake().fsck(NAME)
    assert not report.findings
    assert report.garbage.commit_items == 0
    store = Candidates(world.tables, world.main.repository.uid)
    world.objects().delete(f"_graveler/commits/{commit.id}")
    assert {finding.kind for finding in world.lake().fsck(NAME).findings} == {FindingKind.COMMIT_RECORD}
    assert not world.lake().fsck(NAME, repair=True).remaining
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as error:
        world.main.commit("main", "third")
    key = store.key(world.main.commit_of(error.value.candidate).operation)
    world.tables.put(key, {"state": "open", "row": "{"})
    assert {finding.kind for finding in world.lake().fsck(NAME).findings} == {FindingKind.CANDIDATE}
    assert not world.lake().fsck(NAME, repair=True).remaining
    with pytest.raises(RuleError):
        world.repository().commit("main", "the changes are free again")


def test_a_dump_brings_the_rules_and_leaves_candidates_out() -> None:
    world = guarded_world()
    refused_merge(world)
    dumped = world.main.dump()
    lake = world.lake()
    namespace = world.main.repository.namespace
    lake.delete_repository(NAME)
    world.tables.remove_partitions(f"{world.main.repository.uid}/")
    lake.restore(namespace, dumped.id, "again")
    restored = world.lake().repository("again")
    assert not candidates(restored)
    with pytest.raises(RuleError):
        restored.merge("dev", "main")
    post(restored, restored.commit_of("dev"))
    restored.merge("dev", "main")


def test_a_repository_is_not_restored_into_a_lake_with_looser_rules() -> None:
    world = guarded_world()
    stricter = LakeRule(name="frozen", repositories=("*",), branches=("main",), frozen="audit")
    world.lake().set_rules([stricter])
    dumped = world.main.dump()
    lake, namespace = world.lake(), world.main.repository.namespace
    lake.delete_repository(NAME)
    world.tables.remove_partitions(f"{world.main.repository.uid}/")
    lake.set_rules([])
    with pytest.raises(PreconditionError, match="this lake has not: frozen"):
        lake.restore(namespace, dumped.id, "again")
    lake.restore(namespace, dumped.id, "again", looser_rules=True)
    assert [rule.name for rule in lake.repository("again").rules().rules] == ["tested"]
