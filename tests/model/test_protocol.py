"""The model of the protocol: small cases have no bad history, and each rule of renames and refusals is needed for that.

``python -m tests.model.protocol`` searches all cases and rules; ``make soak`` runs it.
"""

import pytest

from tests.model import protocol
from tests.model.protocol import CASES, RULES, Case, Search

FAST = [case for case in CASES if "rules" in case or "renamers" in case]
OF_RENAMES_AND_REFUSALS = [
    rule for rule in RULES if rule.startswith(("rename_", "restore_", "settle_", "batch_", "verify_"))
]


@pytest.mark.parametrize("case", FAST, ids=[" ".join(case) for case in FAST])
def test_no_order_of_the_steps_loses_or_revives_a_value(case: Case) -> None:
    states, wrong, trail = Search(**case).run()
    assert not wrong, "\n".join([wrong, *trail])
    assert states > 100


def test_a_merge_beside_what_is_staged_loses_or_revives_no_value() -> None:
    _, wrong, trail = Search(writers=1, deleters=1, committers=1, besides=1, sequential=True).run()
    assert not wrong, "\n".join([wrong, *trail])


@pytest.mark.ci
@pytest.mark.parametrize("rule", OF_RENAMES_AND_REFUSALS)
def test_without_the_rule_the_search_finds_a_bad_history(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CASES", FAST)
    assert protocol.needed_by(rule) is not None
