"""Pages name the commit that they were read from; with it as the ref, all pages show one state."""

import pytest

from graveler.lake.reading import states
from tests.api.support import Client

REPO = "/repositories/repo"
COMMIT, LEFT, STATE = "x-graveler-commit", "x-graveler-left-commit", "x-graveler-state"


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


def listed(call: Client, ref: str, state: str = "", after: str = "", **query: str) -> tuple[list[str], str]:
    """The paths of a page of two, and its state."""
    asked = {"amount": "2", "after": after, "state": state, **query}
    page = call("GET", f"{REPO}/refs/{ref}/objects/ls", {name: value for name, value in asked.items() if value})
    return [found["path"] for found in page.json()["results"]], page.headers.get(STATE, "")


@pytest.mark.parametrize("query", [{}, {"delimiter": "/"}, {"user_metadata": "false"}], ids=str)
def test_a_branch_is_listed_in_the_state_it_had(call: Client, query: dict[str, str]) -> None:
    repo = call.world.lake.repository("repo")
    commit(call, "main", "a", "c", "e")
    for path in ("b", "d"):
        repo.upload("main", path, b"1")
    found, state = listed(call, "main", **query)
    assert found == ["a", "b"]
    repo.commit("main", "Meanwhile")
    repo.delete("main", ["c", "e"])
    repo.upload("main", "d", b"22")
    repo.commit("main", "Meanwhile again")
    assert listed(call, "main", state, "b", **query) == (["c", "d"], state)
    assert listed(call, "main", state, "d", **query) == (["e"], state)
    assert listed(call, "main", "", "b", **query)[0] == ["d"]


def test_only_a_branch_by_its_name_has_a_state(call: Client) -> None:
    repo = call.world.lake.repository("repo")
    head = commit(call, "main", "a")
    repo.create_tag("v1", "main")
    for ref in ("main@", "main~0", "v1", head, head[:16]):
        assert listed(call, ref) == (["a"], "")
    state = listed(call, "main")[1]
    assert state
    repo.create_branch("dev", "main")
    call.world.lake.create_repository("another", "mem://another")
    others = call("GET", "/repositories/another/refs/main/objects/ls").headers[STATE]
    for ref, wrong in (
        ("main@", state), ("v1", state), ("dev", state), ("main", others), ("main", state[:-1]),
        ("main", "x" + state[1:]), ("main", "not a state"), ("main", "é"),
    ):  # fmt: skip
        refused = call("GET", f"{REPO}/refs/{ref}/objects/ls", {"state": wrong})
        assert (refused.status, "state" in refused.json()["message"]) == (400, True), (ref, wrong)
    assert call("GET", f"{REPO}/refs/nobody/objects/ls", {"state": state}).status == 400


def test_a_state_is_valid_for_a_while(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(call, "main", "a")
    state = listed(call, "main")[1]
    monkeypatch.setattr(states, "LONGEST", -1)
    late = call("GET", f"{REPO}/refs/main/objects/ls", {"state": state})
    assert (late.status, late.json()["code"]) == (412, "precondition_failed"), late.json()
