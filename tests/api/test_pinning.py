"""Pages name the commit that they were read from; with it as the ref, all pages show one state."""

import pytest

from tests.api.support import Client

REPO = "/repositories/repo"
COMMIT, LEFT = "x-graveler-commit", "x-graveler-left-commit"


def commit(call: Client, branch: str, *paths: str) -> str:
    opened = call.world.lake.repository("repo")
    for path in paths:
        opened.upload(branch, path, b"1")
    return opened.commit(branch, "m").id


def test_a_listing_goes_on_in_the_state_it_began_with(call: Client) -> None:
    first = commit(call, "main", "a", "b", "c")
    page = call("GET", f"{REPO}/refs/main/objects/ls", {"amount": "1"})
    assert page.headers[COMMIT] == first
    commit(call, "main", "aa", "d")
    after = page.json()["pagination"]["next_offset"]
    assert after == "a"  # the plain path, as clients know it
    rest = call("GET", f"{REPO}/refs/{page.headers[COMMIT]}/objects/ls", {"after": after})
    assert [found["path"] for found in rest.json()["results"]] == ["b", "c"]
    assert rest.headers[COMMIT] == first


@pytest.mark.parametrize("kind", ["two_dot", "three_dot"])
def test_differences_go_on_between_the_commits_they_began_with(call: Client, kind: str) -> None:
    call.world.lake.repository("repo").create_branch("dev", "main")
    left, right = commit(call, "main", "x"), commit(call, "dev", "a", "b")
    page = call("GET", f"{REPO}/refs/main/diff/dev", {"amount": "1", "type": kind})
    assert (page.headers[LEFT], page.headers[COMMIT]) == (left, right)
    commit(call, "main", "b")
    commit(call, "dev", "aa")
    asked = {"after": page.json()["pagination"]["next_offset"], "type": kind}
    rest = call("GET", f"{REPO}/refs/{left}/diff/{right}", asked).json()["results"]
    assert [found["path"] for found in rest] == (["b"] if kind == "three_dot" else ["b", "x"])


def test_what_is_not_committed_names_the_commit_below_it(call: Client) -> None:
    head = commit(call, "main", "a")
    call.world.lake.repository("repo").upload("main", "b", b"2")
    for path in ("branches/main/diff", "refs/main/diff/main$", "refs/main/objects/ls", "refs/main/annotate"):
        assert call("GET", f"{REPO}/{path}").headers[COMMIT] == head, path
