"""Two servers of one lake, each with its own memory of branches: neither undoes what the other one refuses or renames."""

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import Client, EventClient, World, basic
from tests.support.keyrings import keyring

REPO = "/repositories/repo"
WORK = "work"
OBJECTS = f"{REPO}/branches/{{}}/objects"


@pytest.fixture
def two() -> tuple[Client, Client]:
    tables, stores = MemoryTables(), dict[str, MemoryObjects]()
    access = Access(tables, keyring(tables))
    admin, reader = basic(access.create_key("somebody", Role.ADMIN)), basic(access.create_key("reader", Role.READER))

    def client() -> Client:
        lake = Lake(tables, lambda namespace: stores.setdefault(namespace, MemoryObjects(namespace)))
        return EventClient(World(lake, access, Application(lake, access, Settings()), admin, reader))

    one, other = client(), client()
    one.world.lake.create_repository("repo", "local://repo")
    assert one("POST", f"{REPO}/branches", (), {"name": "work", "source": "main"}).status == 201
    assert one("POST", OBJECTS.format("work"), {"path": "a"}, b"acknowledged").status == 201
    return one, other


def read(client: Client, ref: str) -> bytes:
    answer = client("GET", f"{REPO}/refs/{ref}/objects", {"path": "a"})
    assert answer.status == 200
    return answer.body


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("again", [False, True])
def test_a_write_under_the_old_name_does_not_reach_the_renamed_branch(
    two: tuple[Client, Client], method: str, again: bool
) -> None:
    one, other = two
    assert other("POST", f"{REPO}/branches/{WORK}/rename", (), {"name": "renamed"}).status == 200
    if again:
        assert other("POST", f"{REPO}/branches", (), {"name": "work", "source": "main"}).status == 201
    answer = one(method, OBJECTS.format("work"), {"path": "a"}, b"late" if method == "POST" else None)
    assert answer.status == (404 if not again else 201 if method == "POST" else 204)
    assert read(other, "renamed") == b"acknowledged"
    assert other("POST", f"{REPO}/branches/renamed/commits", (), {"message": "m"}).status == 201
    assert read(one, "renamed@") == b"acknowledged"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("rule", ["protect", "read-only"])
def test_a_write_that_is_refused_does_not_replace_an_acknowledged_one(
    two: tuple[Client, Client], method: str, rule: str
) -> None:
    one, other = two
    if rule == "protect":
        assert other("PUT", f"{REPO}/settings/branch_protection", (), [{"pattern": "work"}]).status == 204
    else:
        assert other("PUT", f"{REPO}/settings/read_only", (), {"read_only": True}).status == 204
    assert one(method, OBJECTS.format("work"), {"path": "a"}, b"late" if method == "POST" else None).status == 403
    assert read(one, "work") == read(other, "work") == b"acknowledged"


@pytest.mark.parametrize("verb", ["commit", "merge", "revert", "cherry-pick"])
def test_a_verb_reaches_the_repository_that_has_the_name_now(two: tuple[Client, Client], verb: str) -> None:
    one, other = two
    assert one("POST", f"{REPO}/branches/{WORK}/commits", (), {"message": "m"}).status == 201
    assert other("DELETE", REPO).status == 204
    other.world.lake.create_repository("repo", "local://again")
    opened = other.world.lake.repository("repo")
    opened.create_branch("work", "main")
    opened.upload("work", "a", b"new")
    if verb != "commit":
        opened.commit("work", "m")
    branch, path, body, status = {
        "commit": ("work", f"branches/{WORK}/commits", {"message": "m"}, 201),
        "merge": ("main", f"refs/{WORK}/merge/main", {"message": "m"}, 200),
        "revert": ("work", f"branches/{WORK}/revert", {"ref": "work", "parent_number": 0}, 204),
        "cherry-pick": ("main", "branches/main/cherry-pick", {"ref": "work"}, 201),
    }[verb]
    before = opened.branch(branch).commit_id
    assert one("POST", f"{REPO}/{path}", (), body).status == status
    assert opened.branch(branch).commit_id != before


def stage(client: Client, how: str, path: str, address: str) -> int:
    """The status of an answer to somebody who links an object, one or with another, or deletes it."""
    said = {"staging": {"physical_address": address}, "checksum": "0" * 32, "size_bytes": 1}
    if how == "link":
        return client("PUT", f"{REPO}/branches/main/staging/backing", {"path": path}, said).status
    if how == "links":
        return client("POST", f"{REPO}/branches/main/staging/links", (), {"objects": [said | {"path": path}]}).status
    return client("DELETE", OBJECTS.format("main"), {"path": path}).status


def address(client: Client, path: str) -> str:
    answer = client("GET", f"{REPO}/branches/main/staging/backing", {"path": path})
    return str(answer.json()["physical_address"])


@pytest.mark.parametrize("how", ["link", "links", "delete"])
@pytest.mark.parametrize("again", [False, True])
def test_a_repository_that_is_gone_is_not_staged_in(two: tuple[Client, Client], how: str, again: bool) -> None:
    one, other = two
    assert stage(one, how, "first", address(one, "first")) in (200, 204)
    before = one.world.lake.repository("repo")
    assert other("DELETE", REPO).status == 204
    if again:
        other.world.lake.create_repository("repo", "local://again").upload("main", "x", b"1")
        # The other server hands out an address; this one has not heard of the new repository.
        assert stage(one, how, "x", address(other, "x")) in (200, 204)
        staged = {change.path for change in other.world.lake.repository("repo").uncommitted("main").results}
        assert staged == (set() if how == "delete" else {"x"})
    else:
        assert stage(one, how, "x", f"{before.repository.namespace}/data/x") == 404
    old = before.parts.refs.branch("main")
    assert old is not None
    assert before.parts.staged.get([old.open], b"x") is None


def test_import_sources_count_at_once(two: tuple[Client, Client]) -> None:
    one, other = two
    outside = "s3://outside/x"
    for client in two:
        client.world.application._settings = Settings(import_sources=ImportSources(["s3://outside/"]))
    assert stage(one, "link", "x", outside) == 200
    other.world.lake.repository("repo").set_import_sources(("s3://elsewhere/",))
    assert stage(one, "link", "y", outside) == 403
