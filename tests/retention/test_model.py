"""The protocol, as a model: no history of collectors and writers goes wrong, and each rule is needed for that."""

import os

import pytest

from tests.retention.model import CASES, RULES

SHORT = ("copy, delete", "rename", "commit", "tag", "tag, untag", "merge", "import", "table")
"""Cases of less than 50,000 states."""
NEEDED = {
    "young_files_stay": "upload",
    "if_match": "build",
    "put_again": "build",
    "deadline": "copy, delete",
    "link_age": "upload",
    "staged_first": "commit",
    "quick_reading": "copy, delete",
    "two_steps": "rename",
    "alive_check": "tag",
    "reach_anew": "tag",
    "trace": "copy, delete",
    "look_again": "copy, delete",
    "no_own_import": "import",
    "new_etag": "build",
    "table_grace": "table",
    "table_age": "table",
}
"""In which case a rule is missed."""


@pytest.mark.parametrize("name", list(CASES) if os.environ.get("GRAVELER_FAULTS") else SHORT)
def test_no_history_goes_wrong(name: str) -> None:
    _, wrong, trail = CASES[name].search()
    assert wrong is None, "\n".join([wrong, *trail])


@pytest.mark.ci
@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    _, wrong, _ = CASES[NEEDED[rule]].search(frozenset(RULES) - {rule})
    assert wrong is not None
