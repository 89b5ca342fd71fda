"""One event loop and one scripted server for the tests of a module."""

import asyncio
import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest
import uvloop

from graveler.system.retries import Retries
from tests.gateway.store.faulty import DATA, PATH, QUICK, Run, Work, in_store
from tests.gateway.store.scripted_s3 import (
    ScriptedS3,
    scripted_s3,
)
from tests.storage.adapters import CREDENTIALS


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as under granian
        yield runner


@pytest.fixture(scope="module")
def server(loop: asyncio.Runner) -> Iterator[ScriptedS3]:
    """One for all tests: the SDK takes long to make a client for another address."""
    block = scripted_s3()
    yield loop.run(block.__aenter__())
    loop.run(block.__aexit__(None, None, None))


@pytest.fixture
def run(loop: asyncio.Runner, server: ScriptedS3) -> Run:
    """Runs a test with a server, and a store on it."""

    async def with_store(work: Work, retries: Retries = QUICK, silence: float = 30) -> None:
        server.begin({PATH: DATA})
        await in_store(server, work, retries, silence)
        await server.end()

    return lambda work, *settings, **named: loop.run(with_store(work, *settings, **named))


@pytest.fixture(autouse=True)
def credentials() -> Iterator[None]:
    with patch.dict(os.environ, CREDENTIALS):
        yield
