"""Checks of a deployment that run in a function of their own: a query, a function that a rule names, and one that dies."""

import io
import json
import zipfile
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final

import lakefs
import msgspec
import pytest
import urllib3
from lakefs.client import Client

from graveler.lake.gates.checks.check_settings import CheckFunction, CheckSettings
from graveler.lake.gates.checks.run import run_checks
from graveler.lake.lake import Lake
from graveler.model import StatusState
from infra.check_machine import definition
from tests.infra.conftest import QUALITY, Deployed
from tests.infra.test_operations import aws, lake

__all__ = ["aws", "lake"]

pytestmark = pytest.mark.ci

QUERY: Final = {
    "kind": "sql",
    "query": "SELECT * FROM candidate.orders WHERE amount < 0",
    "tables": {"orders": "orders/"},
}
ANSWERING: Final = """
def handler(event, context):
    bad = "bad" in event["message"]
    return {"state": "failure" if bad else "success", "description": event["check"] + " of " + event["repository"]}
"""
DYING: Final = """
import os, signal

def handler(event, context):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def function(aws: Callable[[str], Any], name: str, source: str) -> dict[str, Any]:
    """A function with this code."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("own.py", source)
    made: dict[str, Any] = aws("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/own",
        Handler="own.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=30,
    )
    return made


class Gated:
    """A repository with a branch ``dev``, whose ``main`` needs one check, over the deployment's API."""

    def __init__(self, deployed: Deployed, client: Client) -> None:
        name = f"checked-{token_hex(3)}"
        self._base = f"{deployed.url}/api/v1/repositories/{name}"
        self._headers = urllib3.make_headers(basic_auth=f"{deployed.key_id}:{deployed.secret}")
        storage = f"s3://{deployed.bucket}/{name}"
        self.name = name
        self.repository = lakefs.Repository(name, client=client).create(storage_namespace=storage)
        self.dev = self.repository.branch("dev").create("main")

    def rule(self, check: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Set the rule."""
        return self._ask(
            "PUT",
            "/settings/rules",
            {"rules": [{"name": "r", "branches": ["main"], "statuses": [{"name": "c", "check": check}]}]},
        )

    def merge(self, rows: str, message: str = "merge") -> tuple[int, dict[str, Any]]:
        """Commit a table on ``dev`` and merge that; a merge whose check takes long is asked for again."""
        self.dev.object("orders/1.csv").upload(data=f"id,amount\n{rows}\n".encode())
        self.dev.commit(message=f"rows {rows}")
        while True:
            status, document = self._ask("POST", "/refs/dev/merge/main", {"message": message})
            if status != 429:
                return status, document

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with urllib3.PoolManager(timeout=60, retries=False) as http:
            answer = http.request(method, self._base + path, json=body, headers=self._headers)
            return answer.status, answer.json()


def test_a_merge_waits_for_its_query(deployed: Deployed, client: Client) -> None:
    gated = Gated(deployed, client)
    status, refused = gated.rule({**QUERY, "query": "DROP TABLE x"})
    assert (status, "the query must be one SELECT" in refused["message"]) == (400, True), refused
    status, refused = gated.rule({**QUERY, "most_bytes": 1 << 40})
    assert (status, "most_bytes is" in refused["message"]) == (400, True), refused
    assert gated.rule(QUERY)[0] == 200
    status, refused = gated.merge("1,-5")
    assert status == 412, refused
    assert "id=1, amount=-5" in json.dumps(refused)
    status, merged = gated.merge("1,5")
    assert status == 200, merged
    assert gated.repository.branch("main").object("orders/1.csv").reader().read() == b"id,amount\n1,5\n"


def test_a_merge_waits_for_a_function_that_a_rule_names(
    deployed: Deployed, client: Client, aws: Callable[[str], Any]
) -> None:
    assert function(aws, "quality", ANSWERING)["FunctionArn"] == QUALITY
    gated = Gated(deployed, client)
    status, refused = gated.rule({"kind": "lambda", "name": "other"})
    assert (status, "have no lambda 'other', but: quality" in refused["message"]) == (400, True), refused
    assert gated.rule({"kind": "lambda", "name": "quality"})[0] == 200
    status, refused = gated.merge("1,1", "bad")
    assert status == 412, refused
    assert f"c of {gated.name}" in json.dumps(refused)
    status, merged = gated.merge("1,2", "good")
    assert status == 200, merged


def test_a_check_whose_process_dies_is_an_error_with_its_reason(
    deployed: Deployed, client: Client, aws: Callable[[str], Any], lake: Lake
) -> None:
    """The verdict is kept by the deployment's own function, and found by who asks later."""
    gated = Gated(deployed, client)
    gated.dev.object("orders/1.csv").upload(data=b"id,amount\n1,1\n")
    gated.dev.commit(message="rows")
    functions = aws("lambda").list_functions()["Functions"]
    own = next(each for each in functions if "FunctionsCheck" in each["FunctionName"])
    dying = function(aws, f"dying-{token_hex(4)}", DYING)
    described = definition(own["FunctionArn"], seconds=3)
    described["States"]["Check"]["Parameters"]["FunctionName"] = dying["FunctionArn"]
    machine = aws("stepfunctions").create_state_machine(
        name=f"dying-{token_hex(4)}", definition=json.dumps(described), roleArn=own["Role"]
    )["stateMachineArn"]
    settings = CheckSettings(function=CheckFunction(machine, own["FunctionArn"], 1 << 30, 1 << 30))
    opened = lake.repository(gated.name)
    candidate, base = opened.commit_of("dev"), opened.commit_of("main")

    died = run_checks(opened.parts, candidate, base, {"c": QUERY}, settings=settings)["c"]
    assert died.state is StatusState.ERROR
    assert "the run of the check ended without a verdict: States.Timeout" in died.description, msgspec.to_builtins(died)
