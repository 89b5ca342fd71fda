"""The function that makes the first access key of a deployment, and keeps it in a secret."""

import http.server
import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import boto3
import pytest

from graveler.access.authentication import Access
from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.functions.first_key import SECRET, ensure_first_key, first_key_handler
from graveler.lake.opening.repositories import LAKE
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from graveler.storage.tables.port import Tables
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.support.shell import Shell


class Answers(http.server.HTTPServer):
    """Where CloudFormation would take answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """With what S3 has in its URLs."""
        return f"http://127.0.0.1:{self.server_port}/answer?X-Amz-Signature=x%2F"


class _Taking(http.server.BaseHTTPRequestHandler):
    server: Answers

    def do_PUT(self) -> None:
        assert self.path.endswith("=x%2F")
        self.server.taken.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tables(deployment: None) -> Tables:
    return DynamoDBTables(settings_of("dynamodb://lake"))


@pytest.fixture
def secret(deployment: None, shell: Shell) -> str:
    """An empty one."""
    arn: str = boto3.client("secretsmanager").create_secret(Name="first-key")["ARN"]
    shell.export(SECRET, arn)
    return arn


def kept(secret: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads(
        boto3.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"]
    )
    return loaded


def asked(kind: str, answers: Answers) -> dict[str, Any]:
    """What CloudFormation sends."""
    return {
        "RequestType": kind,
        "ResponseURL": answers.url,
        "StackId": "arn:aws:cloudformation:us-east-1:000000000000:stack/graveler-api/1",
        "RequestId": kind,
        "LogicalResourceId": "FirstKey",
        "ResourceProperties": {},
    }


def test_the_first_key_is_made_once_and_no_update_changes_it(
    tables: Tables, secret: str, answers: Answers, write: Handler
) -> None:
    handle = first_key_handler()
    handle(asked("Create", answers), None)
    made = kept(secret)
    key = Access(tables).key(made["access_key_id"])
    assert (key.role, key.name) == (Role.ADMIN, "admin")
    assert tables.get(LAKE) is not None  # which functions that only create repositories by a restore may not write
    login = {name: made[name] for name in ("access_key_id", "secret_access_key")}
    assert write(event("POST", "/api/v1/auth/login", body=login), None)["statusCode"] == 200
    for kind in ("Update", "Create", "Delete"):
        handle(asked(kind, answers), None)
    assert kept(secret) == made
    assert Access(tables).keys() == [key]
    assert [answer["Status"] for answer in answers.taken] == ["SUCCESS"] * 4
    assert len({answer["PhysicalResourceId"] for answer in answers.taken}) == 1
    assert not [answer for answer in answers.taken if made["secret_access_key"] in json.dumps(answer)]


def test_a_stranger_makes_no_key_of_a_deployment_that_has_none(tables: Tables, write: Handler) -> None:
    refused = write(event("POST", "/api/v1/setup_lakefs", body={"username": "eve"}), None)
    assert refused["statusCode"] == 403
    assert not Keys(tables).any()


def test_a_lake_that_has_keys_gets_no_other_and_a_revoked_one_stays_revoked(tables: Tables, secret: str) -> None:
    secrets = boto3.client("secretsmanager")
    assert ensure_first_key(tables, secrets, secret, now=1.0)
    Access(tables).revoke(kept(secret)["access_key_id"])
    assert not ensure_first_key(tables, secrets, secret, now=2.0)
    assert Access(tables).keys() == []


def test_who_was_killed_between_the_secret_and_the_key_goes_on_with_that_key(tables: Tables, secret: str) -> None:
    secrets = boto3.client("secretsmanager")

    class Killed:
        get_secret_value = secrets.get_secret_value

        def put_secret_value(self, **request: str) -> None:
            secrets.put_secret_value(**request)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_first_key(tables, Killed(), secret, now=1.0)
    before = kept(secret)
    assert not Keys(tables).any()
    assert ensure_first_key(tables, secrets, secret, now=2.0)
    assert kept(secret) == before
    assert Keys(tables).verify(before["access_key_id"], before["secret_access_key"]) is not None


def test_a_secret_that_is_not_there_is_told_to_cloudformation(
    tables: Tables, secret: str, answers: Answers, shell: Shell
) -> None:
    shell.export(SECRET, "nowhere")
    first_key_handler()(asked("Create", answers), None)
    (answer,) = answers.taken
    assert answer["Status"] == "FAILED"
    assert "keeping the first access key in secret 'nowhere'" in answer["Reason"]
    assert not Keys(tables).any()


def test_a_table_that_another_key_sealed_is_refused_with_the_setting_that_names_that_key(
    tables: Tables, secret: str, answers: Answers, shell: Shell
) -> None:
    kms = boto3.client("kms")
    old, new = (kms.create_key()["KeyMetadata"]["Arn"] for _ in range(2))
    for key in (old, new, old):
        shell.export("GRAVELER_KMS_KEY", key)
        first_key_handler()(asked("Create", answers), None)
    assert [answer["Status"] for answer in answers.taken] == ["SUCCESS", "FAILED", "SUCCESS"]
    reason = answers.taken[1]["Reason"]
    assert f"{old!r} wrapped the lake's sealing key" in reason
    assert "as its setting sealing_key" in reason
