"""docs/deploy.md is complete and right about settings, functions, alarms and costs. test_deployed.py runs its story."""

import json
import re
from typing import Any

import pytest
from botocore import xform_name
from botocore.session import get_session

from infra import prices
from infra.settings import Settings
from tests.functions.cost_table import BEGIN, DOCUMENT, END, counted, table
from tests.infra.tools import policies, resources

pytestmark = pytest.mark.ci

TEXT = DOCUMENT.read_text()
OF_THE_TOOL = {"--max-items", "--page-size", "--query", "--output", "--region"}
"""Options that each command of AWS's command line has."""
FIGURES = 8
"""Of a function, in an hour without trouble: tests/functions/test_entry.py counts them."""


def _pascal(words: str) -> str:
    return "".join(word.title() for word in words.split("-"))


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]


def test_every_setting_is_described() -> None:
    described = [name for row in rows("Settings") for name in re.findall(r"`(\w+)`", row[0])]
    assert described == list(Settings.__dataclass_fields__)


def told(heading: str) -> list[Any]:
    """The JSON below a heading."""
    section = TEXT.split(f"# {heading}\n")[1].split("\n## ")[0]
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]


def test_the_policy_of_another_accounts_bucket_allows_what_roles_may_there(full: dict[str, dict[str, Any]]) -> None:
    allowed = {
        (statement["Resource"].partition("/")[2], action)
        for statement in told("Buckets of others")[0]["Statement"]
        for action in statement["Action"]
        if statement["Effect"] == "Allow"
    }
    needed = set()
    for template in full.values():
        for policy in policies(template):
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                several = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
                actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
                for resource in map(json.dumps, several):
                    if "first-bucket" in resource:
                        needed |= {("*" if "first-bucket/" in resource else "", action) for action in actions}
    assert allowed == needed


def test_the_policy_of_a_key_that_is_named_is_that_of_one_that_is_made(other: dict[str, dict[str, Any]]) -> None:
    (statement,) = told("Keys of your own")
    made = [
        {**each, "Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}}}
        for key in resources(other["stateful"], "AWS::KMS::Key").values()
        for each in key["Properties"]["KeyPolicy"]["Statement"]
        if "Service" in each["Principal"]
    ]
    assert made == [statement]


def test_every_function_is_described(default: dict[str, dict[str, Any]]) -> None:
    there = [name for template in default.values() for name in resources(template, "AWS::Lambda::Function")]
    assert len(rows("Which function does what")) == len(there) + 1  # and the one for checks, which a setting adds


def test_every_alarm_is_described(default: dict[str, dict[str, Any]]) -> None:
    described = [row[0].strip("`") for row in rows("What it tells you")]
    for name in resources(default["observability"], "AWS::CloudWatch::Alarm"):
        plain = re.sub(r"[0-9A-F]{8}$", "", name)
        kinds = {
            plain,
            re.sub(
                r"^(Read|Write|Commit|Merge|Diff|Catalog|Maintain|Operate|Ingest)(?=Errors|Throttles)",
                "<Function>",
                plain,
            ),
        }
        assert kinds & set(described), name


def test_the_costs_are_those_that_were_counted_at_the_prices_that_are_there() -> None:
    assert TEXT.split(BEGIN)[1].split(END)[0] == table(counted()), "python -m tests.functions.cost_table"


def test_what_watching_costs_is_said(default: dict[str, dict[str, Any]]) -> None:
    alarms = [found["Properties"] for found in resources(default["observability"], "AWS::CloudWatch::Alarm").values()]
    # Each metric of an expression is paid for as an alarm is.
    watched = sum(len(alarm.get("Metrics", ["", ""])) - 1 for alarm in alarms)
    said = " ".join(TEXT.split())
    assert f"{len(alarms)} alarms on {watched} metrics {watched * prices.ALARM_MONTH:.2f}" in said
    assert f"the dashboard {prices.DASHBOARD_MONTH:.2f}" in said
    for figures in (FIGURES, FIGURES + 1):
        assert f"{figures * prices.METRIC_MONTH:.2f}" in said


@pytest.mark.parametrize("command", re.findall(r"^make ([a-z-]+)$", TEXT, re.MULTILINE))
def test_targets_exist(command: str) -> None:
    assert re.search(rf"^{command}:", (DOCUMENT.parents[1] / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("document", ["deploy.md", "operations.md", "ingest.md", "spark.md", "retention.md"])
def test_commands_of_aws_exist_with_their_options(document: str) -> None:
    text = (DOCUMENT.parent / document).read_text().replace("\\\n", " ")
    session = get_session()
    for service, verb, rest in re.findall(r"\baws ([a-z]\w+) ([a-z][a-z-]+)([^`]*?)(?=`|$)", text, re.MULTILINE):
        if service == "s3" or (service, verb) == ("emr", "add-steps"):
            continue  # which the tool speaks in verbs of its own; tests/spark/test_steps.py looks at the steps
        model = session.get_service_model(service.removesuffix("api"))
        if verb == "wait":
            waiter, options = rest.split(maxsplit=1)
            name = session.get_waiter_model(service).get_waiter(_pascal(waiter)).operation
        else:
            name, options = _pascal(verb), rest
        operation = {each.lower(): each for each in model.operation_names}[name.lower()]
        shape = model.operation_model(operation).input_shape
        assert shape is not None
        known = {f"--{xform_name(member, '-')}" for member in shape.members} | OF_THE_TOOL
        for option in re.findall(r"(?<!\S)--[a-z-]+", options):
            assert {option, option.replace("--no-", "--")} & known, f"aws {service} {verb} has no {option}"
