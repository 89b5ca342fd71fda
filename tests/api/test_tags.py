"""Tags over the API."""

from itertools import pairwise

import pytest

from graveler.access.permissions import Role
from tests.api.support import Client, basic, segment
from tests.support.gateways import TAGS as PLAIN

TAGS = "/repositories/repo/tags"
TAGS_OF_ALL_KINDS = (*PLAIN, "aA", "a%2541", "100%", "a&b;c=d", "é/ü")


@pytest.mark.parametrize("name", ["v1", "v1.0", "naïve", "a+b", "a%b", "a&b#c", "release/1"])
def test_any_name_of_a_tag_survives_the_path(call: Client, name: str) -> None:
    head = call("GET", "/repositories/repo/commits/main").json()["id"]
    made = call("POST", TAGS, (), {"id": name, "ref": "main"})
    assert (made.status, made.json()) == (201, {"id": name, "commit_id": head})
    assert call("GET", f"{TAGS}/{segment(name)}").json() == made.json()
    assert call("GET", f"/repositories/repo/commits/{segment(name)}").json()["id"] == head
    assert call("GET", TAGS).json()["results"] == [made.json()]
    assert call("DELETE", f"{TAGS}/{segment(name)}").status == 204
    assert call("DELETE", f"{TAGS}/{segment(name)}").status == 404
    assert call("GET", f"{TAGS}/{segment(name)}").status == 404


def test_every_operation_takes_every_name_of_a_tag(call: Client) -> None:
    """Also behind a gateway that decodes paths: a slash of a name, and an escape in it, make no other name of it."""
    repository = call.world.lake.repository("repo")
    commits = {}
    for tag in TAGS_OF_ALL_KINDS:
        repository.upload("main", "x", tag.encode())
        commits[tag] = repository.commit("main", tag).id
        repository.create_tag(tag, "main")
    for before, tag in pairwise(TAGS_OF_ALL_KINDS):
        ref, left = (f"/repositories/repo/refs/{segment(name)}" for name in (tag, before))
        assert call("GET", f"{ref}/objects", {"path": "x"}).text == tag
        assert call("HEAD", f"{ref}/objects", {"path": "x"}).headers["content-length"] == str(len(tag.encode()))
        assert call("GET", f"{ref}/objects/stat", {"path": "x"}).json()["size_bytes"] == len(tag.encode())
        assert call("POST", f"{ref}/objects/stats", (), {"paths": ["x"]}).status == 200
        assert [each["path"] for each in call("GET", f"{ref}/objects/ls").json()["results"]] == ["x"]
        assert call("GET", f"{ref}/commits").json()["results"][0]["message"] == tag
        assert call("GET", f"{ref}~1/commits").json()["results"][0]["message"] == before
        assert call("GET", f"/repositories/repo/commits/{segment(tag)}").json()["id"] == commits[tag]
        assert call("GET", f"{ref}/blame", {"path": "x"}).json()["message"] == tag
        diff = call("GET", f"{left}/diff/{segment(tag)}", {"type": "two_dot"})
        assert [each["path"] for each in diff.json()["results"]] == ["x"]
        assert call("GET", f"{left}/diff/{segment(tag)}/summary", {"type": "two_dot"}).status == 200
        assert call("GET", f"{ref}/merge/main").json()["base_commit_id"] == commits[tag]
        repository.create_branch("old", before)
        merged = call("POST", f"{ref}/merge/old", (), {})
        assert repository.commit_of("old").id == merged.json()["reference"]
        assert repository.read("old", "x") == tag.encode()
        repository.delete_branch("old")
    for tag in TAGS_OF_ALL_KINDS:
        assert call("DELETE", f"{TAGS}/{segment(tag)}").status == 204
        commits.pop(tag)
        assert {each["id"] for each in call("GET", TAGS).json()["results"]} == set(commits)


@pytest.mark.parametrize("tag", ["nightly/2026-01-31", "a%41", "x/y/z"])
def test_a_name_with_a_slash_takes_the_same_permission(call: Client, tag: str) -> None:
    call("POST", TAGS, (), {"id": tag, "ref": "main"})
    limited = basic(call.world.access.create_key("limited", Role.WRITER, ["other"], []))
    ref = f"/repositories/repo/refs/{segment(tag)}"
    for method, path, key in (
        ("GET", f"{TAGS}/{segment(tag)}", limited),
        ("GET", f"{ref}/commits", limited),
        ("DELETE", f"{TAGS}/{segment(tag)}", call.world.reader),
        ("POST", f"{ref}/merge/main", call.world.reader),
    ):
        assert call(method, path, (), {} if method == "POST" else None, authorization=key).status == 401
    assert call("GET", f"{TAGS}/{segment(tag)}").status == 200


def test_a_user_whose_name_has_a_slash_is_the_one_that_was_named(call: Client) -> None:
    for name in ("team/ada", "team", "a%2Fda"):
        call.world.access.create_key(name, Role.READER)
    for name in ("team/ada", "team", "a%2Fda"):
        assert call("GET", f"/auth/users/{segment(name)}").json()["id"] == name
        assert len(call("GET", f"/auth/users/{segment(name)}/credentials").json()["results"]) == 1
        assert call("DELETE", f"/auth/users/{segment(name)}").status == 204
        assert call("GET", f"/auth/users/{segment(name)}").status == 404


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"id": "taken", "ref": "main"}, 409, "tag already exists: not unique"),
        ({"id": "x", "ref": "nothing"}, 404, "not found"),
        ({"id": "a b", "ref": "main"}, 400, "tag"),
        ({"id": "a..b", "ref": "main"}, 400, "tag"),
        ({"id": "x"}, 400, "ref"),
    ],
)
def test_create_refuses(call: Client, body: dict[str, str], status: int, words: str) -> None:
    call("POST", TAGS, (), {"id": "taken", "ref": "main"})
    answer = call("POST", TAGS, (), body)
    assert answer.status == status
    assert words in answer.message
