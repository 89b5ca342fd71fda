"""The model of the protocol: small cases have no bad history, and each rule of renames and refusals is needed for that.

``python -m tests.model.protocol`` searches all cases and rules; ``make soak`` runs it.
"""

import pytest

from tests.model.protocol import CASES, RULES, Case, Search, needed_by

LATE = {"writers": 1, "replacers": 1, "committers": 1}
FAST = [LATE, *(case for case in CASES if "rules" in case or "renamers" in case)]
OF_RENAMES_AND_REFUSALS = [
    rule for rule in RULES if rule.startswith(("rename_", "restore_", "settle_", "batch_", "verify_"))
]
OF_LATE_PUTS = ["replaced_is_marked", "marked_is_done", "marks_read_last", "repeat_on_condition", "taken_is_unclear"]


@pytest.mark.parametrize("case", FAST, ids=[" ".join(case) for case in FAST])
def test_no_order_of_the_steps_loses_or_revives_a_value(case: Case) -> None:
    states, wrong, trail = Search(**case).run()
    assert not wrong, "\n".join([wrong, *trail])
    assert states > 100


@pytest.mark.parametrize("rule", OF_LATE_PUTS)
def test_each_rule_of_late_puts_is_needed(rule: str) -> None:
    assert needed_by(rule, [LATE]) is not None


def test_a_merge_beside_what_is_staged_loses_or_revives_no_value() -> None:
    _, wrong, trail = Search(writers=1, deleters=1, committers=1, besides=1, sequential=True).run()
    assert not wrong, "\n".join([wrong, *trail])


@pytest.mark.ci
@pytest.mark.parametrize("rule", OF_RENAMES_AND_REFUSALS)
def test_without_the_rule_the_search_finds_a_bad_history(rule: str) -> None:
    assert needed_by(rule, FAST) is not None
