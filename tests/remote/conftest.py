"""A scripted server, and a connection to it that hardly waits."""

from collections.abc import Iterator

import pytest

from graveler.remote.connection import Connection, ServerRetries
from tests.remote.scripted import Scripted, scripted

QUICK = ServerRetries(attempts=3, shortest=0.001, longest=0.001)


@pytest.fixture
def script() -> Iterator[Scripted]:
    with scripted() as made:
        yield made


@pytest.fixture
def connection(script: Scripted) -> Iterator[Connection]:
    made = Connection(f"{script.url}/", "key", "secret", retries=QUICK)
    yield made
    made.close()
