"""A deployment's table and bucket in this process (moto), and the functions on them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
import urllib3
from moto import mock_aws

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.functions.entry import Context, Event, api_handler
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from tests.support.shell import Shell

Handler = Callable[[Event, Context | None], Event]


@contextmanager
def logging_restored() -> Iterator[None]:
    """A function takes the library's log for itself; other tests of this process want it back."""
    loggers = [logging.getLogger(name) for name in ("graveler", "graveler.audit")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


@pytest.fixture
def deployment(tmp_path: Path, shell: Shell) -> Iterator[None]:
    """What the stacks make, as far as functions see it."""
    variables = {
        "GRAVELER_OBJECTS": "s3://lake",
        "GRAVELER_TABLES": "dynamodb://lake",
        "GRAVELER_DATA_BUCKETS": "raw",
        "GRAVELER_CACHE": str(tmp_path / "cache"),
        "GRAVELER_CACHE_BYTES": "1000000",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    shell.export_all(variables)
    shell.unset("AWS_ENDPOINT_URL")
    with logging_restored(), mock_aws():
        s3 = boto3.client("s3")
        for bucket in ("lake", "raw"):
            s3.create_bucket(Bucket=bucket)
        DynamoDBTables(settings_of("dynamodb://lake")).create_table()
        # moto encrypts with any key, and making one of RSA, which it does for a symmetric one, takes a tenth of a second
        key = boto3.client("kms").create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
        shell.export("GRAVELER_KMS_KEY", key["KeyMetadata"]["Arn"])
        yield


@pytest.fixture
def write(deployment: None) -> Handler:
    """The function that writes."""
    return api_handler("write")


@pytest.fixture
def authorization(deployment: None) -> str:
    """An admin's."""
    made = Access(DynamoDBTables(settings_of("dynamodb://lake"))).create_key("admin", Role.ADMIN)
    return urllib3.make_headers(basic_auth=f"{made.key.key_id}:{made.secret}")["authorization"]
