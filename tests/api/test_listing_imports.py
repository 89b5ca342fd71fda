"""Imports of listings that a client has uploaded: their contents, their sources, and the necessary permissions."""

import csv
import gzip
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.settings import Settings
from tests.api.support import Client, EventClient, basic, make_world

REPO = "/repositories/repo"
BRANCH = f"{REPO}/branches/main"
COLUMNS = ("path", "physical_address", "size", "etag", "mtime", "content_type", "metadata")


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A client of a deployment that allows one bucket."""
    world = make_world(Settings(import_sources=ImportSources(["s3://given/"])))
    world.lake.create_repository("repo", "local://repo")
    return EventClient(world)


def row(path: str, address: str = "") -> tuple[str, ...]:
    return (path, address or f"s3://given/{path}", "3", "00" * 16, "1700000000", "text/csv", '{"a":"b"}')


def packed(rows: Sequence[Sequence[str]], header: Sequence[str] = COLUMNS) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return gzip.compress(text.getvalue().encode(), mtime=0)


def sent(client: Client, data: bytes, path: str = "x") -> str:
    """The address of an uploaded listing."""
    place: str = client("GET", f"{BRANCH}/staging/backing", {"path": path}).json()["physical_address"]
    client.world.lake.repository("repo").namespace.put(place.removeprefix("local://repo/"), data)
    return place


def ended(client: Client, data: bytes, **fields: object) -> dict[str, Any]:
    """The operation that imports a listing, when it has ended."""
    body = {"path": "x", "physical_address": sent(client, data), **fields}
    begun = client("POST", f"{BRANCH}/import/listing", (), body)
    assert begun.status == 202, begun
    while True:
        found: dict[str, Any] = client("GET", f"{REPO}/operations/{begun.json()['id']}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.01)


def test_what_a_listing_names_replaces_what_is_at_the_destination(client: Client) -> None:
    made = ended(client, packed([row("a"), row("b/c")]), destination="in/", commit={"message": "Listed"})
    assert (made["state"], made["kind"], made["branch"], made["objects"]) == ("completed", "import-listing", "main", 2)
    assert ended(client, packed([row("d")]), destination="in/")["state"] == "completed"
    assert client("GET", f"{REPO}/commits/{made['result']}").json()["message"] == "Listed"
    found = client("GET", f"{REPO}/refs/{made['result']}/objects/stat", {"path": "in/b/c"}).json()
    assert found["physical_address"] == "s3://given/b/c"
    assert (found["size_bytes"], found["content_type"], found["metadata"]) == (3, "text/csv", {"a": "b"})
    listed = client("GET", f"{REPO}/refs/main/objects/ls").json()["results"]
    assert [one["path"] for one in listed] == ["in/d"]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("s3://elsewhere/a", "ForbiddenError"),
        ("s3://given/../private/a", "ForbiddenError"),
        ("s3://given", "ForbiddenError"),
        ("local://repo/_graveler/dumps/x", "ForbiddenError"),
        ("file:///etc/passwd", "ForbiddenError"),
    ],
)
def test_one_address_outside_of_the_sources_ends_it_and_nothing_is_changed(
    client: Client, address: str, kind: str
) -> None:
    head = client("GET", BRANCH).json()
    failed = ended(client, packed([row("a"), row("b", address)]))
    assert (failed["state"], failed["error_kind"]) == ("failed", kind)
    assert repr(address) in failed["error"]
    assert client("GET", BRANCH).json() == head


@pytest.mark.parametrize(
    "data",
    [
        b"path,physical_address\n",
        gzip.compress(b"path\n", mtime=0),
        packed([row("a")])[:-9],
        packed([("a", "b")]),
        packed([("a", "s3://given/a", "many", "x", "0", "", "")]),
        packed([row("a"), row("a")]),
        gzip.compress(b"\xff\xfe", mtime=0),
    ],
)
def test_what_is_no_such_listing_fails_in_words(client: Client, data: bytes) -> None:
    failed = ended(client, data)
    assert (failed["state"], failed["error_kind"]) == ("failed", "InvalidError") or failed[
        "error_kind"
    ] == "ListingError"
    assert failed["error"]
    assert client("GET", f"{REPO}/refs/main/objects/ls").json()["results"] == []


def test_a_listing_of_nothing_fails_with_its_code_unless_it_may(client: Client) -> None:
    assert ended(client, packed([row("a")]), destination="in/")["changes"]["added"] == 1
    head = client("GET", BRANCH).json()
    for terms in ({}, {"dry_run": True}):
        failed = ended(client, packed([]), destination="in/", **terms)
        assert (failed["state"], failed["error_kind"]) == ("failed", "EmptySourceError")
        assert "the uploaded listing lists no objects for 'in/'" in failed["error"]
        assert "changes" not in failed
    rehearsed = ended(client, packed([]), destination="in/", allow_empty=True, dry_run=True)
    assert (rehearsed["state"], rehearsed["result"], rehearsed["commit_id"]) == ("completed", "", "")
    assert client("GET", BRANCH).json() == head
    made = ended(client, packed([]), destination="in/", allow_empty=True)
    assert made["changes"] == rehearsed["changes"]
    assert (made["changes"]["removed"], made["changes"]["removed_bytes"]) == (1, 3)
    assert client("GET", f"{REPO}/refs/main/objects/ls").json()["results"] == []


def test_an_address_that_was_not_handed_out_for_it_is_refused(client: Client) -> None:
    of_another = sent(client, packed([row("a")]), "y")
    for address in (of_another, "local://repo/_graveler/x", "local://repo/data/x/y", "s3://given/listing"):
        answer = client("POST", f"{BRANCH}/import/listing", (), {"path": "x", "physical_address": address})
        assert answer.status == 400, address


def test_who_may_not_write_there_may_not_import(client: Client) -> None:
    body = {"path": "x", "physical_address": sent(client, packed([row("a")]))}
    key = basic(client.world.access.create_key("ann", Role.WRITER, (), ("other",)))
    assert client("POST", f"{BRANCH}/import/listing", (), body, authorization=key).status == 401
    client("PUT", f"{REPO}/settings/branch_protection", (), [{"pattern": "main"}])
    assert client("POST", f"{BRANCH}/import/listing", (), body).status == 403


def test_the_same_request_twice_is_one_import(client: Client) -> None:
    body = {"path": "x", "physical_address": sent(client, packed([row("a")]))}
    once, twice = (
        client("POST", f"{BRANCH}/import/listing", (), body, {"Idempotency-Key": "k"}).json() for _ in range(2)
    )
    assert once == twice
