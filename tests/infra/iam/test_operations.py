"""The rights that calls of clients need."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.operations import needs
from tests.infra.iam.recorder import Call, Recorded, recording
from tests.infra.iam.templates import Stacks

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/t"


def asked(service: str, operation: str, **parameters: Any) -> list[tuple[str, str]]:
    return [(action, resource) for action, resource, _ in needs(service, operation, parameters)]


def test_a_missing_object_is_missing_only_for_who_may_list() -> None:
    wanted = [("s3:GetObject", "arn:aws:s3:::b/a/k"), ("s3:ListBucket", "arn:aws:s3:::b")]
    assert asked("s3", "HeadObject", Bucket="b", Key="a/k") == wanted
    assert asked("s3", "GetObject", Bucket="b", Key="a/k", Range="bytes=0-1") == wanted


def test_a_copy_reads_one_object_and_writes_the_other() -> None:
    wanted = [
        ("s3:GetObject", "arn:aws:s3:::from/a k"),
        ("s3:ListBucket", "arn:aws:s3:::from"),
        ("s3:PutObject", "arn:aws:s3:::to/b"),
    ]
    assert asked("s3", "CopyObject", Bucket="to", Key="b", CopySource={"Bucket": "from", "Key": "a k"}) == wanted
    assert asked("s3", "UploadPartCopy", Bucket="to", Key="b", CopySource="from/a%20k") == wanted


def test_listing_tells_its_prefix() -> None:
    assert list(needs("s3", "ListObjectsV2", {"Bucket": "b", "Prefix": "p/"})) == [
        ("s3:ListBucket", "arn:aws:s3:::b", {"s3:prefix": "p/"})
    ]


def test_many_deletions_are_each_a_deletion() -> None:
    objects = [{"Key": "a"}, {"Key": "b"}]
    assert asked("s3", "DeleteObjects", Bucket="b", Delete={"Objects": objects, "Quiet": True}) == [
        ("s3:DeleteObject", "arn:aws:s3:::b/a"),
        ("s3:DeleteObject", "arn:aws:s3:::b/b"),
    ]


def test_members_of_a_transaction_are_requests_of_their_own() -> None:
    members = [
        {"Put": {"TableName": "t", "Item": {"P": {"S": "put"}}}},
        *({kind: {"TableName": "t", "Key": {"P": {"S": kind}}}} for kind in ("Update", "Delete", "ConditionCheck")),
    ]
    assert list(needs("dynamodb", "TransactWriteItems", {"TransactItems": members})) == [
        ("dynamodb:PutItem", TABLE, {"dynamodb:leadingkeys": ("put",)}),
        *(
            (f"dynamodb:{kind}Item", TABLE, {"dynamodb:leadingkeys": (kind,)})
            for kind in ("Update", "Delete", "ConditionCheck")
        ),
    ]


def test_requests_tell_the_partitions_of_all_their_items() -> None:
    keys = [{"P": {"S": "b"}, "S": {"B": ""}}, {"P": {"S": "a"}, "S": {"B": ""}}]
    writes = [{"PutRequest": {"Item": keys[0]}}, {"DeleteRequest": {"Key": keys[1]}}]
    both = {"dynamodb:leadingkeys": ("a", "b")}
    for operation, asked_for in (("BatchGetItem", {"Keys": keys}), ("BatchWriteItem", writes)):
        requests = list(needs("dynamodb", operation, {"RequestItems": {"t": asked_for}}))
        assert requests == [(f"dynamodb:{operation}", TABLE, both)]
    query = {"TableName": "t", "ExpressionAttributeValues": {":p": {"S": "a"}}}
    assert list(needs("dynamodb", "Query", query)) == [("dynamodb:Query", TABLE, {"dynamodb:leadingkeys": ("a",)})]
    assert list(needs("dynamodb", "Scan", {"TableName": "t"})) == [("dynamodb:Scan", TABLE, {})]


def test_an_index_is_a_resource_of_its_own() -> None:
    assert asked("dynamodb", "Query", TableName="t", IndexName="i") == [("dynamodb:Query", f"{TABLE}/index/i")]


@pytest.mark.parametrize(
    ("service", "operation", "parameters"),
    [
        ("s3", "PutBucketPolicy", {"Bucket": "b"}),
        ("glue", "GetTable", {}),
        ("s3", "GetObject", {"Bucket": "b", "Key": "k", "VersionId": "v"}),
        ("s3", "PutObject", {"Bucket": "b", "Key": "k", "Tagging": "a=b"}),
        ("s3", "PutObject", {"Bucket": "b", "Key": "k", "ACL": "public-read"}),
        ("kms", "Decrypt", {"CiphertextBlob": None}),
    ],
)
def test_what_is_not_known_is_no_right(service: str, operation: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(UnknownError):
        list(needs(service, operation, parameters))


CLIENT = """
import botocore.session
session = botocore.session.get_session()
client = session.create_client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
client.generate_presigned_url("put_object", {"Bucket": "b", "Key": "k"}, ExpiresIn=9)
try:
    client.put_object(Bucket="b", Key="missing", Body=b"bytes that nobody tells")
except botocore.exceptions.BotoCoreError:
    pass
"""

ROLE: dict[str, Any] = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "lambda.amazonaws.com"},
                    "Action": "sts:AssumeRole",
                }
            ],
        },
        "Policies": [
            {
                "PolicyName": "own",
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/k"}],
                },
            }
        ],
    },
}


def test_calls_of_a_process_are_noted_before_they_are_sent_and_judged_once(tmp_path: Path) -> None:
    own = {**recording(tmp_path), "AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    subprocess.run([sys.executable, "-c", CLIENT], env={**os.environ, **own, "AWS_MAX_ATTEMPTS": "1"}, check=True)
    (file,) = (tmp_path / "calls").iterdir()
    calls = [msgspec.json.decode(line, type=Call) for line in file.read_bytes().splitlines()]
    assert [(call.function, call.operation, call.parameters["Key"]) for call in calls] == [
        ("f", "PutObject", "k"),
        ("f", "PutObject", "missing"),
    ]
    assert b"bytes that nobody tells" not in file.read_bytes()
    stacks = Stacks({"api": {"Resources": {"Role": ROLE}}})
    found = Recorded(tmp_path, stacks, lambda _: stacks.arn("api", "Role"))
    (refused,) = found.judge()
    assert "api-Role: s3:PutObject on arn:aws:s3:::b/missing" in refused
    assert refused.endswith("(s3:PutObject in f): no policy allows it")
    assert [right.resource for right in found.used] == ["arn:aws:s3:::b/k"]
    assert found.judge() == []
