"""Programs that keep their own AWS credentials."""

import os
from dataclasses import replace
from unittest.mock import patch

import boto3

import graveler
from tests.gateway.run.support import Place, program

NO_KEYS = {
    "AWS_ACCESS_KEY_ID": "",
    "AWS_SECRET_ACCESS_KEY": "",
    "AWS_SESSION_TOKEN": "",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
OWN = {"AWS_ACCESS_KEY_ID": "ASIAJOB", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "belongs to it"}

TEXT = """
put("a", os.environ["AWS_SESSION_TOKEN"])
for wrong in ({"aws_session_token": "another"}, {"aws_access_key_id": "ASIAOTHER"}, {"aws_secret_access_key": "x"}):
    options = {"aws_access_key_id": "ASIAJOB", "aws_secret_access_key": "hush", "aws_session_token": "belongs to it", **wrong}
    try:
        boto3.client("s3", **options).put_object(Bucket="sales", Key="b", Body=b"1")
    except Exception as error:
        print(error.response["Error"]["Code"])
"""


def test_a_program_signs_by_the_keys_that_it_had(place: Place) -> None:
    end = replace(place, environment={**NO_KEYS, **OWN}).run("sales/main", "--own-keys", "--", *program(TEXT))
    assert (end.code, end.out.split()) == (0, ["InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"]), end.err
    assert place.read("a") == "belongs to it"
    assert not place.sales.branch("main").object("b").exists()
    assert "hush" not in end.err


def test_without_any_the_program_does_not_run(place: Place) -> None:
    end = replace(place, environment=NO_KEYS).run("sales/main", "--own-keys", "--", "echo", "it ran")
    assert (end.code, end.out) == (9, "")
    assert "no AWS credentials to verify by" in end.err
    assert place.branches() == ["main"]


def test_a_block_takes_those_of_its_process(place: Place) -> None:
    with patch.dict(os.environ, {**NO_KEYS, **OWN}), graveler.open(place.folder, user="ada") as lake:
        main = lake.repository("sales").branch("main")
        with main.transaction("Nightly") as transaction, transaction.gateway(own_keys=True) as gateway:
            assert not {"aws_access_key_id", "aws_secret_access_key"} & gateway.storage_options.keys()
            boto3.Session().client("s3", **gateway.client_options).put_object(
                Bucket=gateway.bucket, Key="a", Body=b"one"
            )
    assert place.read("a") == "one"
