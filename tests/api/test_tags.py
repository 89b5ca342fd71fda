"""Tags over the API."""

import pytest

from tests.api.support import Client, segment

TAGS = "/repositories/repo/tags"


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
