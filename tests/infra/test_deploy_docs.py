"""docs/deploy.md says what there is: settings, functions, alarms, costs. Its story is told by test_deployed.py."""

import re
from typing import Any

import pytest

from infra import prices
from infra.settings import Settings
from tests.functions.cost_table import BEGIN, DOCUMENT, END, counted, table
from tests.infra.tools import resources

TEXT = DOCUMENT.read_text()
FIGURES = 8
"""Of a function, in an hour without trouble: tests/functions/test_entry.py counts them."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]


def test_every_setting_is_described() -> None:
    described = [name for row in rows("Settings") for name in re.findall(r"`(\w+)`", row[0])]
    assert described == list(Settings.__dataclass_fields__)


def test_every_function_is_described(default: dict[str, dict[str, Any]]) -> None:
    there = [name for template in default.values() for name in resources(template, "AWS::Lambda::Function")]
    assert len(rows("Which function does what")) == len(there)


def test_every_alarm_is_described(default: dict[str, dict[str, Any]]) -> None:
    described = [row[0].strip("`") for row in rows("What it tells you")]
    for name in resources(default["observability"], "AWS::CloudWatch::Alarm"):
        plain = re.sub(r"[0-9A-F]{8}$", "", name)
        kinds = {
            plain,
            re.sub(r"^(Read|Write|Commit|Merge|Diff|Maintain|Operate|Ingest)(?=Errors|Throttles)", "<Function>", plain),
        }
        assert kinds & set(described), name


def test_the_costs_are_those_that_were_counted_at_the_prices_that_are_there() -> None:
    assert TEXT.split(BEGIN)[1].split(END)[0] == table(counted()), "python -m tests.functions.cost_table"


def test_what_watching_costs_is_said(default: dict[str, dict[str, Any]]) -> None:
    alarms = len(resources(default["observability"], "AWS::CloudWatch::Alarm"))
    said = " ".join(TEXT.split())
    assert f"{alarms} alarms {alarms * prices.ALARM_MONTH:.2f}" in said
    assert f"the dashboard {prices.DASHBOARD_MONTH:.2f}" in said
    for figures in (FIGURES, FIGURES + 1):
        assert f"{figures * prices.METRIC_MONTH:.2f}" in said


@pytest.mark.parametrize("command", re.findall(r"^make ([a-z-]+)$", TEXT, re.MULTILINE))
def test_targets_exist(command: str) -> None:
    assert re.search(rf"^{command}:", (DOCUMENT.parents[1] / "Makefile").read_text(), re.MULTILINE)
