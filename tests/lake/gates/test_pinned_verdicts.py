"""Verdicts of graveler's own checks count for the check as the rule has it, and for the change that was judged."""

import pytest

from graveler.errors import RuleError
from graveler.model import CandidateState, RequiredStatus, Rule
from tests.lake.gates.support import TESTED, candidates, guarded_world, post, set_rules
from tests.lake.support import World, put


def checked(*branches: str, **check: object) -> Rule:
    return Rule(name="checked", branches=branches, statuses=(RequiredStatus("check", check=check),))


def waiting_merge(rule: Rule) -> World:
    """A world in which the check of a rule passed a merge, which waits for another status."""
    world = guarded_world(TESTED, rule)
    with pytest.raises(RuleError, match="'test' is missing"):
        world.main.merge("dev", "main")
    return world


@pytest.mark.parametrize("kind", [{"most_changed": 1}, {"most_objects": 1}])
def test_a_verdict_counts_no_more_when_the_rule_has_another_check_by_then(kind: dict[str, int]) -> None:
    world = waiting_merge(checked("main", kind="limits", **dict.fromkeys(kind, 9)))
    put(world.main, {"c": "3"}, "dev")
    world.main.commit("dev", "third")
    with pytest.raises(RuleError, match="'test' is missing"):
        world.main.merge("dev", "main")
    post(world.main, world.main.commit_of(candidates(world.main)[-1].commit_id))
    set_rules(world.main, TESTED, checked("main", kind="limits", **kind))
    with pytest.raises(RuleError, match="'check' failed"):
        world.main.merge("dev", "main")


def test_a_failure_of_a_check_that_was_mended_refuses_no_more() -> None:
    world = guarded_world(checked("main", kind="limits", most_objects=1))
    with pytest.raises(RuleError, match="'check' failed"):
        world.main.merge("dev", "main")
    set_rules(world.main, checked("main", kind="limits", most_objects=9))
    assert world.main.merge("dev", "main") == world.main.commit_of("main")


def test_a_verdict_about_a_change_of_one_tree_is_none_about_another_one() -> None:
    """A commit that removes nothing of its parent's tree may remove something of a later one, or of another branch's."""
    world = guarded_world(checked("main", "release", kind="no-deletes"))
    early = world.main.merge("dev", "main")
    put(world.main, {"late": "1"}, "main")
    world.main.commit("main", "late")
    world.main.create_branch("release", "main")
    for branch in ("main", "release"):
        with pytest.raises(RuleError, match="1 object would be removed: 'late'"):
            world.main.hard_reset(branch, early.id)
    assert [candidate.state for candidate in candidates(world.main)] == [CandidateState.PUBLISHED] * 2


def test_no_status_that_is_shown_has_the_digest_of_its_check() -> None:
    world = guarded_world(checked("main", kind="no-deletes"))
    (status,) = world.main.statuses(world.main.merge("dev", "main").id)
    assert (status.name, status.check) == ("check", "")
