"""Dump and restore over HTTP: what a dump holds is there again after its restore, under the documents that clients know."""

from threading import Event
from typing import Any

import pytest

from graveler.access.permissions import Role
from tests.api.support import Client, basic
from tests.support.patience import PATIENCE

REPO = "/repositories/repo"


def dumped(call: Client) -> dict[str, str]:
    """The document of a new dump of ``repo``; waits for it."""
    task = call("POST", f"{REPO}/dump")
    assert task.status == 202
    never = Event()
    for _ in range(int(PATIENCE / 0.01)):
        status = call("GET", f"{REPO}/dump", {"task_id": task.json()["id"]}).json()
        if status["done"]:
            assert "error" not in status
            found: dict[str, str] = status["refs"]
            return found
        never.wait(0.01)
    raise AssertionError("the dump does not end")


@pytest.fixture
def refs(call: Client) -> dict[str, str]:
    """A dump of a repository with a commit and an uncommitted change, which was deleted then."""
    opened = call.world.lake.repository("repo")
    opened.upload("main", "a", b"1")
    opened.commit("main", "m")
    opened.create_tag("v1", "main")
    opened.upload("main", "b", b"2")
    document = dumped(call)
    assert set(document) == {"commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"}
    assert call("DELETE", REPO).status == 204
    return document


def state(call: Client) -> tuple[Any, Any, Any]:
    return tuple(  # type: ignore[return-value] # of three
        [found["id" if "id" in found else "path"] for found in call("GET", f"{REPO}/{what}").json()["results"]]
        for what in ("refs/main/objects/ls", "refs/main/commits", "tags")
    )


def test_a_dump_is_restored_into_a_bare_repository(call: Client, refs: dict[str, str]) -> None:
    creation = {"name": "repo", "storage_namespace": "local://repo"}
    assert call("POST", "/repositories", {"bare": "true"}, creation).json()["storage_namespace"] == "local://repo"
    assert call("GET", REPO).status == 404  # nothing is there yet
    task = call("POST", f"{REPO}/restore", (), refs)
    assert task.status == 202
    status = call("GET", f"{REPO}/restore", {"task_id": task.json()["id"]}).json()
    assert (status["id"], status["done"], "error" in status) == (task.json()["id"], True, False)
    objects, commits, tags = state(call)
    assert (objects, len(commits), tags) == (["a", "b"], 2, ["v1"])
    assert call("POST", f"{REPO}/restore", (), {**refs, "storage_namespace": "local://repo"}).status == 409
    assert call("POST", "/repositories", {"bare": "true"}, creation).status == 409


def test_a_dump_is_restored_from_a_namespace_that_is_named(call: Client, refs: dict[str, str]) -> None:
    body, key = {**refs, "storage_namespace": "local://repo/"}, {"Idempotency-Key": "k"}
    first = call("POST", f"{REPO}/restore", (), body, key)
    assert (first.status, state(call)[0]) == (202, ["a", "b"])
    again = call("POST", f"{REPO}/restore", (), body, key)
    assert (again.status, again.json()) == (202, first.json())


def test_what_cannot_be_restored_is_refused(call: Client, refs: dict[str, str]) -> None:
    there = {"storage_namespace": "local://repo"}
    assert call("POST", f"{REPO}/restore", (), refs).status == 400  # from where?
    assert call("POST", f"{REPO}/restore", (), {**refs, **there, "tags_meta_range_id": "x"}).status == 400
    for name, status in (("nothing", 404), ("../x", 400), ("", 400)):
        assert call("POST", f"{REPO}/restore", (), {**dict.fromkeys(refs, name), **there}).status == status
    assert "must match" in call("POST", f"{REPO}/restore", (), {**refs, "storage_namespace": "ftp://x"}).message
    assert call("POST", "/repositories/NO/restore", (), {**refs, **there}).status == 400
    assert call("GET", REPO).status == 404


def test_only_an_admin_of_the_whole_lake_restores(call: Client, refs: dict[str, str]) -> None:
    limited = basic(call.world.access.create_key("some", Role.ADMIN, ["repo"]))
    body = {**refs, "storage_namespace": "local://repo"}
    for who in (limited, call.world.reader):
        assert call("POST", f"{REPO}/restore", (), body, authorization=who).status == 401
    creation = {"name": "repo", "storage_namespace": "local://repo"}
    assert call("POST", "/repositories", {"bare": "true"}, creation, authorization=limited).status == 401


def test_tasks_are_found_by_their_kind_only(call: Client) -> None:
    task = call("POST", f"{REPO}/dump", (), None, {"Idempotency-Key": "k"}).json()["id"]
    assert call("POST", f"{REPO}/dump", (), None, {"Idempotency-Key": "k"}).json()["id"] == task
    assert call("GET", f"{REPO}/restore", {"task_id": task}).status == 404
    assert call("GET", f"{REPO}/dump", {"task_id": "x"}).status == 404
    assert call("GET", f"{REPO}/operations/{task}").json()["kind"] == "dump"
    assert call("POST", f"{REPO}/dump", authorization=call.world.reader).status == 401
