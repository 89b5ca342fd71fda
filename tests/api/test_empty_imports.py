"""Imports by address over HTTP: a source that lists nothing ends the operation with a code; the status says what was changed."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Client, EventClient, make_world

REPO = "/repositories/repo"
BRANCH = f"{REPO}/branches/main"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a").write_text("1")
    (tmp_path / "empty").mkdir()
    world = make_world()
    world.lake.create_repository("repo", "mem://repo")
    return EventClient(world)


def ended(client: Client, paths: dict[Path, str], **fields: object) -> tuple[str, dict[str, Any]]:
    """ID and status of an import of folders, when it has ended."""
    sources = [{"type": "common_prefix", "path": f"{one.as_uri()}/", "destination": to} for one, to in paths.items()]
    begun = client("POST", f"{BRANCH}/import", (), {"paths": sources, **fields})
    assert begun.status == 202, begun
    while True:
        status: dict[str, Any] = client("GET", f"{BRANCH}/import", {"id": begun.json()["id"]}).json()
        if status["completed"] or "error" in status:
            return begun.json()["id"], status
        time.sleep(0.01)


def paths(client: Client) -> list[str]:
    return [one["path"] for one in client("GET", f"{REPO}/refs/main/objects/ls").json()["results"]]


def test_a_source_that_lists_nothing_fails_with_its_code(client: Client, tmp_path: Path) -> None:
    ended(client, {tmp_path / "raw": "raw/"})
    head = client("GET", BRANCH).json()
    for terms in ({}, {"dry_run": True}):
        number, status = ended(client, {tmp_path / "empty": "raw/"}, **terms)
        assert (status["completed"], status["error_kind"]) == (False, "EmptySourceError")
        assert f"'file://{tmp_path}/empty/' lists no objects for 'raw/'" in status["error"]["message"]
        operation = client("GET", f"{REPO}/operations/{number}").json()
        assert (operation["state"], operation["error_kind"]) == ("failed", "EmptySourceError")
    # Of two sources, one of which is mistyped, too.
    _, status = ended(client, {tmp_path / "raw": "new/", tmp_path / "empty": "raw/"})
    assert status["error_kind"] == "EmptySourceError"
    assert (client("GET", BRANCH).json(), paths(client)) == (head, ["raw/a"])


def test_the_status_says_what_was_changed_or_would_be(client: Client, tmp_path: Path) -> None:
    ended(client, {tmp_path / "raw": "raw/"})
    (tmp_path / "raw" / "a").write_text("22")
    (tmp_path / "raw" / "b").write_text("333")
    head = client("GET", BRANCH).json()
    number, rehearsed = ended(client, {tmp_path / "raw": "raw/"}, dry_run=True)
    assert rehearsed["completed"]
    assert "commit" not in rehearsed
    assert client("GET", BRANCH).json() == head
    assert client("GET", f"{REPO}/operations/{number}").json()["changes"] == rehearsed["changes"]
    assert ".lakefs.last.import.timestamp" in client("GET", f"{REPO}/metadata").json()
    _, made = ended(client, {tmp_path / "raw": "raw/"})
    assert made["changes"] == rehearsed["changes"]
    assert made["changes"] == {
        "added": 1,
        "added_bytes": 3,
        "replaced": 1,
        "replaced_bytes_before": 1,
        "replaced_bytes_after": 2,
        "removed": 0,
        "removed_bytes": 0,
        "unchanged": 0,
        "unchanged_bytes": 0,
        "excluded": 0,
        "left_out": 0,
    }
    _, emptied = ended(client, {tmp_path / "empty": "raw/"}, allow_empty=True)
    assert (emptied["completed"], emptied["changes"]["removed"], paths(client)) == (True, 2, [])


def test_files_are_left_out_on_request(client: Client, tmp_path: Path) -> None:
    for name in (".env", "b.tmp", "c.csv"):
        (tmp_path / "raw" / name).write_text("1")
    (tmp_path / "raw/.gravelerignore").write_text("*.tmp\n")
    cases: list[tuple[dict[str, Any], list[str], tuple[int, int]]] = [
        ({}, [".env", ".gravelerignore", "a", "b.tmp", "c.csv"], (0, 0)),
        ({"exclude": ["*.csv", "a"]}, [".env", ".gravelerignore", "b.tmp"], (2, 0)),
        ({"ignore": True}, ["a", "c.csv"], (1, 1)),
    ]
    for terms, taken, counts in cases:
        _, status = ended(client, {tmp_path / "raw": "raw/"}, **terms)
        assert paths(client) == [f"raw/{name}" for name in taken]
        assert (status["changes"]["excluded"], status["changes"]["left_out"]) == counts
    source = {"type": "common_prefix", "path": "s3://bucket/x/", "destination": "raw/"}
    refused = client("POST", f"{BRANCH}/import", (), {"paths": [source], "exclude": ["*.tmp"]})
    assert refused.status in (400, 403)


def test_a_dry_run_alone_is_no_import_that_clients_look_for(client: Client, tmp_path: Path) -> None:
    ended(client, {tmp_path / "raw": "raw/"}, dry_run=True)
    assert ".lakefs.last.import.timestamp" not in client("GET", f"{REPO}/metadata").json()


def test_a_dry_run_has_a_path_of_its_own_and_never_passes_for_the_import(client: Client, tmp_path: Path) -> None:
    source = {"type": "common_prefix", "path": f"{(tmp_path / 'raw').as_uri()}/", "destination": "raw/"}
    head = client("GET", BRANCH).json()
    key = {"Idempotency-Key": "k"}

    def completed(*more: str) -> dict[str, Any]:
        begun = client("POST", "/".join((BRANCH, "import", *more)), (), {"paths": [source]}, key)
        assert begun.status == 202, begun
        while True:
            status: dict[str, Any] = client("GET", f"{BRANCH}/import", {"id": begun.json()["id"]}).json()
            if status["completed"]:
                return status
            assert "error" not in status
            time.sleep(0.01)

    planned = completed("dry-run")
    assert (planned["changes"]["added"], client("GET", BRANCH).json()) == (1, head)
    made = completed()
    assert (made["changes"], paths(client)) == (planned["changes"], ["raw/a"])
    assert completed("dry-run") == planned
