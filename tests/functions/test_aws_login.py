"""An AWS principal logs in by the function that writes, if the deployment says under which names."""

import json
from typing import Any

import pytest

from graveler.access import aws_login
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.functions.entry import api_handler
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.support.shell import Shell
from tests.support.sts import ACCOUNT, FakeSts, identity_parts, identity_token, role

NAME = "abc123.execute-api.eu-central-1.amazonaws.com"
ETL = role("etl-nightly")


def log_in(function: Handler) -> dict[str, Any]:
    body = {"identityRequest": {"identity_token": identity_token(identity_parts(ETL, NAME))}}
    return function(event("POST", "/api/v1/auth/external/principal/login", body=body), None)


def test_a_role_logs_in_and_the_other_functions_know_it(
    deployment: None, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    Access(DynamoDBTables(settings_of("dynamodb://lake"))).create_rule(
        f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.READER
    )
    with FakeSts() as sts:
        sts.knows(ETL)
        shell.export("GRAVELER_AWS_LOGIN", f"lake.example.org,{NAME}")
        monkeypatch.setattr(aws_login, "Sts", sts.client)
        answer = log_in(api_handler("write"))
    assert answer["statusCode"] == 200, answer
    shell.unset("GRAVELER_AWS_LOGIN")  # which is the writer's alone
    asked = event("GET", "/api/v1/user", authorization=f"Bearer {json.loads(answer['body'])['token']}")
    assert json.loads(api_handler("read")(asked, None)["body"])["user"]["id"] == "etl"


def test_without_a_name_nobody_logs_in_by_aws(deployment: None, write: Handler) -> None:
    answer = log_in(write)
    assert (answer["statusCode"], "aws_login" in answer["body"]) == (501, True)
