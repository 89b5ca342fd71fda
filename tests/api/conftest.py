"""The client and the repository that the tests of the API use."""

import pytest

from tests.api.support import Client, EventClient, make_world


@pytest.fixture
def call() -> Client:
    """A client of an API with one repository, ``repo``, and an admin's credentials."""
    world = make_world()
    world.lake.create_repository("repo", "local://repo")
    return EventClient(world)
