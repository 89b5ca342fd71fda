"""Pull requests into a branch that rules guard."""

from typing import Any

import pytest

from graveler.errors import RuleError
from graveler.lake.context import Context
from graveler.lake.pulls.pull_errors import PullRequestEndedError
from graveler.lake.pulls.pull_merge import merge_candidate_when_ready
from graveler.model import Actor, CandidateState, MergeStrategies, MergeStrategy, RequiredApprovals, Rule, StatusState
from graveler.requests.base import CommitInfo
from graveler.requests.merging import Merge
from graveler.requests.pulls import (
    ApprovePullRequest,
    CreatePullRequest,
    MergePullRequest,
    PullRequest,
    PullState,
    WithdrawApproval,
)
from graveler.requests.statuses import PostStatus
from graveler.storage.secrets.credential_ends import end_key
from tests.lake.gates.support import ETL, TESTED, by, candidates, guarded_world, post
from tests.lake.support import Before, World, put

ADA, CYD, DAN = (Actor(name, f"{name}@lake", f"key-{name}", "writer") for name in ("ada", "cyd", "dan"))
CI = Actor("ci", "ci", "", "checker")
REVIEWED = Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(1),))


def propose(world: World) -> PullRequest:
    return world.main.run(CreatePullRequest(title="t", source="dev", destination="main"), by(ADA))


def approve(world: World, actor: Actor) -> PullRequest:
    head = world.main.commit_of("dev").id
    return world.main.run(ApprovePullRequest(pull="1", source_commit=head), by(actor))


def merge(world: World, **options: Any) -> PullRequest:
    return world.main.run(MergePullRequest(pull="1", **options), by())


def refusal(world: World, **options: Any) -> RuleError:
    with pytest.raises(RuleError) as caught:
        merge(world, **options)
    return caught.value


def test_a_merge_needs_a_pull_request_and_its_approvals() -> None:
    world = guarded_world(REVIEWED)
    with pytest.raises(RuleError, match="approval"):
        world.main.run(Merge(source="dev", destination="main"), by())
    propose(world)
    refused = refusal(world)
    assert [lack.requirement for lack in refused.lacks] == ["approvals"]
    assert world.main.commit_of(refused.candidate).message == "Merge pull request 1: t"
    approve(world, CYD)
    merged = merge(world)
    assert merged.state is PullState.MERGED
    assert merged.merged_commit == world.main.commit_of("main").id == refused.candidate, (
        "the candidate that was looked at"
    )


def test_a_push_makes_the_approval_stale() -> None:
    world = guarded_world(REVIEWED)
    propose(world)
    approve(world, CYD)
    put(world.main, {"more": "1"}, "dev")
    world.main.commit("dev", "pushed")
    assert refusal(world).lacks
    approve(world, CYD)
    assert refusal(world, squash=True).lacks, "other terms"
    merge(world)


def test_an_approval_that_is_taken_back_at_the_last_moment_does_not_count() -> None:
    world = guarded_world(REVIEWED)
    propose(world)
    approve(world, CYD)
    race = Before("tables.transact", 2, lambda: world.main.run(WithdrawApproval(pull="1"), Context(actor=CYD)))
    with pytest.raises(RuleError):
        world.repository(race).run(MergePullRequest(pull="1"), by())
    assert race.reached
    assert world.main.pull_request("1").is_open
    assert world.main.commit_of("main").message == "first"


def test_a_pull_request_that_is_closed_or_merged_meanwhile_is_not_merged() -> None:
    world = guarded_world(REVIEWED)
    propose(world)
    approve(world, CYD)
    race = Before("tables.transact", 2, lambda: world.main.update_pull_request("1", status="closed"))
    with pytest.raises(PullRequestEndedError):
        world.repository(race).run(MergePullRequest(pull="1"), by())
    assert race.reached
    world.main.update_pull_request("1", status="open")
    race = Before("tables.transact", 2, lambda: world.main.run(MergePullRequest(pull="1"), by(DAN)))
    merged = world.repository(race).run(MergePullRequest(pull="1"), by())
    assert race.reached
    assert merged.merged_commit == world.main.commit_of("main").id
    assert [commit.message for commit in world.main.log("main", first_parent=True).results] == [
        "Merge pull request 1: t",
        "first",
        "Repository created",
    ]


def test_closing_ends_the_candidate_of_a_refused_merge() -> None:
    world = guarded_world(TESTED)
    propose(world)
    refused = refusal(world)
    for _ in range(2):
        world.main.update_pull_request("1", status="closed")
        assert [(ended.state, ended.reason) for ended in candidates(world.main)] == [
            (CandidateState.WITHDRAWN, "pull request 1 was closed")
        ]
    world.main.update_pull_request("1", status="open")
    post(world.main, world.main.commit_of(refused.candidate))
    assert merge(world).merged_commit == world.main.commit_of("main").id


def test_the_published_commit_is_the_merged_one_whichever_attempt_built_it() -> None:
    world = guarded_world(TESTED)
    propose(world)
    refused = refusal(world)
    world.clock.time += 100
    post(world.main, world.main.commit_of(refused.candidate))
    merged = merge(world)
    assert merged.merged_commit == world.main.commit_of("main").id
    assert [candidate.pull_request for candidate in candidates(world.main)] == [1]


@pytest.mark.parametrize(("path", "stale"), [("other", False), ("b", True)])
def test_a_moved_destination_needs_a_new_approval_only_for_keys_of_both(path: str, stale: bool) -> None:
    world = guarded_world(REVIEWED)
    world.main.create_branch("side", "main")
    put(world.main, {path: "9"}, "side")
    world.main.commit("side", "beside")
    strategies = MergeStrategies(MergeStrategy.SOURCE_WINS)
    for source in ("dev", "side"):
        world.main.run(CreatePullRequest(title="t", source=source, destination="main", strategies=strategies), by(ADA))
    approve(world, CYD)
    side = world.main.commit_of("side").id
    world.main.run(ApprovePullRequest(pull="2", source_commit=side), by(CYD))
    world.main.run(MergePullRequest(pull="2"), by())
    if stale:
        refusal(world)
        approve(world, CYD)
    assert merge(world).state is PullState.MERGED
    assert world.main.read("main", "b") == b"2"


def test_a_refusal_is_noted_until_something_changes() -> None:
    world = guarded_world(REVIEWED)
    propose(world)
    refused = refusal(world)
    shown = world.main.pull_request("1")
    assert (shown.candidate, shown.lacks) == (refused.candidate, refused.lacks)
    assert approve(world, CYD).lacks == ()


def test_a_merge_when_ready_is_made_by_the_approval_that_it_waits_for() -> None:
    world = guarded_world(Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(2),)))
    propose(world)
    waiting = merge(world, when_ready=True, squash=True, info=CommitInfo("June", "etl", {"k": "v"}))
    assert waiting.is_open
    assert waiting.when_ready is not None
    assert (waiting.when_ready.actor, waiting.squash, waiting.message) == (ETL, True, "June")
    assert approve(world, CYD).is_open
    merged = approve(world, DAN)
    head = world.main.commit_of("main")
    assert (merged.state, merged.merged_commit, merged.closed_by) == (PullState.MERGED, head.id, "etl")
    assert (head.message, head.committer, head.metadata["k"], len(head.parents)) == ("June", "etl", "v", 1)


def test_a_merge_when_ready_is_made_after_the_status_that_it_waits_for_and_may_be_taken_back() -> None:
    world = guarded_world(TESTED)
    propose(world)
    waiting = merge(world, when_ready=True)
    candidate = world.main.commit_of(waiting.candidate)
    merge_candidate_when_ready(world.main.parts, candidate, Context())
    assert world.main.pull_request("1").is_open
    assert world.main.update_pull_request("1", when_ready=False).when_ready is None
    passed = PostStatus(commit=candidate.id, name="test", state=StatusState.SUCCESS)
    world.main.run(passed, by(CI))
    assert world.main.pull_request("1").is_open
    world.main.run(PostStatus(commit=candidate.id, name="test", state=StatusState.PENDING), by(CI))
    assert merge(world, when_ready=True).is_open
    world.main.run(passed, by(CI))
    assert world.main.pull_request("1").state is PullState.MERGED
    world.main.run(passed, by(CI))


def test_what_can_never_pass_is_refused_even_when_ready() -> None:
    world = guarded_world(Rule(name="frozen", branches=("main",), frozen="audit"))
    propose(world)
    assert refusal(world, when_ready=True).lacks
    assert world.main.pull_request("1").when_ready is None


def test_what_a_revoked_key_approved_or_asked_for_does_not_count() -> None:
    world = guarded_world(REVIEWED)
    propose(world)
    approve(world, CYD)
    world.tables.put(end_key(CYD.key_id), {"ended": 1})
    refused = refusal(world)
    assert [lack.state for lack in refused.lacks] == ["0/1"]
    world.main.run(MergePullRequest(pull="1", when_ready=True), by(ADA))
    world.tables.put(end_key(ADA.key_id), {"ended": 1})
    assert approve(world, DAN).is_open, "nobody merges in the name of a key that was revoked"
    assert merge(world).state is PullState.MERGED
