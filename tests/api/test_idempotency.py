"""A POST that is repeated under its key gives the first answer, whatever happened to that."""

import time

import pytest

from graveler.api.idempotency import PARTITION
from graveler.errors import UnavailableError
from graveler.storage.memory_tables import MemoryTables
from graveler.storage.tables import Condition, Item, Key
from tests.api.support import Client

BRANCHES = "/repositories/repo/branches"
KEY = {"Idempotency-Key": "one"}
CREATIONS = [
    (BRANCHES, {"name": "x", "source": "main"}),
    ("/repositories/repo/tags", {"id": "x", "ref": "main"}),
    ("/repositories", {"name": "xyz", "storage_namespace": "local://xyz/"}),
]


@pytest.mark.parametrize(("path", "body"), CREATIONS)
def test_a_repeated_creation_gives_the_first_answer(call: Client, path: str, body: dict[str, str]) -> None:
    first = call("POST", path, (), body, KEY)
    assert first.status == 201
    again = call("POST", path, (), body, KEY)
    assert (again.status, again.body, again.headers["content-type"]) == (
        201,
        first.body,
        first.headers["content-type"],
    )
    assert call("POST", path, (), body).status == 409
    assert call("POST", path, (), body, {"Idempotency-Key": "other"}).status == 409


@pytest.mark.parametrize(("path", "body"), CREATIONS)
def test_of_a_lost_answer_the_retry_gives_it(
    call: Client, path: str, body: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = MemoryTables.put

    def dying(self: MemoryTables, key: Key, item: Item, condition: Condition | None = None) -> None:
        if key.partition == PARTITION and "status" in item:
            raise UnavailableError("the process died here")
        put(self, key, item, condition)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTables, "put", dying)
        assert call("POST", path, (), body, KEY).status == 503
    assert call("POST", path, (), body, KEY).status == 201
    assert call("POST", path, (), body, {"Idempotency-Key": "other"}).status == 409


def test_a_key_that_began_before_somebody_took_the_name_proves_nothing_else(call: Client) -> None:
    body = {"name": "x", "source": "soon"}
    assert call("POST", BRANCHES, (), body, KEY).status == 404
    opened = call.world.lake.repository("repo")
    opened.upload("main", "a", b"1")
    opened.commit("main", "m")
    opened.create_branch("soon", "main")
    opened.create_branch("x", "main~1")
    assert call("POST", BRANCHES, (), body, KEY).status == 409


def test_keys_count_for_their_access_key_and_operation_only(call: Client) -> None:
    assert call("POST", BRANCHES, (), {"name": "x", "source": "main"}, KEY).status == 201
    assert call("POST", "/repositories/repo/tags", (), {"id": "x", "ref": "main"}, KEY).json()["id"] == "x"


def test_a_key_is_for_one_request(call: Client) -> None:
    assert call("POST", BRANCHES, (), {"name": "x", "source": "main"}, KEY).status == 201
    refused = call("POST", BRANCHES, (), {"name": "y", "source": "main"}, KEY)
    assert (refused.status, "Idempotency-Key" in refused.message) == (400, True)
    assert call("GET", f"{BRANCHES}/y").status == 404


def test_undo_under_one_key_goes_back_once(call: Client) -> None:
    opened = call.world.lake.repository("repo")
    for number in range(3):
        opened.commit("main", str(number), allow_empty=True)
    first = call("POST", f"{BRANCHES}/main/undo", (), None, KEY)
    assert call("POST", f"{BRANCHES}/main/undo", (), None, KEY).json() == first.json()
    assert call("GET", f"{BRANCHES}/main").json() == first.json()


REPO = "/repositories/repo"


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        (f"{BRANCHES}/main/commits", {"message": "a", "allow_empty": True}, {"message": "b", "allow_empty": True}),
        (f"{REPO}/refs/dev/merge/main", {"message": "a", "allow_empty": True}, {"message": "b", "allow_empty": True}),
        (f"{BRANCHES}/main/cherry-pick", {"ref": "dev"}, {"ref": "dev", "parent_number": 0}),
        (f"{BRANCHES}/main/revert", {"ref": "main", "parent_number": 0}, {"ref": "main~1", "parent_number": 0}),
        (f"{BRANCHES}/main/import", {"paths": []}, {"paths": [], "commit": {"message": "b"}}),
    ],
)
def test_a_key_is_for_one_commit(call: Client, path: str, body: object, other: object) -> None:
    opened = call.world.lake.repository("repo")
    for branch in ("main", "dev"):
        if branch != "main":
            opened.create_branch(branch, "main")
        opened.upload(branch, branch, b"1")
        opened.commit(branch, branch)
    first = call("POST", path, (), body, KEY)
    assert first.status < 300, first
    again = call("POST", path, (), body, KEY)
    assert (again.status, again.body) == (first.status, first.body)
    head = opened.branch("main")
    refused = call("POST", path, (), other, KEY)
    assert (refused.status, "Idempotency-Key" in refused.message) == (400, True)
    assert "import" in path or opened.branch("main") == head


def test_what_is_kept_of_requests_expires(call: Client) -> None:
    for path, body in (*CREATIONS, (f"{BRANCHES}/main/commits", {"message": "a", "allow_empty": True})):
        assert call("POST", path, (), body, KEY).status == 201
    kept = call.world.lake.tables.query(PARTITION).items
    assert len(kept) == 4
    now = time.time()
    assert all(now + 86_400 < float(str(item["expires"])) < now + 366 * 86_400 for _, item in kept)
