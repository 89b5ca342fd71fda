"""The model of leases: the rule is enough, and needed."""

import pytest

from tests.model.leases import Rule, search


def test_no_living_owner_is_taken_over_and_no_dead_one_is_believed() -> None:
    bad, states = search(
        Rule.OWN_CLOCK, (0,)
    )  # the rule does not ask for the owner's clock; all of them in the long form
    assert bad is None
    assert states > 10_000


@pytest.mark.parametrize("rule", [Rule.WALL_CLOCK, Rule.AT_ONCE])
def test_with_another_rule_there_is_a_bad_history(rule: Rule) -> None:
    bad, _ = search(rule)
    assert bad is not None
    assert bad[-1].endswith("takes over from a living owner")


def test_where_wall_clocks_are_compared_the_dead_are_believed_for_as_long_as_their_clock_was_ahead() -> None:
    bad, _ = search(Rule.WALL_CLOCK, (14,))
    assert bad is not None
    assert bad[-1].endswith("still believes a dead owner")
