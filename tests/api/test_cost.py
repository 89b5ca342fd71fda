"""What the API adds to the cost of a verb: no request of the table or the object store, and little time."""

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.lake.lake import Lake
from graveler.storage.memory_objects import MemoryObjects
from graveler.storage.memory_tables import MemoryTables
from tests.api.support import EventClient, World, basic
from tests.support.instruments import CountingObjects, CountingTables

REPO = "/repositories/repo"


class Counted:
    """A client that is known already, of a lake whose requests are counted."""

    def __init__(self) -> None:
        self.tables, self.objects = CountingTables(MemoryTables()), CountingObjects(MemoryObjects("local://repo"))
        lake = Lake(self.tables, lambda _: self.objects)
        access = Access(self.tables)
        keys = [basic(access.create_key(role.value, role)) for role in (Role.ADMIN, Role.READER)]
        self.call = EventClient(World(lake, access, Application(lake, access), *keys))
        opened = lake.create_repository("repo", "local://repo")
        opened.upload("main", "a/b", b"1")
        opened.commit("main", "m")
        self.call("GET", f"{REPO}/refs/main/objects/stat", {"path": "a/b"})

    def requests(self) -> tuple[int, int]:
        """Of the table and the object store, since the last time."""
        found = self.tables.requests, self.objects.requests
        self.tables.reset()
        self.objects.reset()
        return found


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "tables"),
    [
        ("GET", REPO, {}, None, 1),
        ("GET", f"{REPO}/metadata", {}, None, 1),
        ("GET", f"{REPO}/branches/main", {}, None, 2),
        ("GET", f"{REPO}/commits/main", {}, None, 2),
        ("POST", f"{REPO}/branches", {}, {"name": "x", "source": "main"}, 3),
    ],
)
def test_requests_are_those_of_the_verb(
    method: str, path: str, query: dict[str, str], body: object, tables: int
) -> None:
    counted = Counted()
    counted.requests()
    assert counted.call(method, path, query, body).status in (200, 201)
    assert counted.requests() == (tables, 0)


def test_a_refused_request_costs_nothing() -> None:
    counted = Counted()
    counted.call("GET", REPO, authorization=counted.call.world.reader)
    counted.requests()
    for method, path, query, body in (
        ("GET", f"{REPO}/branches", {"amount": "1001"}, None),
        ("POST", f"{REPO}/branches", {}, {"name": 1}),
        ("GET", "/nothing", {}, None),
    ):
        assert counted.call(method, path, query, body).status in (400, 404)
    assert counted.call("DELETE", REPO, authorization=counted.call.world.reader).status == 401
    assert counted.requests() == (0, 0)
