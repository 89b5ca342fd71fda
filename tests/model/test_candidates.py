"""The model of rules, candidates and statuses: small cases have no bad history, and each rule is needed for that.

``python -m tests.model.candidates`` searches the long cases too; ``make soak`` runs it.
"""

import pytest

from tests.model.candidates import FAST, LONG, SPOILED, Case, without


@pytest.mark.parametrize("case", FAST, ids=[case.processes for case in FAST])
def test_nothing_unchecked_is_published_and_every_candidate_ends(case: Case) -> None:
    states, bad, trail = case.search().run()
    assert not bad, "\n".join([bad, *trail])
    assert states > 30


@pytest.mark.parametrize("rule", SPOILED)
def test_without_the_rule_the_search_finds_a_bad_history(rule: str) -> None:
    assert without(rule)


@pytest.mark.ci
@pytest.mark.parametrize("case", LONG[:8], ids=[case.processes for case in LONG[:8]])
def test_more_processes_and_lost_answers_change_nothing(case: Case) -> None:
    _, bad, trail = case.search().run()
    assert not bad, "\n".join([bad, *trail])
