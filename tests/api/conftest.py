"""The client and the repository that the tests of the API use."""

from collections.abc import Iterator

import pytest

from tests.api.over_http import HOST, Switch, serving
from tests.api.support import Client, EventClient, HttpClient, make_world


@pytest.fixture(scope="session")
def server() -> Iterator[Switch]:
    """A server for all tests, each of which gives it an application."""
    with serving() as switch:
        yield switch


@pytest.fixture(params=["events", "http"])
def call(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of an API with one repository, ``repo``, and an admin's credentials: in events, and over HTTP."""
    world = make_world()
    world.lake.create_repository("repo", "local://repo")
    if request.param == "events":
        yield EventClient(world)
        return
    switch: Switch = request.getfixturevalue("server")
    switch.application = world.application
    client = HttpClient(world, HOST, switch.port)
    yield client
    client.close()
