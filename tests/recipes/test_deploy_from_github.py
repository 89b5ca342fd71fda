"""The workflow of the recipe that deploys: a role, no key, and one and the same command shown and run.
``tests/infra/test_deployed.py`` runs the step that deploys."""

import json
import re
from typing import Any

import yaml

from tests.test_docs import files

PAGE = "docs/recipes/deploy-from-github.md"
STEP = 1
"""Which of a job's own commands runs the CDK: the one before makes the tools."""


def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(files(PAGE)[".github/workflows/deploy.yml"])
    return loaded


def commands(job: str) -> list[str]:
    """What a job runs itself, beside the actions of others."""
    return [step["run"] for step in workflow()["jobs"][job]["steps"] if "run" in step]


def deploying_step() -> str:
    """The shell script that deploys."""
    return commands("deploy")[STEP]


def test_the_workflow_logs_in_by_a_role_and_stores_no_key() -> None:
    page = files(PAGE)
    assert "secrets." not in page[".github/workflows/deploy.yml"]
    assert workflow()["permissions"] == {"contents": "read", "id-token": "write"}
    for job in workflow()["jobs"].values():
        (login,) = (step["with"] for step in job["steps"] if "configure-aws-credentials" in step.get("uses", ""))
        assert set(login) == {"role-to-assume", "aws-region"}
    (trusted,) = json.loads(page["trust.json"])["Statement"]
    assert trusted["Action"] == "sts:AssumeRoleWithWebIdentity"
    (conditions,) = trusted["Condition"].values()
    assert all("*" not in value for value in json.dumps(conditions))
    (allowed,) = json.loads(page["permissions.json"])["Statement"]
    assert allowed["Action"] == "sts:AssumeRole"
    assert all(
        re.fullmatch(r"arn:aws:iam::\d{12}:role/cdk-hnb659fds-[a-z-]+-role-\d{12}-\*", each)
        for each in allowed["Resource"]
    )


def test_what_is_deployed_was_shown_with_the_same_settings_and_then_approved() -> None:
    jobs = workflow()["jobs"]
    assert (jobs["deploy"]["needs"], jobs["deploy"]["environment"]) == ("diff", "production")
    shown, deployed = commands("diff"), commands("deploy")
    assert shown[0] == deployed[0] == "make deploy-tools"
    context = re.compile(r"-c (graveler:\S+)")
    assert context.findall(shown[STEP]) == context.findall(deployed[STEP])
    assert " cdk diff " in shown[STEP].replace("infra/node_modules/.bin/", " ")
    assert "--all --require-approval never" in deployed[STEP]
