"""What the API adds to the cost of a verb: no request of the table or the object store, and little time."""

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.lake.lake import Lake
from graveler.operations.pinned_requests import COMMIT
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import Answer, EventClient, World, basic
from tests.lake.support import FakeClock
from tests.support.instruments import CountingObjects, CountingTables
from tests.support.keyrings import keyring

REPO = "/repositories/repo"


class Counted:
    """A client that is known already, of a lake whose requests are counted."""

    def __init__(self) -> None:
        self.tables, self.objects = CountingTables(MemoryTables()), CountingObjects(MemoryObjects("local://repo"))
        lake = Lake(self.tables, lambda _: self.objects)
        access = Access(self.tables, keyring(self.tables), FakeClock().now)  # who was seen a moment ago stays so
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
        ("GET", f"{REPO}/branches/main", {}, None, 1),
        ("GET", f"{REPO}/commits/main", {}, None, 1),
        ("GET", f"{REPO}/commits/main~1", {}, None, 1),
        ("GET", f"{REPO}/refs/main", {}, None, 2),
        ("GET", f"{REPO}/refs/main~1", {}, None, 1),
        ("GET", f"{REPO}/refs/main/objects/stat", {"path": "a/b"}, None, 1),
        ("GET", f"{REPO}/refs/main@/objects/stat", {"path": "a/b"}, None, 2),
        ("HEAD", f"{REPO}/refs/main/objects", {"path": "a/b"}, None, 1),
        ("GET", f"{REPO}/refs/main/objects/ls", {}, None, 2),
        ("GET", f"{REPO}/branches/main/staging/backing", {"path": "x"}, None, 1),
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


LINK = {"staging": {"physical_address": ""}, "checksum": "0" * 32, "size_bytes": 1}


def link(call: EventClient, path: str, address: str) -> Answer:
    body = LINK | {"staging": {"physical_address": address}}
    return call("PUT", f"{REPO}/branches/main/staging/backing", {"path": path}, body)


def new_address(call: EventClient, path: str) -> str:
    return str(call("GET", f"{REPO}/branches/main/staging/backing", {"path": path}).json()["physical_address"])


def test_a_stage_is_one_write_and_one_read() -> None:
    counted = Counted()
    call = counted.call
    link(call, "w", new_address(call, "w"))  # finds that the token that it remembers was sealed by a commit
    for path in ("x", "y"):
        address = new_address(call, path)
        counted.requests()
        assert link(call, path, address).status == 200
        assert counted.requests() == (2, 0)
    assert call("DELETE", f"{REPO}/branches/main/objects", {"path": "x"}).status == 204
    assert counted.requests() == (2, 0)
    many = [LINK | {"path": path, "staging": {"physical_address": new_address(call, path)}} for path in ("v", "w")]
    counted.requests()
    assert call("POST", f"{REPO}/branches/main/staging/links", (), {"objects": many}).status == 200
    assert counted.requests() == (3, 0)


def test_a_repository_is_read_again_after_a_minute() -> None:
    counted = Counted()
    clock = FakeClock()
    lake = counted.call.world.lake
    lake.clock = clock
    lake.repository("repo").delete("main", ["a"])
    for later, requests in ((0.0, 2), (59.0, 2), (2.0, 3), (1.0, 2)):
        clock.time += later
        counted.requests()
        assert counted.call("DELETE", f"{REPO}/branches/main/objects", {"path": "x"}).status == 204
        assert counted.requests() == (requests, 0)


def test_a_commit_and_a_merge_of_one_change_read_no_repository_by_itself() -> None:
    """One look for the same request at work, and what the verbs themselves need: the branch with its repository, shards, two or
    one transactions; for the merge source and destination together, then both commits."""
    counted = Counted()
    call, lake = counted.call, counted.call.world.lake
    for name in ("cold", "warm"):
        opened = lake.repository("repo")
        opened.create_branch(name, "main")
        opened.upload(name, name, b"1")
        counted.requests()
        assert call("POST", f"{REPO}/branches/{name}/commits", {}, {"message": "m"}).status == 201
        committed = counted.requests()
        assert call("POST", f"{REPO}/refs/{name}/merge/main", {}, {"message": "m"}).status == 200
        merged = counted.requests()
    assert (committed, merged) == ((6, 4), (5, 1))


def test_differences_are_judged_by_the_commits_that_they_are_of() -> None:
    counted = Counted()
    opened = counted.call.world.lake.repository("repo")
    opened.create_branch("dev", "main")
    opened.upload("dev", "x", b"1")
    opened.commit("dev", "m")

    def requests(path: str, query: dict[str, str]) -> tuple[int, int]:
        counted.call("GET", path, query)  # what is read once is in memory
        counted.requests()
        assert counted.call("GET", path, query).status == 200
        return counted.requests()

    assert requests(f"{REPO}/refs/main/diff/dev", {"type": "two_dot"}) == (3, 0)
    assert requests(f"{REPO}/refs/main/diff/dev", {}) == (3, 0)
    opened.upload("main", "y", b"2")
    opened.commit("main", "m")
    assert requests(f"{REPO}/refs/main/diff/dev", {}) == (4, 0)
    assert requests(f"{REPO}/refs/main/merge/dev", {}) == (3, 0)


def test_how_far_operations_are_costs_one_read_each() -> None:
    counted = Counted()
    lake = counted.call.world.lake
    operations = Operations(lake.tables, lake.repository("repo").repository.uid)
    for name in ("a", "b"):
        operations.add(Operation(name, COMMIT, b"", OperationState.COMPLETED, created=1e9, updated=1e9, parts=3))
    counted.requests()
    assert counted.call("GET", f"{REPO}/operations/a").json()["progress"]["parts"] == 3
    assert counted.requests() == (3, 0)
    assert len(counted.call("GET", f"{REPO}/operations").json()["results"]) == 2
    assert counted.requests() == (4, 0)


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


def test_a_repository_that_is_made_again_is_not_taken_for_the_one_before() -> None:
    counted = Counted()
    world = counted.call.world
    stat = f"{REPO}/refs/main/objects/stat"
    assert counted.call("GET", stat, {"path": "a/b"}).status == 200
    world.lake.delete_repository("repo")
    assert counted.call("GET", stat, {"path": "a/b"}).status == 404
    world.lake.store_of = MemoryObjects
    world.lake.create_repository("repo", "local://again").upload("main", "c", b"1")
    assert counted.call("GET", stat, {"path": "a/b"}).status == 404
    assert counted.call("GET", stat, {"path": "c"}).status == 200


def test_whoever_reads_sees_what_was_there_when_they_asked() -> None:
    counted = Counted()
    opened = counted.call.world.lake.repository("repo")
    for number in range(3):
        opened.upload("main", "n", str(number).encode())
        opened.commit("main", str(number))
        assert counted.call("GET", f"{REPO}/commits/main").json()["message"] == str(number)
        view = counted.call.world.lake.repository("repo", "main")
        before = view.commit_of("main")
        opened.commit("main", "again", allow_empty=True)
        assert view.commit_of("main").id != before.id, "what was read ahead answers once"
