"""A POST that is repeated under its key gives the first answer, even if that one was lost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from graveler.api import idempotency
from graveler.api.idempotency import PARTITION
from graveler.errors import UnavailableError
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Condition, Item, Key
from tests.api.support import Client

BRANCHES = "/repositories/repo/branches"
KEY = {"Idempotency-Key": "one"}
CREATIONS: list[tuple[str, dict[str, object]]] = [
    (BRANCHES, {"name": "x", "source": "main"}),
    (BRANCHES, {"name": "unseen", "source": "main", "hidden": True}),
    ("/repositories/repo/tags", {"id": "x", "ref": "main"}),
    ("/repositories", {"name": "xyz", "storage_namespace": "local://xyz/"}),
]


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that died are taken for dead after a moment, since their time is not what is tested."""
    monkeypatch.setattr(idempotency, "LEASE", 0.6)


@contextmanager
def answers_lost(error: Exception) -> Iterator[None]:
    """No answer can be kept: whoever tries gets ``error``."""
    put = MemoryTables.put

    def losing(self: MemoryTables, key: Key, item: Item, condition: Condition | None = None) -> None:
        if key.partition == PARTITION and "status" in item:
            raise error
        put(self, key, item, condition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTables, "put", losing)
        yield


@pytest.mark.parametrize(("path", "body"), CREATIONS)
def test_a_repeated_creation_gives_the_first_answer(call: Client, path: str, body: dict[str, object]) -> None:
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


@pytest.mark.usefixtures("short_lease")
@pytest.mark.parametrize(("path", "body"), CREATIONS)
def test_of_a_lost_answer_the_retry_gives_it(call: Client, path: str, body: dict[str, object]) -> None:
    with answers_lost(RuntimeError("the process died here")):
        assert call("POST", path, (), body, KEY).status == 500
    assert call("POST", path, (), body, KEY).status == 201
    assert call("POST", path, (), body, {"Idempotency-Key": "other"}).status == 409


@pytest.mark.parametrize(("path", "body"), CREATIONS)
def test_a_request_that_failed_does_not_claim_what_was_there_before_it(
    call: Client, path: str, body: dict[str, object]
) -> None:
    assert call("POST", path, (), body).status == 201
    for _ in range(3):
        assert call("POST", path, (), body, KEY).status == 409


@pytest.mark.usefixtures("short_lease")
def test_a_branch_is_renamed_once_also_if_the_answer_was_lost(call: Client) -> None:
    call.world.lake.repository("repo").create_branch("old", "main")
    rename = f"{BRANCHES}/old/rename"
    with answers_lost(RuntimeError("the process died here")):
        assert call("POST", rename, (), {"name": "new"}, KEY).status == 500
    again = call("POST", rename, (), {"name": "new"}, KEY)
    assert (again.status, again.json()["id"]) == (200, "new")
    assert call("POST", rename, (), {"name": "new"}, {"Idempotency-Key": "other"}).status == 404
    assert call("POST", f"{BRANCHES}/none/rename", (), {"name": "x"}, {"Idempotency-Key": "third"}).status == 404


def test_a_hard_reset_to_a_relative_ref_moves_the_branch_once(call: Client) -> None:
    opened = call.world.lake.repository("repo")
    made = [opened.commit("main", str(number), allow_empty=True) for number in range(3)]
    for _ in range(2):
        assert call("PUT", f"{BRANCHES}/main/hard_reset", [("ref", "main~1")], None, KEY).status == 204
    assert opened.branch("main").commit_id == made[1].id
    assert call("PUT", f"{BRANCHES}/main/hard_reset", [("ref", "main~1")], None).status == 204
    assert opened.branch("main").commit_id == made[0].id


@pytest.mark.usefixtures("short_lease")
def test_a_hard_reset_whose_answer_was_lost_is_not_done_again(call: Client) -> None:
    opened = call.world.lake.repository("repo")
    made = [opened.commit("main", str(number), allow_empty=True) for number in range(3)]
    with answers_lost(RuntimeError("the process died here")):
        assert call("PUT", f"{BRANCHES}/main/hard_reset", [("ref", "main~1")], None, KEY).status == 500
    assert opened.branch("main").commit_id == made[1].id
    assert call("PUT", f"{BRANCHES}/main/hard_reset", [("ref", "main~1")], None, KEY).status == 204
    assert opened.branch("main").commit_id == made[1].id


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(call: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Or the client would ask again for what was done."""
    opened = call.world.lake.repository("repo")
    before = opened.branch("main").commit_id
    for number in range(2):
        opened.commit("main", str(number), allow_empty=True)
    with answers_lost(UnavailableError("the table is throttled")):
        undone = call("POST", f"{BRANCHES}/main/undo", (), None, KEY)
    assert (undone.status, undone.json()["commit_id"]) == (200, opened.commit_of("main").id)
    assert opened.commit_of("main").parents == (before,)
    assert "the table is throttled" in caplog.text


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


@pytest.mark.usefixtures("short_lease")
def test_undo_goes_back_once_also_if_the_answer_was_lost(call: Client) -> None:
    opened = call.world.lake.repository("repo")
    heads = [opened.commit("main", str(number), allow_empty=True).id for number in range(3)]
    with answers_lost(RuntimeError("the process died here")):
        assert call("POST", f"{BRANCHES}/main/undo", (), None, KEY).status == 500
    again = call("POST", f"{BRANCHES}/main/undo", (), None, KEY)
    assert (again.status, again.json()["commit_id"]) == (200, heads[1])
    assert opened.branch("main").commit_id == heads[1]
    # With another key it is another undo: of this one.
    assert call("POST", f"{BRANCHES}/main/undo", (), None, {"Idempotency-Key": "two"}).json()["commit_id"] == heads[2]


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
    asked = (*CREATIONS, (f"{BRANCHES}/main/commits", {"message": "a", "allow_empty": True}))
    for number, (path, body) in enumerate(asked):
        assert call("POST", path, (), body, {"Idempotency-Key": str(number)}).status == 201
    kept = call.world.lake.tables.query(PARTITION).items
    assert len(kept) == len(asked)
    now = time.time()
    assert all(now + 86_400 < float(str(item["expires"])) < now + 366 * 86_400 for _, item in kept)
