"""Checks, space, dumps, garbage collection, leftovers and keys: their pages and refusals."""

import time
from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.lake.opening.repositories import DELETED_PARTITION
from graveler.retention.garbage import Garbage
from graveler.storage.tables.port import Key
from tests.api.support import Client, EventClient, basic, make_world
from tests.retention.support import AGE, OffClock

REPO = "/repositories/repo"


@pytest.fixture
def client() -> Client:
    world = make_world()
    world.lake.create_repository("repo", "local://repo")
    return EventClient(world)


def ended(client: Client, path: str, body: object) -> str:
    """The ID of an operation that was begun, when it is completed."""
    begun = client("POST", path, (), body)
    assert begun.status == 202, begun
    operation: str = begun.json()["id"]
    while (found := client("GET", f"{REPO}/operations/{operation}").json())["state"] == "running":
        time.sleep(0.01)
    assert found["state"] == "completed", found
    return operation


def pages(client: Client, path: str, rows: str, amount: int) -> list[list[Any]]:
    """The rows of a document, page by page. ``rows`` is where they are in it."""
    found: list[list[Any]] = []
    after = ""
    while not found or after:
        page = client("GET", path, {"after": after, "amount": str(amount)}).json()
        after = page["pagination"]["next_offset"]
        assert page["pagination"]["has_more"] == bool(after)
        for name in rows.split("."):
            page = page[name]
        found.append(page)
    return found


def test_a_check_tells_all_findings_in_pages(client: Client) -> None:
    operation = ended(client, f"{REPO}/checks", {"objects": True})
    found = client("GET", f"{REPO}/checks/{operation}").json()
    assert (found["completed"], found["report"]["findings"], found["report"]["counts"]["commits"]) == (True, [], 1)
    namespace = client.world.lake.repository("repo").namespace
    for stored in list(namespace.list("_graveler/commits/")):
        namespace.delete(stored.key)
    for name in ("one", "two"):
        client("POST", f"{REPO}/tags", (), {"id": name, "ref": "main"})
    operation = ended(client, f"{REPO}/checks", {})
    one_by_one = pages(client, f"{REPO}/checks/{operation}", "report.findings", 1)
    whole = client("GET", f"{REPO}/checks/{operation}").json()["report"]["findings"]
    assert [row for page in one_by_one for row in page] == whole != []
    for nonsense in ("x", "9" * 5000):
        assert client("GET", f"{REPO}/checks/{operation}", {"after": nonsense}).status == 400
    ended(client, f"{REPO}/checks", {"repair": True})
    mended = ended(client, f"{REPO}/checks", {})
    assert client("GET", f"{REPO}/checks/{mended}").json()["report"]["findings"] == []
    assert client("GET", f"{REPO}/space/{mended}").status == 404, "another kind of operation"


def test_space_tells_its_holders_in_pages(client: Client) -> None:
    for name in ("one", "two", "three"):
        client("POST", f"{REPO}/tags", (), {"id": name, "ref": "main"})
    operation = ended(client, f"{REPO}/space", {})
    told = pages(client, f"{REPO}/space/{operation}", "space.holders", 3)
    assert [[row["name"] for row in page] for page in told] == [["main", "one", "three"], ["two"]]


def test_files_of_a_run_are_told_in_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = client.world.lake
    repository = lake.repository("repo")
    for number in range(5):
        repository.upload("main", f"a{number}", b"1")
    repository.reset("main")
    operation = ended(client, f"{REPO}/gc/runs", {"mode": "dry-run"})
    run = client("GET", f"{REPO}/operations/{operation}").json()["result"]
    told = client("GET", f"{REPO}/gc/reports/{run}").json()
    assert (told["run"], told["mode"]) == (run, "dry-run")
    assert [report["run"] for report in client("GET", f"{REPO}/gc/reports").json()["results"]] == [run]
    assert (told["found"], pages(client, f"{REPO}/gc/reports/{run}/files", "results", 2)) == ({}, [[]]), "all is young"
    monkeypatch.setattr("graveler.retention.engine.CHUNK", 2)
    later = Lake(lake.tables, lake.store_of, clock=OffClock(AGE))
    run = Garbage(later.repository("repo")).plan().plan.run
    assert client("GET", f"{REPO}/gc/reports/{run}").json()["found"]["object"]["files"] == 5
    whole = client("GET", f"{REPO}/gc/reports/{run}/files").json()["results"]
    assert len({row["key"] for row in whole if row["kind"] == "object"}) == 5
    for amount in (1, 2, 3, 4):
        files = pages(client, f"{REPO}/gc/reports/{run}/files", "results", amount)
        assert [row for page in files for row in page] == whole
        assert {len(page) for page in files[:-1]} == {amount}
    for nonsense in ("x", "1", "-1/0", "1/", "0/" + "9" * 5000):
        assert client("GET", f"{REPO}/gc/reports/{run}/files", {"after": nonsense}).status == 400
    assert client("GET", f"{REPO}/gc/reports/none/files").status == 404


def test_deleted_repositories_come_in_pages_also_if_the_last_of_one_is_purged() -> None:
    world = make_world()
    client = EventClient(world)
    for name in ("one", "two", "three", "four"):
        world.lake.create_repository(name, f"local://{name}")
        world.lake.delete_repository(name)
    whole = client("GET", "/deleted_repositories").json()["results"]
    assert {one["name"] for one in whole} == {"one", "two", "three", "four"}
    found: list[object] = []
    after = ""
    while after or not found:
        page = client("GET", "/deleted_repositories", {"after": after, "amount": 1}).json()
        found += page["results"]
        world.lake.tables.delete(Key(DELETED_PARTITION, page["results"][0]["uid"].encode()))
        after = page["pagination"]["next_offset"]
    assert found == whole
    for nonsense in (whole[0]["uid"], "x-1", "1"):
        assert client("GET", "/deleted_repositories", {"after": nonsense}).status == 400


def test_a_purge_goes_on_with_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(Settings(request_seconds=-1.0))
    client = EventClient(world)
    world.lake.create_repository("repo", "local://repo").upload("main", "a", b"1")
    uid = world.lake.repository("repo").repository.uid
    client("DELETE", REPO)
    found = client("GET", "/deleted_repositories").json()["results"]
    assert [(one["uid"], one["name"], one["purging"]) for one in found] == [(uid, "repo", False)]
    assert client("POST", f"/deleted_repositories/{uid}/purge", (), {}).status == 412, "somebody may be at work on it"
    now = world.lake.clock.now()
    monkeypatch.setattr(type(world.lake.clock), "now", lambda _: now + 3 * 86_400)
    tries = 0
    while (answer := client("POST", f"/deleted_repositories/{uid}/purge", (), {})).status == 429:
        assert (answer.headers["retry-after"], tries < 1000) == ("1", True)
        tries += 1
    assert (answer.status, answer.json()["name"], tries > 0) == (200, "repo", True)
    assert client("GET", "/deleted_repositories").json()["results"] == []
    assert client("POST", "/deleted_repositories/repo/purge", (), {}).status == 404


def test_a_purge_at_once_does_not_wait() -> None:
    world = make_world()
    client = EventClient(world)
    world.lake.create_repository("repo", "local://repo").upload("main", "a", b"1")
    client("DELETE", REPO)
    assert client("POST", "/deleted_repositories/repo/purge", (), {"force": True}).status == 412
    assert client("POST", "/deleted_repositories/repo/purge", (), {"at_once": True}).status == 200
    assert client("GET", "/deleted_repositories").json()["results"] == []


def test_a_preview_of_rules_changes_nothing_and_refuses_what_cannot_be_set(client: Client) -> None:
    rules = {"default_retention_days": 1, "branches": []}
    tried = client("POST", f"{REPO}/gc/preview", (), {"rules": rules}).json()
    assert tried == {"reached": 1, "kept": 1, "lost_count": 0, "lost": []}
    assert client("GET", f"{REPO}/settings/gc_rules").status == 404
    assert client("POST", f"{REPO}/gc/preview", (), {"rules": {**rules, "default_retention_days": 0}}).status == 400


def test_a_key_is_told_with_its_secret_once(client: Client) -> None:
    made = client("POST", "/auth/keys", (), {"name": "ann", "role": "reader", "repositories": ["r*"]})
    assert made.status == 201
    key = made.json()
    secret = key.pop("secret_access_key")
    assert client("GET", f"/auth/keys/{key['access_key_id']}").json() == key
    told = [row for page in pages(client, "/auth/keys", "results", 1) for row in page]
    assert key in told
    assert all("secret_access_key" not in row for row in told)
    assert secret not in client("GET", "/auth/keys").body.decode()
    assert client("POST", "/auth/keys", (), {"name": ""}).status == 400
    assert client("POST", "/auth/keys", (), {"name": "x", "role": "emperor"}).status == 400
    assert client("DELETE", f"/auth/keys/{key['access_key_id']}").status == 204
    assert client("GET", f"/auth/keys/{key['access_key_id']}").status == 404
    limited = basic(client.world.access.create_key("bob", Role.ADMIN, ("repo",), ()))
    assert client("GET", "/auth/keys", authorization=limited).status == 401


def test_settings_of_a_read_only_repository_change_by_force(client: Client) -> None:
    assert client("PUT", f"{REPO}/settings/read_only", (), {"read_only": True}).status == 204
    body = {"metadata": {"a": "b"}}
    assert client("POST", f"{REPO}/metadata", (), body).status == 403
    assert client("POST", f"{REPO}/metadata", {"force": "true"}, body).status == 204
    assert client("GET", f"{REPO}/branches/main/staging/backing", {"path": "a"}).status == 403
    assert client("GET", f"{REPO}/branches/main/staging/backing", {"path": "a", "force": "true"}).status == 200


def test_renaming_and_the_log_of_what_moved_a_branch(client: Client) -> None:
    client("POST", f"{REPO}/branches", (), {"name": "dev", "source": "main"})
    named = client("POST", f"{REPO}/branches/dev/rename", (), {"name": "new"}, {"Idempotency-Key": "k"}).json()
    assert named["id"] == "new"
    assert client("POST", f"{REPO}/branches/dev/rename", (), {"name": "new"}, {"Idempotency-Key": "k"}).json() == named
    assert client("POST", f"{REPO}/branches/main/rename", (), {"name": "x"}).status == 403
    assert client("POST", f"{REPO}/branches/new/rename", (), {"name": "main"}).status == 409
    (newest, *_) = client("GET", f"{REPO}/branches/new/reflog", {"amount": "1"}).json()["results"]
    assert (newest["operation"], newest["new"]) == ("rename branch", named["commit_id"]) or newest["old"] is None
