"""Attempts to bring an unchecked commit into a guarded branch, or to make rules fail those who keep them."""

import pytest
from msgspec.structs import replace

from graveler.errors import ProtectedBranchError, ReadOnlyRepositoryError, RuleError
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.model import Application, Commit, RequiredStatus, Rule
from graveler.requests.base import CommitInfo, Request
from graveler.requests.committing import CommitMetarange, PublishCandidate
from graveler.requests.merging import Merge
from graveler.requests.pulls import CreatePullRequest, MergePullRequest, UpdatePullRequest
from tests.lake.gates.support import by, guarded_world, post, set_rules
from tests.lake.support import Before, World, put
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
