"""Credentials that the servers of the tests take, and nothing of the person who runs them."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.storage.adapters import CREDENTIALS


@pytest.fixture(scope="package", autouse=True)
def credentials() -> Iterator[None]:
    with patch.dict(os.environ, CREDENTIALS):
        yield
