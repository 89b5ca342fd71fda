"""Checks of rules at the gate of a branch: a merge, a commit that is refused, a moved head, a webhook that is followed."""

import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, RuleError
from graveler.lake.context import Context
from graveler.lake.gates.statuses import GRAVELER, Statuses
from graveler.model import CandidateState, RequiredStatus, Rule, StatusState
from graveler.requests.statuses import RunChecks
from tests.lake.gates.support import candidates, guarded_world, post, set_rules


def rule(*statuses: RequiredStatus) -> Rule:
    return Rule(name="checked", branches=("main",), statuses=statuses)


KEEP = RequiredStatus("keep", check={"kind": "no-deletes"})
FEW = RequiredStatus("few", check={"kind": "limits", "most_objects": 3})


def test_a_merge_that_passes_is_published_in_the_call() -> None:
    world = guarded_world(rule(KEEP, FEW))
    commit = world.main.merge("dev", "main")
    assert world.main.branch("main").commit_id == commit.id
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.PUBLISHED]


def test_a_change_that_fails_is_refused_with_the_words_of_the_check() -> None:
    world = guarded_world(rule(KEEP, FEW))
    world.main.delete("main", ["a"])
    with pytest.raises(RuleError) as refused:
        world.main.commit("main", "delete")
    assert [(lack.name, lack.state, lack.passing) for lack in refused.value.lacks] == [("keep", "failure", False)]
    assert "1 object would be removed: 'a'" in str(refused.value)
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.REFUSED]


def test_the_verdict_of_a_check_that_reads_the_base_is_that_commits_alone() -> None:
    """The same tree on another base may remove something, so the verdict must not count there."""
    world = guarded_world(rule(KEEP))
    commit = world.main.merge("dev", "main")
    statuses = Statuses(world.tables, world.main.repository.uid).read(commit.metarange).statuses
    assert [(status.name, status.principal, status.commit_id) for status in statuses] == [("keep", GRAVELER, commit.id)]


def test_a_poster_follows_a_webhook_that_only_accepted_the_commit() -> None:
    check = {"kind": "webhook", "url": "https://hooks.invalid/"}
    world = guarded_world(rule(RequiredStatus("hook", posters=("ci",), check=check)))
    with pytest.raises(RuleError) as refused:
        world.main.merge("dev", "main")
    assert [(lack.name, lack.state) for lack in refused.value.lacks] == [("hook", "error")]
    commit = world.main.commit_of(refused.value.candidate)
    post(world.main, commit, StatusState.SUCCESS, name="hook")
    assert world.main.merge("dev", "main").id == commit.id


def test_posters_of_other_checks_do_not_count() -> None:
    world = guarded_world(rule(KEEP))
    world.main.delete("main", ["a"])
    with pytest.raises(RuleError) as refused:
        world.main.commit("main", "delete")
    post(world.main, world.main.commit_of(refused.value.candidate), StatusState.SUCCESS, name="keep", principal="ci")
    with pytest.raises(RuleError):
        world.main.commit("main", "delete")


def test_checks_are_tried_on_any_commit_and_post_nothing() -> None:
    world = guarded_world(
        rule(KEEP, RequiredStatus("test", posters=("ci",))), Rule(name="x", branches=("x",), statuses=(FEW,))
    )
    request = RunChecks(ref="main", branch="main")
    assert [outcome.name for outcome in world.main.run(request).outcomes] == ["keep"]
    assert world.main.statuses("main") == ()
    with pytest.raises(InvalidError, match="there is no check 'few', but: keep"):
        world.main.run(replace(request, checks=("few",)))
    with pytest.raises(BusyError, match="take longer than this call may"):
        world.main.run(request, Context(stop=lambda: True))
    set_rules(world.main)
    with pytest.raises(InvalidError, match="have no checks"):
        world.main.run(request)
