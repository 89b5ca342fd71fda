"""Attempts to bring an unchecked commit into a guarded branch, or to make rules fail those who keep them."""

import pytest
from msgspec.structs import replace

from graveler.errors import ProtectedBranchError, ReadOnlyRepositoryError, RuleError
from graveler.lake.pulls.pull_errors import OwnApprovalError
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.model import Actor, Application, Commit, RequiredApprovals, RequiredStatus, Rule, StatusState
from graveler.requests.base import CommitInfo, Request
from graveler.requests.committing import CommitMetarange, PublishCandidate
from graveler.requests.merging import Merge
from graveler.requests.pulls import ApprovePullRequest, CreatePullRequest, MergePullRequest, UpdatePullRequest
from graveler.requests.statuses import PostStatus
from tests.lake.gates.support import by, guarded_world, post, set_rules
from tests.lake.support import Before, OwnClock, World, put
from tests.retention.support import collect

FEW_OBJECTS = Rule(
    name="few",
    branches=("main",),
    statuses=(RequiredStatus("objects", check={"kind": "limits", "most_objects": 100}),),
)


def passing_candidate(world: World, request: Request[Commit]) -> str:
    """A candidate that a request leaves open, and that lacks nothing any more."""
    with pytest.raises(RuleError) as refused:
        world.main.run(request, by())
    post(world.main, world.main.commit_of(refused.value.candidate))
    return refused.value.candidate


def test_other_bytes_under_a_stated_checksum_touch_the_path_of_a_status() -> None:
    rule = Rule(name="r", branches=("main",), statuses=(RequiredStatus("test", posters=("ci",), paths=("a",)),))
    repository = guarded_world(rule).main
    put(repository, {"elsewhere": "1"})
    repository.link("main", replace(repository.stat("main", "a"), address="mem://elsewhere/other"))
    with pytest.raises(RuleError, match="test"):
        repository.commit("main", "the same checksums")


def test_a_pull_request_that_changes_while_its_merge_is_checked_is_read_again() -> None:
    world = guarded_world(FEW_OBJECTS)
    pull = world.main.run(CreatePullRequest(source="dev", destination="main", title="before"), by())
    rename = UpdatePullRequest(pull=pull.id, title="after")
    meanwhile = Before("tables.transact", 2, lambda: world.main.run(rename, by()))
    merged = world.repository(meanwhile).run(MergePullRequest(pull=pull.id), by())
    assert meanwhile.reached
    assert (merged.title, merged.merged_commit) == ("after", world.main.branch("main").commit_id)


def test_a_candidate_that_is_published_by_hand_fulfils_its_request() -> None:
    """A repetition of the request has the effect of one (promise C4)."""
    for changes in ({"info": CommitInfo(request_id="r")}, {"application": Application("stream", 7)}):
        world = guarded_world()
        request = Merge(source="dev", destination="main", **changes)
        candidate = passing_candidate(world, request)
        assert world.main.run(PublishCandidate(candidate=candidate), by()).id == candidate
        assert world.repository().run(request, by()).id == candidate


def test_the_candidate_of_a_transaction_outlives_its_branch() -> None:
    world = guarded_world()

    def transact() -> None:
        with hidden_branch(world.main, "main", "etl") as hidden:
            put(world.main, {"c": "3"}, hidden)
            world.main.commit(hidden, "in a transaction")
            world.main.merge(hidden, "main")

    with pytest.raises(RuleError) as refused:
        transact()
    candidate = refused.value.candidate
    collect(world)
    post(world.main, world.main.commit_of(candidate))
    assert world.main.run(PublishCandidate(candidate=candidate), by()).id == candidate
    assert world.main.stat("main", "c").size == 1


def test_no_name_is_refused_by_rules_that_a_process_remembers() -> None:
    world = guarded_world(Rule(name="r", branches=("r*",), tags=("v*",), frozen="audit"))
    warm = world.repository()
    for make in (lambda: warm.create_branch("r1", "dev"), lambda: warm.create_tag("v1", "dev")):
        with pytest.raises(RuleError):
            make()
    set_rules(world.main)
    warm.create_branch("r1", "dev")
    warm.create_tag("v1", "dev")
    warm.delete_tag("v1")


def test_nobody_publishes_a_candidate_where_its_verb_is_forbidden_by_now() -> None:
    world = guarded_world()
    metarange = world.main.commit_of("dev").metarange
    direct = passing_candidate(world, CommitMetarange(branch="main", metarange=metarange))
    world.main.protect(["main"])
    with pytest.raises(ProtectedBranchError):
        world.main.run(PublishCandidate(candidate=direct), by())
    world.main.unprotect(["main"])
    world.main.set_read_only(True)
    with pytest.raises(ReadOnlyRepositoryError):
        world.main.run(PublishCandidate(candidate=direct), by())


def keys_of(name: str) -> tuple[Actor, Actor]:
    """Two keys of one holder."""
    return Actor(name, name, f"{name}-1", "writer"), Actor(name, name, f"{name}-2", "writer")


def test_the_holder_of_two_keys_is_one_person() -> None:
    world = guarded_world(Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(2),)))
    put(world.main, {"c": "3"}, "dev")
    world.main.commit("dev", "of cyd", committer="cyd")
    ada, cyd, dan = map(keys_of, ("ada", "cyd", "dan"))
    pull = world.main.run(CreatePullRequest(source="dev", destination="main", title="t"), by(ada[0]))
    approve = ApprovePullRequest(pull=pull.id, source_commit=world.main.commit_of("dev").id)
    for actor in (*ada, *cyd):
        with pytest.raises(OwnApprovalError):
            world.main.run(approve, by(actor))
    for actor in dan:
        world.main.run(approve, by(actor))
    with pytest.raises(RuleError) as refused:
        world.main.run(MergePullRequest(pull=pull.id), by())
    assert [lack.state for lack in refused.value.lacks] == ["1/2"]


def test_a_clock_that_is_a_day_off_neither_revives_a_verdict_nor_outdoes_a_later_one() -> None:
    world = guarded_world()
    behind, ahead = (world.repository(clock=OwnClock(world.clock, days * 86_400)) for days in (-1, 1))
    head = world.main.branch("main").commit_id
    with pytest.raises(RuleError) as refused:
        world.main.merge("dev", "main")
    checker = by(Actor("ci", "ci", "", "checker"))
    passed = PostStatus(commit=refused.value.candidate, name="test", state=StatusState.SUCCESS, expires=3600)
    behind.run(passed, checker)
    with pytest.raises(RuleError, match="expired"):
        world.main.merge("dev", "main")
    world.main.run(passed, checker)
    with pytest.raises(RuleError, match="expired"):
        ahead.merge("dev", "main")
    ahead.run(passed, checker)
    world.main.run(replace(passed, state=StatusState.FAILURE), checker)
    with pytest.raises(RuleError, match="failed"):
        world.main.merge("dev", "main")
    assert world.main.branch("main").commit_id == head
