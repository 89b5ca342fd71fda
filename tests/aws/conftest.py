"""Credentials for the tests' servers, none of the person who runs them; proxies in front of the servers."""

import os
from collections.abc import Iterator
from typing import TypeAlias
from unittest.mock import patch

import pytest

from tests.aws.scene import servers
from tests.storage.adapters import CREDENTIALS
from tests.support.proxy import FaultyProxy

Proxies: TypeAlias = tuple[FaultyProxy, FaultyProxy]
"""Before DynamoDB and before S3."""


@pytest.fixture(scope="package", autouse=True)
def credentials() -> Iterator[None]:
    with patch.dict(os.environ, CREDENTIALS):
        yield


@pytest.fixture(scope="module")
def proxies() -> Iterator[Proxies]:
    at = servers()
    with FaultyProxy(at.dynamodb_url) as tables, FaultyProxy(at.s3_url) as objects:
        yield tables, objects
