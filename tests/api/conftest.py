"""The client and the repository that the tests of the API use."""

from collections.abc import Iterator

import pytest

from graveler.api.settings import Settings
from tests.api.over_http import HOST, Switch, serving
from tests.api.support import ANYWHERE, Client, FunctionClient, HttpClient, make_world


@pytest.fixture(scope="session")
def server() -> Iterator[Switch]:
    """A server for all tests, each of which gives it an application."""
    with serving() as switch:
        yield switch


@pytest.fixture(params=["functions", "http"])
def call(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of an API with one repository, ``repo``, and an admin's credentials: in events as functions get them, and over
    HTTP."""
    is_function = request.param == "functions"
    world = make_world(Settings(import_sources=ANYWHERE, decoded_paths=is_function))
    world.lake.create_repository("repo", "local://repo")
    if is_function:
        yield FunctionClient(world)
        return
    switch: Switch = request.getfixturevalue("server")
    switch.application = world.application
    client = HttpClient(world, HOST, switch.port)
    yield client
    client.close()
