"""Branches over the API: each route's success, and each error's status and text."""

from typing import Any

import pytest

from graveler.history.owners import Owners
from tests.api.support import Client, segment

REPO = "/repositories/repo"
BRANCHES = REPO + "/branches"


def commit(call: Client, branch: str, files: dict[str, bytes], message: str = "m") -> str:
    """Upload and commit; the commit's ID."""
    opened = call.world.lake.repository("repo")
    for path, data in files.items():
        opened.upload(branch, path, data)
    answer = call("POST", f"{BRANCHES}/{branch}/commits", (), {"message": message})
    assert answer.status == 201, answer
    made = answer.json()["id"]
    assert isinstance(made, str)
    return made


def branch(call: Client, name: str, source: str = "main") -> None:
    assert call("POST", BRANCHES, (), {"name": name, "source": source}).status == 201


def paths(call: Client, ref: str) -> dict[str, bytes]:
    opened = call.world.lake.repository("repo")
    return {entry.path: opened.read(ref, entry.path) for entry in opened.objects(ref)}


def test_create_answers_with_the_bare_commit_id(call: Client) -> None:
    head = commit(call, "main", {"a": b"1"})
    answer = call("POST", BRANCHES, (), {"name": "dev", "source": "main~0"})
    assert (answer.status, answer.headers["content-type"], answer.text) == (201, "text/plain", head)
    assert call("GET", f"{BRANCHES}/dev").json() == {"id": "dev", "commit_id": head}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"name": "main", "source": "main"}, 409, "branch already exists: not unique"),
        ({"name": "x", "source": "nothing"}, 404, "not found"),
        ({"name": "x", "source": "main~5"}, 404, "not found"),
        ({"name": "x", "source": "main$"}, 404, "not found"),
        ({"name": "x", "source": ""}, 400, ""),
        ({"name": "a/b", "source": "main"}, 400, "'/'"),
        ({"name": "-x", "source": "main"}, 400, "branch"),
        ({"name": "é", "source": "main"}, 400, "branch"),
        ({"name": "", "source": "main"}, 400, "empty"),
    ],
)
def test_create_refuses(call: Client, body: dict[str, str], status: int, words: str) -> None:
    answer = call("POST", BRANCHES, (), body)
    assert answer.status == status, answer
    assert words in answer.message


def test_hidden_branches_are_listed_only_on_demand(call: Client) -> None:
    call("POST", BRANCHES, (), {"name": "tx-1", "source": "main", "hidden": True})
    assert [ref["id"] for ref in call("GET", BRANCHES).json()["results"]] == ["main"]
    assert [ref["id"] for ref in call("GET", BRANCHES, {"show_hidden": "True"}).json()["results"]] == ["main", "tx-1"]
    assert call("GET", f"{BRANCHES}/tx-1").status == 200


@pytest.mark.parametrize("amount", [1, 2, 3, 7])
def test_pages_of_any_size_give_every_branch_once_in_order(call: Client, amount: int) -> None:
    names = sorted(f"b{n}" for n in range(6))
    for name in names:
        branch(call, name)
    seen: list[str] = []
    after = ""
    while True:
        page = call("GET", BRANCHES, {"prefix": "b", "after": after, "amount": amount}).json()
        said = page["pagination"]
        assert said["results"] == len(page["results"]) <= amount
        assert said["max_per_page"] == 1000
        seen += [ref["id"] for ref in page["results"]]
        if not said["has_more"]:
            assert said["next_offset"] == ""
            break
        after = said["next_offset"]
        assert after == seen[-1]
    assert seen == names


def test_delete(call: Client) -> None:
    branch(call, "dev")
    answer = call("DELETE", f"{BRANCHES}/dev")
    assert (answer.status, answer.body) == (204, b"")
    assert call("GET", f"{BRANCHES}/dev").status == 404
    assert call("DELETE", f"{BRANCHES}/dev").status == 404
    assert call("DELETE", f"{BRANCHES}/main").status == 403


def test_delete_only_where_it_is_expected(call: Client) -> None:
    head = commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    answer = call("DELETE", f"{BRANCHES}/dev", [("at", "0" * 64)])
    assert (answer.status, "is at commit" in answer.text) == (409, True)
    assert call("DELETE", f"{BRANCHES}/dev", [("at", head)]).status == 204


def test_reset_of_everything_an_object_and_a_prefix(call: Client) -> None:
    commit(call, "main", {"a/1": b"1", "a/2": b"2", "b": b"3"})
    opened = call.world.lake.repository("repo")

    def change() -> None:
        for path in ("a/1", "a/2", "b"):
            opened.upload("main", path, b"changed")

    before = paths(call, "main@")
    for body, left in (
        ({"type": "object", "path": "a/1"}, {"a/2", "b"}),
        ({"type": "object", "path": "nothing"}, {"a/1", "a/2", "b"}),
        ({"type": "common_prefix", "path": "a"}, {"b"}),
        ({"type": "reset"}, set()),
    ):
        change()
        assert call("PUT", f"{BRANCHES}/main", (), body).status == 204
        assert {item["path"] for item in call("GET", f"{BRANCHES}/main/diff").json()["results"]} == left
        call("PUT", f"{BRANCHES}/main", (), {"type": "reset"})
    assert paths(call, "main") == before


@pytest.mark.parametrize("body", [{}, {"type": "all"}, {"type": "object"}, {"type": "common_prefix", "path": ""}])
def test_reset_refuses_what_makes_no_sense(call: Client, body: dict[str, str]) -> None:
    assert call("PUT", f"{BRANCHES}/main", (), body).status == 400


def test_hard_reset_and_undo(call: Client) -> None:
    first = commit(call, "main", {"a": b"1"})
    original = call("GET", f"{REPO}/commits/{first}").json()
    second = commit(call, "main", {"a": b"2"})
    assert call("PUT", f"{BRANCHES}/main/hard_reset", {"ref": "main~1"}).status == 204
    assert call("GET", f"{REPO}/commits/main").json() == original
    assert call("POST", f"{BRANCHES}/main/undo").json() == {"id": "main", "commit_id": second}
    call.world.lake.repository("repo").upload("main", "b", b"dirty")
    refused = call("PUT", f"{BRANCHES}/main/hard_reset", {"ref": first})
    assert refused.status == 400
    assert "uncommitted changes (dirty branch)" in refused.message
    assert call("PUT", f"{BRANCHES}/main/hard_reset").status == 400


def test_a_hidden_branch_belongs_to_a_transaction_that_renews_its_lease(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    hidden = {"name": "tx-1", "source": "main", "hidden": True, "owner": "one transaction"}
    assert call("POST", BRANCHES, (), hidden).status == 201
    renewal = f"{BRANCHES}/tx-1/lease"
    owners = Owners(call.world.lake.tables, call.world.lake.repository("repo").repository.uid)
    [before] = owners.all()
    assert call("PUT", renewal, (), {"owner": "one transaction"}).status == 204
    [after] = owners.all()
    assert (before.owner, before.beat != after.beat) == (after.owner, True)
    refused = call("PUT", renewal, (), {"owner": "another one"})
    assert refused.status == 404
    assert "'another one' no longer owns" in refused.message
    assert call("DELETE", renewal, {"owner": "another one"}).status == 204
    assert owners.all() == [after]
    assert call("DELETE", renewal, {"owner": "one transaction"}).status == 204
    assert owners.all() == []
    assert call("GET", f"{BRANCHES}/tx-1").status == 200
    assert call("PUT", f"{BRANCHES}/main/lease", (), {"owner": "one transaction"}).status == 404
    assert call("POST", BRANCHES, (), {**hidden, "name": "shown", "hidden": False}).status == 400


def test_revert_takes_back_one_commit(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    commit(call, "main", {"b": b"2"})
    answer = call("POST", f"{BRANCHES}/main/revert", (), {"ref": "main~1", "parent_number": 0})
    assert answer.headers["x-graveler-commit"] == call("GET", f"{BRANCHES}/main").json()["commit_id"]
    assert (answer.status, answer.body) == (204, b"")
    assert paths(call, "main") == {"b": b"2"}
    assert call("GET", f"{REPO}/commits/main").json()["message"] == "Revert main~1"
    again = call("POST", f"{BRANCHES}/main/revert", (), {"ref": "main~2", "parent_number": 0})
    assert again.status == 400
    assert "no changes" in again.message


def test_revert_refuses(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    commit(call, "main", {"a": b"2"})
    revert = f"{BRANCHES}/main/revert"
    conflict = call("POST", revert, (), {"ref": "main~1", "parent_number": 0})
    assert conflict.status == 409
    assert "conflict" in conflict.message
    assert call("POST", revert, (), {"ref": "main", "parent_number": 2}).status == 400
    assert call("POST", revert, (), {"ref": "nothing", "parent_number": 0}).status == 404
    assert call("POST", revert, (), {"ref": "main"}).status == 400
    call.world.lake.repository("repo").upload("main", "x", b"dirty")
    dirty = call("POST", revert, (), {"ref": "main", "parent_number": 0})
    assert (dirty.status, "(dirty branch)" in dirty.message) == (400, True)


def test_strategies_decide_conflicts_of_reverts_and_picks(call: Client) -> None:
    commit(call, "main", {"a": b"1", "b": b"1"})
    commit(call, "main", {"a": b"2", "b": b"2"})
    commit(call, "main", {"a": b"3", "b": b"3"})
    body = {"ref": "main~1", "parent_number": 0, "strategies": [{"prefix": "b", "strategy": "source-wins"}]}
    assert call("POST", f"{BRANCHES}/main/revert", (), body).status == 409
    assert call("POST", f"{BRANCHES}/main/revert", (), body | {"strategy": "mine"}).status == 400
    assert call("POST", f"{BRANCHES}/main/revert", (), body | {"strategy": "dest-wins"}).status == 204
    opened = call.world.lake.repository("repo")
    assert [opened.read("main", path) for path in ("a", "b")] == [b"3", b"1"]
    body["ref"], body["strategy"] = "main~2", "source-wins"
    assert call("POST", f"{BRANCHES}/main/cherry-pick", (), body).status == 201
    assert [opened.read("main", path) for path in ("a", "b")] == [b"2", b"2"]


def test_of_a_merge_the_parent_must_be_named(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    commit(call, "dev", {"b": b"2"})
    assert call("POST", f"{REPO}/refs/dev/merge/main", (), {}).status == 200
    assert call("POST", f"{BRANCHES}/main/revert", (), {"ref": "main", "parent_number": 0}).status == 409
    branch(call, "other", "main~1")
    assert call("POST", f"{BRANCHES}/other/cherry-pick", (), {"ref": "main"}).status == 400
    assert call("POST", f"{BRANCHES}/other/cherry-pick", (), {"ref": "main", "parent_number": 1}).status == 201
    assert call("POST", f"{BRANCHES}/main/revert", (), {"ref": "main", "parent_number": 1}).status == 204


def test_cherry_pick_keeps_message_and_metadata_and_says_where_it_is_from(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    call.world.lake.repository("repo").upload("dev", "b", b"2")
    picked: dict[str, Any] = call(
        "POST", f"{BRANCHES}/dev/commits", (), {"message": "take me", "metadata": {"k": "v"}}
    ).json()
    made = call("POST", f"{BRANCHES}/main/cherry-pick", (), {"ref": "dev"})
    assert made.status == 201
    assert made.json()["message"] == "take me"
    assert made.json()["metadata"] == {
        "k": "v",
        "cherry-pick-origin": picked["id"],
        "cherry-pick-committer": "somebody",
    }
    again = call("POST", f"{BRANCHES}/main/cherry-pick", (), {"ref": "dev"})
    assert (again.status, "no changes" in again.message) == (400, True)


def test_uncommitted_changes_are_listed_with_sizes_of_what_is_there(call: Client) -> None:
    commit(call, "main", {"gone": b"1", "kept": b"2", "d/x": b"3", "d/y": b"3"})
    opened = call.world.lake.repository("repo")
    opened.delete("main", ["gone", "d/x"])
    opened.upload("main", "kept", b"22")
    opened.upload("main", "new", b"333")
    diff = f"{BRANCHES}/main/diff"
    assert call("GET", diff).json()["results"] == [
        {"type": "removed", "path": "d/x", "path_type": "object", "size_bytes": 0},
        {"type": "removed", "path": "gone", "path_type": "object", "size_bytes": 0},
        {"type": "changed", "path": "kept", "path_type": "object", "size_bytes": 2},
        {"type": "added", "path": "new", "path_type": "object", "size_bytes": 3},
    ]
    rolled = call("GET", diff, {"delimiter": "/", "amount": 1}).json()
    assert rolled["results"] == [{"type": "prefix_changed", "path": "d/", "path_type": "common_prefix"}]
    assert rolled["pagination"]["next_offset"] == "d/"
    total = call("GET", f"{diff}/summary").json()["total"]
    assert (total["added"], total["removed"], total["changed"], total["added_bytes"]) == (1, 2, 1, 3)
    assert call("GET", f"{BRANCHES}/nothing/diff").status == 404


def test_refs_in_paths_may_say_how_long_ago(call: Client) -> None:
    head = commit(call, "main", {"a": b"1"})
    assert call("GET", f"{REPO}/commits/{segment('main@{0 seconds ago}')}").json()["id"] == head
    assert call("GET", f"{REPO}/refs/{segment('main@{now}')}/objects/ls").json()["results"][0]["path"] == "a"
    early = call("GET", f"{REPO}/commits/{segment('main@{1 hour ago}')}")
    assert (early.status, "did not exist yet" in early.message) == (404, True)


@pytest.mark.parametrize("ref", ["main~1", "main^1", "main@~1", "main~~0", "main^", "main@{1}"])
def test_refs_in_paths_may_hold_any_step(call: Client, ref: str) -> None:
    first = commit(call, "main", {"a": b"1"})
    commit(call, "main", {"a": b"2"})
    assert call("GET", f"{REPO}/commits/{segment(ref)}").json()["id"] == first
    assert call("GET", f"{REPO}/commits/{ref}").json()["id"] == first
