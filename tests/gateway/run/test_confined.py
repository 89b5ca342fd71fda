"""The policy of the page on security, which confines a run on AWS to one repository, allows all that such a run requests."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

import graveler
from graveler.sdk.lake import open_lake
from tests.gateway.run.support import Place, program
from tests.infra.iam.operations import needs
from tests.infra.iam.policies import Policies, Principal, Request, Statement, parse
from tests.infra.iam.templates import ACCOUNT, REGION
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.proxy import FaultyProxy
from tests.support.servers import dynamodb_local, s3proxy
from tests.support.shell import Shell

pytestmark = pytest.mark.ci

PAGE: Final = Path(__file__).parents[3] / "docs" / "security.md"
JOB: Final = Principal(f"arn:aws:iam::{ACCOUNT}:role/job")
WORK: Final = """
put("a", get("seed"))
s3.upload_fileobj(__import__("io").BytesIO(bytes(9 << 20)), "sales", "large")
s3.copy_object(Bucket="sales", Key="b", CopySource="sales/a")
s3.delete_object(Bucket="sales", Key="seed")
s3.list_objects_v2(Bucket="sales")
s3.create_multipart_upload(Bucket="sales", Key="unfinished")
"""
S3_ACTIONS: Final = {
    "GET": "s3:GetObject",
    "HEAD": "s3:GetObject",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
    "LIST": "s3:ListBucket",
}


def confined(table: str, uid: str) -> Policies:
    """Return the policy of the page, for the table of a test and a repository with this ID."""
    text = re.search(r"^```json\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert text is not None
    policy = text[1].replace("0123456789abcdef", uid).replace("123456789012:table/lake", f"{ACCOUNT}:table/{table}")
    statements: tuple[Statement, ...] = parse(json.loads(policy.replace("eu-central-1", REGION)), "job")
    return Policies({JOB.name: statements}, {})


def test_a_run_needs_no_other_rights(tmp_path: Path, shell: Shell) -> None:
    variables, location = new_lake_on_aws("run", tmp_path / "cache")
    shell.export_all(variables)
    with open_lake(user="bob", **location) as lake:
        repositories: list[graveler.Repository] = [lake.repository(name).create() for name in ("sales", "other")]
        main = repositories[0].branch("main")
        main.object("seed").upload("1")
        main.commit("Seed")
        uids = [repository.own.identity for repository in repositories]
    calls: list[tuple[str, dict[str, Any]]] = []
    with FaultyProxy(dynamodb_local()) as tables, FaultyProxy(s3proxy()) as objects:
        tables.answered = lambda operation, request, _: calls.append((operation, json.loads(request)))
        place = Place(
            location["location"],
            {
                **variables,
                "GRAVELER_OBJECTS": location["objects"],
                "AWS_REGION": location["region"],
                "AWS_ENDPOINT_URL_S3": objects.url,
                "AWS_ENDPOINT_URL_DYNAMODB": tables.url,
                "AWS_SESSION_TOKEN": "",
            },
        )
        end = place.run("sales/main", "--once", "1", "--", *program(WORK))
        assert end.code == 0, end.err
    requests = [
        Request(JOB, action, resource, context)
        for operation, parameters in calls
        for action, resource, context in needs("dynamodb", operation, parameters)
    ]
    assert {request.action for request in requests} >= {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:DeleteItem"}
    policies = confined(location["location"].removeprefix("dynamodb://"), uids[0])
    assert {refusal for request in requests if (refusal := policies.decide(request).refusal)} == set()
    bucket = "arn:aws:s3:::lake"
    for operation in set(objects.seen):
        resource = bucket if operation == "LIST" else f"{bucket}/graveler/sales/data/x"
        assert not policies.decide(Request(JOB, S3_ACTIONS[operation], resource)).refusal, operation
    other = confined(location["location"].removeprefix("dynamodb://"), uids[1])
    assert sum(bool(other.decide(request).refusal) for request in requests) > len(requests) / 2
