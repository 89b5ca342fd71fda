"""The model of how operations end: its rules are enough, and each is needed."""

import pytest

from tests.model.endings import RULES, search
from tests.support.campaigns import WHOLE

CROWDS = [(2, 1), (1, 2), *([(2, 2)] if WHOLE else [])]


@pytest.mark.parametrize(("workers", "enders"), CROWDS)
def test_an_operation_says_at_its_end_whether_its_commit_is_there(workers: int, enders: int) -> None:
    bad, states = search(workers=workers, enders=enders)
    assert bad is None
    assert states > 5_000


def test_an_operation_says_at_its_end_whether_its_candidate_is_published() -> None:
    bad, states = search(workers=2, enders=1, candidate=True)
    assert bad is None
    assert states > 5_000


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_there_is_a_bad_history(rule: str) -> None:
    bad, _ = search(rule, candidate=True)
    assert bad is not None
