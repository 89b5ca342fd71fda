"""Candidates are listed, described, published and withdrawn."""

import pytest

from graveler.errors import (
    CandidateEndedError,
    ForbiddenError,
    InvalidError,
    PreconditionError,
    RefNotFoundError,
    RuleError,
)
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.model import Actor, CandidateState, StatusState
from graveler.requests.committing import PublishCandidate, WithdrawCandidate
from graveler.requests.merging import Merge
from tests.lake.gates.support import guarded_world, post, set_rules
from tests.lake.support import World, put

ETL = Context(by="etl", actor=Actor("etl", "etl", "", "writer"))
SOMEBODY = Context(by="ann", actor=Actor("ann", "ann", "", "writer"))
MERGE = Merge(source="dev", destination="main")


@pytest.fixture
def world() -> World:
    return guarded_world()


def waiting(repository: OpenRepository) -> str:
    """The ID of the commit of a merge that waits."""
    with pytest.raises(RuleError) as caught:
        repository.run(MERGE, ETL)
    return caught.value.candidate


def test_a_candidate_is_listed_and_described_by_its_id_and_by_its_commits(world: World) -> None:
    commit = waiting(world.main)
    (candidate,) = world.main.gates.candidates().results
    assert (candidate.commit_id, candidate.destination, candidate.principal) == (commit, "main", "etl")
    for name in (candidate.id, commit):
        details = world.main.gates.candidate(name)
        assert details.candidate == candidate
        assert [lack.name for lack in details.lacks] == ["test"]
    post(world.main, world.main.commit_of(commit))
    assert world.main.gates.candidate(commit).lacks == ()
    with pytest.raises(RefNotFoundError):
        world.main.gates.candidate("0" * 32)
    with pytest.raises(InvalidError, match="is not a candidate"):
        world.main.gates.candidate("main")


def test_nobody_ends_it_by_asking_for_a_bypass(world: World) -> None:
    commit = waiting(world.main)
    with pytest.raises(RuleError, match="may not bypass"):
        world.main.run(PublishCandidate(candidate=commit, bypass="urgent"), SOMEBODY)
    assert world.main.gates.candidate(commit).candidate.state is CandidateState.OPEN


def test_it_is_published_once_it_lacks_nothing(world: World) -> None:
    commit = waiting(world.main)
    with pytest.raises(RuleError, match="'test' is missing"):
        world.main.run(PublishCandidate(candidate=commit), SOMEBODY)
    post(world.main, world.main.commit_of(commit))
    for _ in range(2):
        assert world.main.run(PublishCandidate(candidate=commit), SOMEBODY).id == commit
    assert world.main.branch("main").commit_id == commit
    assert world.main.gates.candidate(commit).candidate.state is CandidateState.PUBLISHED


def test_a_failed_one_is_refused_and_has_ended(world: World) -> None:
    commit = waiting(world.main)
    post(world.main, world.main.commit_of(commit), StatusState.FAILURE)
    with pytest.raises(RuleError, match="failed"):
        world.main.run(PublishCandidate(candidate=commit), SOMEBODY)
    for request in (PublishCandidate(candidate=commit), WithdrawCandidate(candidate=commit)):
        with pytest.raises(CandidateEndedError, match="refused"):
            world.main.run(request)


def test_one_whose_branch_moved_is_made_again(world: World) -> None:
    commit = waiting(world.main)
    rules = world.main.rules().rules
    set_rules(world.main)
    put(world.main, {"z": "1"})
    world.main.commit("main", "moved")
    set_rules(world.main, *rules)
    assert world.main.gates.candidate(commit).lacks == ()
    with pytest.raises(PreconditionError, match=r"branch .main. has changed since candidate .* repeat the merge"):
        world.main.run(PublishCandidate(candidate=commit), SOMEBODY)


def test_its_maker_and_admins_withdraw_it(world: World) -> None:
    commit = waiting(world.main)
    with pytest.raises(ForbiddenError, match="was made by 'etl'"):
        world.main.run(WithdrawCandidate(candidate=commit), SOMEBODY)
    for _ in range(2):
        world.main.run(WithdrawCandidate(candidate=commit), ETL)
    candidate = world.main.gates.candidate(commit).candidate
    assert (candidate.state, candidate.reason) == (CandidateState.WITHDRAWN, "by etl")
    with pytest.raises(CandidateEndedError, match="withdrawn"):
        world.main.run(PublishCandidate(candidate=commit), ETL)
    world.main.run(WithdrawCandidate(candidate=waiting(world.main)), Context(by="root"))


def test_changes_of_a_withdrawn_commit_are_committed_again(world: World) -> None:
    put(world.main, {"c": "3"})
    with pytest.raises(RuleError) as caught:
        world.main.commit("main", "third")
    world.main.run(WithdrawCandidate(candidate=caught.value.candidate))
    with pytest.raises(RuleError) as again:
        world.main.commit("main", "fourth")
    assert again.value.candidate != caught.value.candidate
    commit = world.main.commit_of(again.value.candidate)
    post(world.main, commit)
    world.main.run(PublishCandidate(candidate=commit.id))
    assert world.main.uncommitted("main").results == ()
    assert world.main.stat("main@", "c").size == 1
