"""Statuses over HTTP: who may post which, and what does not count any more."""

from typing import Any
from urllib.parse import quote

import pytest

from graveler.access.permissions import Role
from graveler.model import Actor, RequiredStatus, Rule
from graveler.operations.pinned_requests import UNRECORDED, decode_pinned
from graveler.operations.store import Operations
from graveler.requests.merging import Merge
from tests.api.support import Answer, Client, EventClient, World, basic, make_world
from tests.lake.gates.support import set_rules

NAMES = ("dbt", "gx/orders", "a%2F+é %")


@pytest.fixture
def world() -> World:
    world = make_world()
    for name in ("repo", "other"):
        world.lake.create_repository(name, f"mem://{name}").create_branch("dev", "main")
    return world


@pytest.fixture
def client(world: World) -> Client:
    return EventClient(world)


def path(ref: str = "dev", repository: str = "repo") -> str:
    return f"/repositories/{repository}/commits/{quote(ref, safe='')}/statuses"


def body(name: str = "dbt", state: str = "success", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": state, **fields}


def listed(client: Client, ref: str = "dev", repository: str = "repo") -> list[tuple[str, str, str]]:
    results = client("GET", path(ref, repository)).json()["results"]
    return [(status["name"], status["principal"], status["state"]) for status in results]


def test_a_checker_posts_the_names_of_its_key_and_writes_nothing(world: World, client: Client) -> None:
    ci = basic(world.access.create_key("ci", Role.CHECKER, statuses=["dbt*", "gx/*", "a%*"]))
    for name in NAMES:
        posted = client("POST", path(), (), body(name, description="fine"), authorization=ci)
        assert (posted.status, posted.json()["name"], posted.json()["by"]) == (201, name, "ci")
        assert "key_id" not in posted.json()
    assert listed(client, "main") == [(name, "ci", "success") for name in NAMES], "the same tree"
    assert client("GET", "/repositories/repo/branches", authorization=ci).status == 200
    for refused in (
        client("POST", path(), (), body("other"), authorization=ci),
        client("PUT", "/repositories/repo/branches/dev/hard_reset", {"ref": "main"}, authorization=ci),
        client("POST", "/repositories/repo/branches/dev/commits", (), {"message": "m"}, authorization=ci),
        client("POST", "/repositories/repo/branches", (), {"name": "x", "source": "main"}, authorization=ci),
    ):
        assert refused.status == 401, refused
        assert refused.message.startswith("insufficient permissions")
    assert listed(client, repository="other") == []


def test_nobody_replaces_the_status_of_another(world: World, client: Client) -> None:
    ci, ann = (
        basic(world.access.create_key("ci", Role.CHECKER, statuses=["dbt"])),
        basic(world.access.create_key("ann", Role.WRITER)),
    )
    client("POST", path(), (), body(state="failure"), authorization=ci)
    client("POST", path(), (), body(), authorization=ann)
    assert listed(client) == [("dbt", "ci", "failure"), ("dbt", "ann", "success")]
    client("POST", path(), (), body(), authorization=ci)
    assert listed(client) == [("dbt", "ann", "success"), ("dbt", "ci", "success")]


def test_statuses_of_a_revoked_key_do_not_count(world: World, client: Client) -> None:
    created = world.access.create_key("ci", Role.CHECKER, statuses=["dbt"])
    client("POST", path(), (), body(), authorization=basic(created))
    world.access.revoke(created.key.key_id)
    assert listed(client) == []
    assert client("POST", path(), (), body(), authorization=basic(created)).status == 401
    again = basic(world.access.create_key("ci", Role.CHECKER, statuses=["dbt"]))
    client("POST", path(), (), body(state="failure"), authorization=again)
    assert listed(client) == [("dbt", "ci", "failure")]


def test_a_status_is_of_the_tree_or_of_the_commit(world: World, client: Client) -> None:
    opened = world.lake.repository("repo")
    opened.upload("dev", "a", b"1")
    first = opened.commit("dev", "One")
    client("POST", path(first.id), (), body("tree"))
    client("POST", path(first.id), (), body("commit", of="commit"))
    opened.commit("dev", "The same tree", allow_empty=True)
    assert [name for name, _, _ in listed(client, first.id[:12])] == ["tree", "commit"]
    assert [name for name, _, _ in listed(client)] == ["tree"]
    assert listed(client, "main") == []
    shown = client("GET", path(first.id)).json()["results"]
    assert [(status["of"], status["commit_id"]) for status in shown] == [("tree", ""), ("commit", first.id)]


def test_a_status_posted_again_is_the_first_one(client: Client) -> None:
    first = client("POST", path(), (), body(expires=3600))
    again = client("POST", path(), (), body(expires=3600), {"Idempotency-Key": "one"})
    assert (first.status, first.json()) == (again.status, again.json())
    assert first.json()["expires"] == first.json()["created"] + 3600


@pytest.mark.parametrize(
    ("ref", "document", "status"),
    [
        ("none", body(), 404),
        ("c" * 64, body(), 404),
        ("dev", {"name": "dbt"}, 400),
        ("dev", body(state="fine"), 400),
        ("dev", body(""), 400),
        ("dev", body("n" * 10_000), 400),
        ("dev", body(url="javascript:alert(1)"), 400),
        ("dev", body(expires=-1), 400),
        ("dev", body(expires=1_800_000_000), 400),
        ("dev", body(of="branch"), 400),
    ],
)
def test_what_is_no_status_is_refused(client: Client, ref: str, document: dict[str, Any], status: int) -> None:
    refused = client("POST", path(ref), (), document)
    assert refused.status == status, refused
    assert listed(client) == []


def test_an_operation_that_is_handed_over_keeps_its_actor(world: World, client: Client) -> None:
    opened = world.lake.repository("repo")
    opened.upload("dev", "a", b"1")
    opened.commit("dev", "One")
    ann = world.access.create_key("ann", Role.WRITER)
    merge = client(
        "POST",
        "/repositories/repo/refs/dev/merge/main",
        (),
        {},
        {"Prefer": "respond-async"},
        authorization=basic(ann),
    )
    assert merge.status == 202, merge
    operation = Operations(world.lake.tables, opened.repository.uid).get(merge.json()["id"])
    assert decode_pinned(operation.request, Merge).actor == Actor("ann", "ann", ann.key.key_id, "writer")
    assert decode_pinned(b'{"request":{"source":"dev","destination":"main"},"version":1}', Merge).actor == UNRECORDED


def test_a_rule_counts_the_statuses_of_those_whom_it_names_while_their_keys_live(world: World, client: Client) -> None:
    opened = world.lake.repository("repo")
    set_rules(opened, Rule(name="tested", branches=("main",), statuses=(RequiredStatus("dbt", posters=("ci",)),)))
    opened.upload("dev", "a", b"1")
    opened.commit("dev", "One")
    ann = basic(world.access.create_key("ann", Role.WRITER))
    first = world.access.create_key("ci", Role.CHECKER, statuses=["dbt"])

    def merge(authorization: str) -> Answer:
        return client("POST", "/repositories/repo/refs/dev/merge/main", (), {}, authorization=authorization)

    candidate = merge(ann).json()["fields"]["candidate"]

    def post(authorization: str, state: str) -> None:
        assert client("POST", path(candidate), (), body(state=state), authorization=authorization).status == 201

    post(ann, "success")
    assert merge(ann).status == 412, "not one of its posters"
    post(basic(first), "success")
    assert merge(basic(first)).status == 401, "a checker publishes nothing"
    world.access.revoke(first.key.key_id)
    assert merge(ann).status == 412, "the key is revoked"
    ci = basic(world.access.create_key("ci", Role.CHECKER, statuses=["dbt"]))
    post(ci, "success")
    post(ann, "failure")
    assert merge(ann).status == 200, "who may not pass it may not stop it either"
    post(ci, "failure")
    assert listed(client, "main") == [("dbt", "ann", "failure"), ("dbt", "ci", "failure")], "after the publication, too"
