"""Commits, histories, merges and differences over the API."""

import gzip

import pytest

from graveler.history.commits import CommitStore, encode_commit, new_commit
from graveler.history.refs import Refs
from graveler.model import CommitID
from tests.api.support import Client, segment
from tests.api.test_branches import BRANCHES, REPO, branch, commit, paths


def test_a_commit_is_answered_whole(call: Client) -> None:
    call.world.lake.repository("repo").upload("main", "a", b"1")
    before = call("GET", f"{REPO}/commits/main").json()
    asked = {"message": "m", "metadata": {"k": "ü"}, "date": 1_600_000_000}
    made = call("POST", f"{BRANCHES}/main/commits", (), asked)
    assert made.status == 201
    said = made.json()
    assert {**said, "id": "", "meta_range_id": ""} == {
        "id": "",
        "parents": [before["id"]],
        "committer": "somebody",
        "message": "m",
        "creation_date": 1_600_000_000,
        "meta_range_id": "",
        "metadata": {"k": "ü"},
        "generation": 2,
        "version": 1,
    }
    assert len(said["meta_range_id"]) == 64
    assert call("GET", f"{REPO}/commits/{said['id'][:12]}").json() == said


def test_nothing_to_commit_has_the_text_that_clients_match(call: Client) -> None:
    answer = call("POST", f"{BRANCHES}/main/commits", (), {"message": "m"})
    assert answer.status == 400
    assert answer.message.startswith("commit: no changes")
    assert call("POST", f"{BRANCHES}/main/commits", (), {"message": "m", "allow_empty": True}).status == 201
    assert call("POST", f"{BRANCHES}/nothing/commits", (), {"message": "m"}).status == 404


def test_a_repeated_request_with_its_key_gives_the_first_answer(call: Client) -> None:
    key = {"Idempotency-Key": "try-1"}
    opened = call.world.lake.repository("repo")
    opened.upload("main", "a", b"1")
    first = call("POST", f"{BRANCHES}/main/commits", (), {"message": "m"}, key)
    opened.upload("main", "b", b"2")
    again = call("POST", f"{BRANCHES}/main/commits", (), {"message": "m"}, key)
    assert (again.status, again.json()) == (201, first.json())
    assert paths(call, "main@") == {"a": b"1"}
    other = call("POST", f"{BRANCHES}/main/commits", (), {"message": "m"}, {"Idempotency-Key": "try-2"})
    assert other.json()["parents"] == [first.json()["id"]]
    branch(call, "dev", "main~1")
    commit(call, "dev", {"c": b"3"})
    merged = [call("POST", f"{REPO}/refs/dev/merge/main", (), {}, key).json() for _ in range(2)]
    assert merged[0] == merged[1]
    assert merged[0]["reference"]


@pytest.mark.parametrize("key", ["x" * 201, "line\nbreak"])
def test_keys_that_cannot_be_kept_are_refused(call: Client, key: str) -> None:
    body = {"message": "m", "allow_empty": True}
    assert call("POST", f"{BRANCHES}/main/commits", (), body, {"Idempotency-Key": key}).status == 400


def test_a_ready_metarange_can_be_committed(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    opened = call.world.lake.repository("repo")
    ready = opened.commit_of("main").metarange
    branch(call, "dev", "main~1")
    made = call("POST", f"{BRANCHES}/dev/commits", {"source_metarange": ready}, {"message": "ready"})
    assert made.status == 201
    assert paths(call, "dev") == {"a": b"1"}
    nonsense = call("POST", f"{BRANCHES}/dev/commits", {"source_metarange": "../x"}, {"message": "ready"})
    assert nonsense.status == 400
    for_main = {"source_metarange": ready, "parent": opened.branch("main").commit_id}
    moved = call("POST", f"{BRANCHES}/dev/commits", for_main, {"message": "ready"})
    assert moved.status == 409
    assert "branch 'dev' is at commit" in str(moved.json())
    nothing = call("POST", f"{BRANCHES}/main/commits", for_main, {"message": "ready"})
    assert nothing.status == 400
    assert nothing.json()["message"].startswith("commit: no changes")


def test_a_log_in_pages_gives_every_commit_once_newest_first(call: Client) -> None:
    made = [commit(call, "main", {"a": str(n).encode()}) for n in range(5)]
    log = f"{REPO}/refs/main/commits"
    whole = [item["id"] for item in call("GET", log).json()["results"]]
    assert whole[:5] == made[::-1]
    seen: list[str] = []
    after = ""
    while True:
        page = call("GET", log, {"amount": 2, "after": after}).json()
        seen += [item["id"] for item in page["results"]]
        after = page["pagination"]["next_offset"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == whole
    assert [item["id"] for item in call("GET", log, {"after": made[3]}).json()["results"]] == whole[2:]
    assert [item["id"] for item in call("GET", log, {"after": "main~1"}).json()["results"]] == whole[2:]


def test_a_log_can_be_narrowed(call: Client) -> None:
    one = commit(call, "main", {"a/1": b"1"})
    two = commit(call, "main", {"b,c": b"2"})
    three = commit(call, "main", {"a/2": b"3"})
    log = f"{REPO}/refs/main/commits"

    def ids(query: object) -> list[str]:
        return [item["id"] for item in call("GET", log, query).json()["results"]]  # type: ignore[arg-type]

    assert ids({"prefixes": "a/"}) == [three, one]
    assert ids([("objects", "a/1"), ("objects", "b,c")]) == [two, one]
    assert ids({"stop_at": two}) == [three, two]
    assert ids({"limit": "true", "amount": 1}) == [three]
    assert not call("GET", log, {"limit": "true", "amount": 1}).json()["pagination"]["has_more"]
    assert ids({"since": "2200-01-01T00:00:00Z"}) == []
    assert len(ids({"since": "2020-01-01T00:00:00+02:00"})) == 4
    assert len(ids({"since": "yesterday"})) == len(ids({"since": "1.hour.ago"})) == 4
    for query in ({"since": "last week"}, {"after": "nothing^^^"}, {"amount": "2000"}):
        assert call("GET", log, query).status in (400, 404)


def test_merge_and_its_base(call: Client) -> None:
    base = commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    source = commit(call, "dev", {"b": b"2"})
    destination = commit(call, "main", {"c": b"3"})
    assert call("GET", f"{REPO}/refs/dev/merge/main").json() == {
        "source_commit_id": source,
        "destination_commit_id": destination,
        "base_commit_id": base,
    }
    merged = call("POST", f"{REPO}/refs/dev/merge/main", (), {})
    assert merged.status == 200
    made = call("GET", f"{REPO}/commits/main").json()
    assert merged.json() == {"reference": made["id"]}
    assert made["parents"] == [destination, source]
    assert made["message"] == "Merge 'dev' into 'main'"
    again = call("POST", f"{REPO}/refs/dev/merge/main")
    assert (again.status, "no changes" in again.message) == (400, True)


def test_a_merge_is_refused_if_somebody_changed_what_has_to_be_untouched(call: Client) -> None:
    commit(call, "main", {"t/a": b"1", "u/a": b"1"})
    branch(call, "dev")
    commit(call, "dev", {"t/b": b"2"})
    head = commit(call, "main", {"u/a": b"3"})
    merge = f"{REPO}/refs/dev/merge/main"
    refused = call("POST", merge, (), {"untouched": ["t/", "u/"]})
    assert (refused.status, refused.json()["reference"]) == (409, "")
    said = refused.json()["message"]
    assert said.startswith("conflict: merging 'dev' into 'main': someone changed objects below 'u/' in 'main'")
    assert call("GET", f"{REPO}/commits/main").json()["id"] == head
    assert call("POST", merge, (), {"untouched": "t/"}).status == 400
    assert call("POST", merge, (), {"untouched": ["t/", ""]}).status == 409
    assert call("POST", merge, (), {"untouched": ["t/"]}).status == 200


def test_a_merge_of_an_expected_commit(call: Client) -> None:
    onto = commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    checked = commit(call, "dev", {"b": b"1"})
    later = commit(call, "dev", {"b": b"2"})
    merge = f"{REPO}/refs/dev/merge/main"
    for expects, ref, found in (
        ({"expected_head": checked}, "dev", later),
        ({"expected_head": later, "expected_destination": checked}, "main", onto),
    ):
        refused = call("POST", merge, (), expects)
        assert refused.status == 412
        document = refused.json()
        assert (document["message"], document["code"]) == ("precondition failed", "unexpected_head")
        assert document["detail"].startswith(f"'{ref}' is at commit {found[:16]} now")
        assert (document["fields"]["ref"], document["fields"]["found"]) == (ref, found)
    assert call("POST", merge, (), {"expected_head": "dev"}).status == 400
    assert call("POST", merge, (), {"expected_head": later, "expected_destination": onto}).status == 200
    assert call("GET", f"{REPO}/commits/main").json()["parents"] == [onto, later]


def test_a_commit_that_has_expired_is_told_to_who_asks_whether_it_is_kept(call: Client) -> None:
    old = commit(call, "main", {"a": b"1"})
    opened = call.world.lake.repository("repo")
    key = CommitStore(opened.tables, opened.repository.uid).key(CommitID(old))
    opened.tables.put(key, {**(opened.tables.get(key) or {}), "expired": 1})
    assert call("GET", f"{REPO}/commits/{old}").status == 200
    answer = call("GET", f"{REPO}/commits/{old}", {"kept": True})
    assert (answer.status, f"commit {old[:16]} has expired" in answer.message) == (410, True)
    assert call("GET", f"{REPO}/commits/main", {"kept": True}).status == 200, "a branch keeps its head"
    assert call("GET", f"{REPO}/commits/nothing", {"kept": True}).status == 404


def test_a_squashed_merge_has_one_parent(call: Client) -> None:
    head = commit(call, "main", {"a": b"1"})
    branch(call, "dev")
    commit(call, "dev", {"b": b"2"})
    assert call("POST", f"{REPO}/refs/dev/merge/main", (), {"squash_merge": True}).status == 200
    assert call("GET", f"{REPO}/commits/main").json()["parents"] == [head]


@pytest.fixture
def apart(call: Client) -> Client:
    """Branches ``main`` and ``dev`` that changed ``x/1`` … ``x/3`` differently, and ``same`` alike."""
    names = ["x/1", "x/2", "x/3"]
    commit(call, "main", dict.fromkeys(names, b"base"))
    branch(call, "dev")
    commit(call, "dev", {**dict.fromkeys(names, b"of dev"), "same": b"1", "new": b"2"})
    commit(call, "main", {**dict.fromkeys(names, b"main"), "same": b"1"})
    return call


def test_a_merge_in_conflict_changes_nothing_and_answers_a_merge_result(apart: Client) -> None:
    before = paths(apart, "main")
    answer = apart("POST", f"{REPO}/refs/dev/merge/main", (), {})
    assert answer.status == 409
    assert answer.json()["reference"] == ""
    assert "conflict" in answer.json()["message"]
    assert paths(apart, "main") == before


def test_strategies_decide_conflicts_for_all_paths_or_by_prefix(apart: Client) -> None:
    for body in ({"strategy": "none"}, {"strategies": [{"prefix": "x/", "strategy": 1}]}):
        assert apart("POST", f"{REPO}/refs/dev/merge/main", (), body).status == 400
    decided = {"strategy": "source-wins", "strategies": [{"prefix": "x/2", "strategy": "dest-wins"}]}
    assert apart("POST", f"{REPO}/refs/dev/merge/main", (), decided).status == 200
    merged = paths(apart, "main")
    assert [merged[f"x/{n}"] for n in (1, 2, 3)] == [b"of dev", b"main", b"of dev"]
    assert apart("GET", f"{REPO}/commits/main").json()["metadata"] == {".lakefs.merge.strategy": "source-wins"}


def test_a_dry_run_lists_every_conflict_in_pages_and_changes_nothing(apart: Client) -> None:
    preview = f"{REPO}/refs/dev/merge/main/preview"
    head = apart("GET", f"{BRANCHES}/main").json()
    page = apart("GET", preview, {"amount": 2}).json()
    assert page["conflicts"] == 3
    assert [item["path"] for item in page["results"]] == ["x/1", "x/2"]
    assert page["pagination"] == {"has_more": True, "next_offset": "x/2", "results": 2, "max_per_page": 1000}
    rest = apart("GET", preview, {"amount": 2, "after": "x/2"}).json()
    assert [item["path"] for item in rest["results"]] == ["x/3"]
    assert {side: rest["results"][0][side]["size_bytes"] for side in ("base", "source", "destination")} == {
        "base": 4,
        "source": 6,
        "destination": 4,
    }
    decided = apart("GET", preview, {"strategy": "source-wins"}).json()
    assert (decided["conflicts"], decided["totals"]["changed"], decided["totals"]["added"]) == (0, 3, 1)
    assert apart("GET", f"{BRANCHES}/main").json() == head


def test_a_preview_lists_changes_prefixes_and_the_commits_of_conflicts(apart: Client) -> None:
    preview = f"{REPO}/refs/dev/merge/main/preview"
    heads = {
        side: apart("GET", f"{REPO}/commits/{ref}").json() for side, ref in (("source", "dev"), ("destination", "main"))
    }
    whole = apart("GET", preview).json()
    assert (whole["source_commit_id"], whole["destination_commit_id"]) == (
        heads["source"]["id"],
        heads["destination"]["id"],
    )
    query: dict[str, str | float] = {"list": "changes", "amount": 2}
    first = apart("GET", preview, {**query, "include_left_stats": "true"}).json()
    assert [(item["type"], item["path"], item["size_bytes"]) for item in first["changes"]] == [
        ("added", "new", 1),
        ("conflict", "x/1", 6),
    ]
    assert ("left" in first["changes"][0], first["changes"][1]["left"]["size_bytes"]) == (False, 4)
    assert (first["results"], "totals" in first, "conflicts" in first) == ([], False, False)
    rest = apart("GET", preview, {**query, "after": first["pagination"]["next_offset"]}).json()
    assert [item["path"] for item in rest["changes"]] == ["x/2", "x/3"]
    rolled = apart("GET", preview, {"list": "changes", "delimiter": "/"}).json()["changes"]
    assert [(item["type"], item["path"]) for item in rolled] == [("added", "new"), ("prefix_changed", "x/")]
    wins = {"list": "prefixes", "delimiter": "/", "strategy": "source-wins"}
    prefixes = apart("GET", preview, wins).json()
    assert [(part["path"], part["totals"]["added"], part["totals"]["changed"]) for part in prefixes["prefixes"]] == [
        ("", 1, 0),
        ("x/", 0, 3),
    ]
    page = apart("GET", preview, {"totals": "false", "commits": "true", "amount": 2}).json()
    assert ("totals" in page, "conflicts" in page, page["pagination"]["has_more"]) == (False, False, True)
    for conflict in page["results"]:
        assert conflict["source_commit"] == heads["source"]
        assert conflict["destination_commit"] == heads["destination"]
    opened = apart.world.lake.repository("repo")
    opened.commit("main", "later", allow_empty=True)
    late = apart("GET", preview, {"commits": "true", "within": 0.000001}).json()["results"]
    assert [conflict["destination_commit"] for conflict in late] == [None] * 3


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"list": "all"}, "list"),
        ({"list": "prefixes"}, "give a delimiter"),
        ({"within": "60"}, "within"),
        ({"strategy": "mine"}, "strategy"),
        ({"totals": "perhaps"}, "totals"),
    ],
)
def test_a_preview_says_what_is_wrong_with_its_query(apart: Client, query: dict[str, str], words: str) -> None:
    answer = apart("GET", f"{REPO}/refs/dev/merge/main/preview", query)
    assert (answer.status, words in str(answer.json())) == (400, True)


def test_three_dots_show_what_a_merge_would_bring(apart: Client) -> None:
    diff = f"{REPO}/refs/main/diff/dev"
    shown = {item["path"]: item["type"] for item in apart("GET", diff).json()["results"]}
    assert shown == {"new": "added", "x/1": "conflict", "x/2": "conflict", "x/3": "conflict"}
    plain = apart("GET", f"{REPO}/refs/{segment('main~1')}/diff/dev").json()["results"]
    assert {item["type"] for item in plain} == {"added", "changed"}


def test_a_log_has_the_members_that_are_asked_for(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    for number, author in enumerate(("ana", "bo", "ana")):
        repository.upload("main", "a", bytes([number]))
        repository.commit("main", f"Load {number} " + "ü" * 200 * number, committer=author)
    repository.create_branch("dev", "main~1")
    repository.create_tag("v1", "main~1")
    log = f"{REPO}/refs/main/commits"
    whole = call("GET", log).json()["results"]
    some = call("GET", log, {"fields": "id,parents,message,committer,creation_date"}).json()
    assert set(some) == {"pagination", "results"}
    for entire, described in zip(whole, some["results"], strict=True):
        expected = {name: entire[name] for name in ("id", "parents", "message", "committer", "creation_date")}
        if len(entire["message"]) > 200:
            expected.update(message=entire["message"][:200], message_truncated=True)
        assert described == expected
    assert ["message_truncated" in described for described in some["results"]] == [True, True, False, False]
    refs = [logged["refs"] for logged in call("GET", log, {"fields": "refs"}).json()["results"]]
    at_head, at_second = (
        [{"type": "branch", "id": "main"}],
        [
            {"type": "branch", "id": "dev"},
            {"type": "tag", "id": "v1"},
        ],
    )
    assert refs == [at_head, at_second, [], []]
    names = [logged["message"][:6] for logged in call("GET", log, {"author": "ana"}).json()["results"]]
    assert names == ["Load 2", "Load 0"]
    found = call("GET", log, {"text": "LOAD 1", "fields": "committer"}).json()["results"]
    assert found == [{"committer": "bo"}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"fields": "id,size"}, "there is no 'size' here; name some of id, parents"),
        ({"fields": "id,,parents"}, "there is no '' here"),
        ({"fields": "ID"}, "there is no 'ID' here"),
        ({"within": "0"}, "within"),
        ({"within": "21"}, "within"),
        ({"within": "soon"}, "within"),
        ({"author": "a", "after": "main~7"}, "main~7"),
    ],
)
def test_a_log_says_what_is_wrong_with_its_query(call: Client, query: dict[str, str], words: str) -> None:
    answer = call("GET", f"{REPO}/refs/main/commits", query)
    assert answer.status in (400, 404)
    assert words in str(answer.json())


def test_a_search_that_takes_long_ends_early_and_continues(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    for number in range(5):
        repository.commit("main", f"m{number}", allow_empty=True)
    query: dict[str, str | float] = {"text": "M0", "within": 0.000001, "fields": "message"}
    pages, messages = 0, []
    while True:
        page = call("GET", f"{REPO}/refs/main/commits", query).json()
        pages += 1
        messages += [logged["message"] for logged in page["results"]]
        if not page["pagination"]["has_more"]:
            break
        query["after"] = page["pagination"]["next_offset"]
    assert (pages > 1, messages) == (True, ["m0"])


def test_a_page_of_a_thousand_commits_is_small_when_compressed(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    people = ("etl-hourly", "ana", "bo", "ci")
    for number in range(1000):
        repository.commit(
            "main", f"Load hour {number % 24} of day {number // 24}", allow_empty=True, committer=people[number % 4]
        )
    fields = "id,parents,message,committer,creation_date,refs"
    page = call("GET", f"{REPO}/refs/main/commits", {"fields": fields, "amount": 1000})
    assert len(page.json()["results"]) == 1000
    assert len(gzip.compress(page.body, 6)) <= 60_000


def test_two_dots_show_what_turns_left_into_right(apart: Client) -> None:
    diff = f"{REPO}/refs/dev/diff/main"
    shown = apart("GET", diff, {"type": "two_dot", "include_right_stats": "True"}).json()["results"]
    assert [(item["type"], item["path"], item["size_bytes"]) for item in shown] == [
        ("removed", "new", 1),
        ("changed", "x/1", 4),
        ("changed", "x/2", 4),
        ("changed", "x/3", 4),
    ]
    assert "right" not in shown[0]
    assert set(shown[1]["right"]) == {"checksum", "mtime", "content_type", "metadata"}
    rolled = apart("GET", diff, {"type": "two_dot", "delimiter": "/", "prefix": "x"}).json()["results"]
    assert rolled == [{"type": "prefix_changed", "path": "x/", "path_type": "common_prefix"}]
    assert apart("GET", diff, {"type": "four_dot"}).status == 400


def test_both_sides_of_a_change_are_described_if_asked_for(apart: Client) -> None:
    diff = f"{REPO}/refs/dev/diff/main"
    both = {"include_left_stats": "true", "include_right_stats": "true"}
    removed, changed, *_ = apart("GET", diff, {"type": "two_dot", **both}).json()["results"]
    assert ("right" in removed, removed["left"]["size_bytes"], removed["size_bytes"]) == (False, 1, 1)
    assert set(changed["left"]) == {"checksum", "mtime", "content_type", "metadata", "size_bytes"}
    assert changed["left"]["checksum"] != changed["right"]["checksum"]
    left_only = apart("GET", diff, {"type": "two_dot", "include_left_stats": "true"}).json()["results"]
    assert ["right" in item for item in left_only] == [False] * len(left_only)
    base = apart("GET", f"{REPO}/refs/dev/merge/main").json()["base_commit_id"]
    of_three_dots = apart("GET", diff, both).json()["results"]
    for item in of_three_dots:
        stat = apart("GET", f"{REPO}/refs/{base}/objects/stat", {"path": item["path"]}).json()
        assert item["left"]["checksum"] == stat["checksum"]
    opened = apart.world.lake.repository("repo")
    opened.upload("dev", "x/1", b"longer than before")
    opened.delete("dev", ["x/2"])
    for path in (f"{REPO}/branches/dev/diff", f"{REPO}/refs/dev/diff/{segment('dev$')}"):
        replaced, deleted = apart("GET", path, both).json()["results"]
        assert (replaced["left"]["size_bytes"], replaced["size_bytes"]) == (6, 18)
        assert replaced["right"]["checksum"] != replaced["left"]["checksum"]
        assert (deleted["type"], deleted["left"]["size_bytes"], "right" in deleted) == ("removed", 6, False)
        assert "left" not in str(apart("GET", path).json())


def test_a_dollar_on_the_right_includes_what_is_not_committed(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    call.world.lake.repository("repo").upload("main", "b", b"2")
    shown = call("GET", f"{REPO}/refs/main/diff/{segment('main$')}", {"type": "two_dot"}).json()["results"]
    assert [item["path"] for item in shown] == ["b"]
    assert call("GET", f"{REPO}/refs/main~1/diff/{segment('main$')}").status == 400


def test_a_background_operation_says_how_far_it_is(call: Client) -> None:
    asked = {"paths": [], "commit": {"message": "nothing to import"}}
    started = call("POST", f"{BRANCHES}/main/import", (), asked)
    assert started.status == 202
    operation = call("GET", f"{REPO}/operations/{started.json()['id']}").json()
    assert (operation["id"], operation["state"] in ("running", "completed")) == (started.json()["id"], True)
    assert call("GET", f"{REPO}/operations/nothing").status == 404


def test_sums_blame_annotations_and_a_check(apart: Client) -> None:
    total = apart("GET", f"{REPO}/refs/main/diff/dev/summary", {"type": "two_dot"}).json()["total"]
    assert (total["added"], total["changed"], total["removed"]) == (1, 3, 0)
    parts = apart("GET", f"{REPO}/refs/main/diff/dev/summary", {"delimiter": "/"}).json()["results"]
    assert [part["path"] for part in parts] == ["", "x/"]
    assert apart("GET", f"{REPO}/refs/dev/usage").json() == {"objects": 5, "size_bytes": 20, "results": []}
    head = apart("GET", f"{REPO}/commits/dev").json()
    assert apart("GET", f"{REPO}/refs/dev/blame", {"path": "x/1"}).json() == head
    assert apart("GET", f"{REPO}/refs/dev/blame", {"path": "nothing"}).status == 404
    assert apart("GET", f"{REPO}/refs/dev/blame").status == 400
    noted = apart("GET", f"{REPO}/refs/dev/annotate", {"delimiter": "/"}).json()["results"]
    assert [(item["path"], item["path_type"], item["commit"]["id"]) for item in noted] == [
        ("new", "object", head["id"]),
        ("same", "object", head["id"]),
        ("x/", "common_prefix", head["id"]),
    ]
    page: dict[str, str | float] = {"delimiter": "/", "within": 0.000001}
    first = apart("GET", f"{REPO}/refs/main/annotate", page).json()
    later, position = first["results"], first.get("next")
    while position:
        missing = [item["path"] for item in later if item["commit"] is None]
        answer = apart("GET", f"{REPO}/refs/main/annotate", {**page, "next": position}).json()
        later, position = answer["results"], answer.get("next")
        assert [item["path"] for item in later] == missing
    assert [item["commit"] is None for item in later] == [False] * len(later)
    assert apart("GET", f"{REPO}/refs/dev/annotate", {"within": 0}).status == 400
    assert apart("GET", f"{REPO}/refs/dev/annotate", {"within": 1, "next": "x"}).status == 400
    assert apart("GET", f"{REPO}/refs/dev/annotate", {"next": "x"}).status == 400
    checked = apart("GET", f"{REPO}/fsck").json()
    assert (checked["clean"], checked["findings"], checked["counts"]["branches"]) == (True, 0, 2)


def test_a_summary_comes_in_pages_sorted_and_bounded(call: Client) -> None:
    commit(call, "main", {"a/1": b"1", "b/1": b"333", "c/1": b"22", "z": b"1"})
    opened = call.world.lake.repository("repo")
    for number in range(3):
        opened.upload("main", f"staged/{number}", b"1")
    summary = f"{REPO}/refs/main~1/diff/main/summary"
    whole = call("GET", summary, {"delimiter": "/", "type": "two_dot"}).json()
    assert set(whole) == {"total", "results"}
    query: dict[str, str | float] = {"delimiter": "/", "amount": 2}
    pages = [call("GET", summary, query).json()]
    while pages[-1]["pagination"]["has_more"]:
        pages.append(call("GET", summary, {**query, "after": pages[-1]["pagination"]["next_offset"]}).json())
    assert [[part["path"] for part in page["results"]] for page in pages] == [["a/", "b/"], ["", "c/"]]
    assert [page["sort"] for page in pages] == ["path", "path"]
    largest = call("GET", summary, {**query, "sort": "bytes"}).json()
    assert ([part["path"] for part in largest["results"]], largest["sort"]) == (["", "b/", "c/"], "bytes")
    assert largest["pagination"] == {"has_more": True, "next_offset": "c/", "results": 3, "max_per_page": 1000}
    assert call("GET", summary, {"most": 3}).json()["total"]["added"] <= 4
    counted = call("GET", f"{BRANCHES}/main/diff/summary", {"most": 2}).json()
    assert (counted["total"]["added"], counted["more"]) == (2, True)
    assert "more" not in call("GET", f"{BRANCHES}/main/diff/summary", {"most": 3}).json()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"amount": "5"}, "give a delimiter"),
        ({"delimiter": "/", "after": "a"}, "give an amount"),
        ({"delimiter": "/", "sort": "bytes"}, "give an amount"),
        ({"delimiter": "/", "amount": "5", "sort": "size"}, "sort"),
        ({"delimiter": "/", "amount": "5", "most": "5"}, "leave out one"),
        ({"delimiter": "/", "amount": "1001"}, "amount"),
        ({"most": "0"}, "most"),
        ({"most": "1000001"}, "most"),
    ],
)
def test_a_summary_says_what_is_wrong_with_its_query(call: Client, query: dict[str, str], words: str) -> None:
    for path in (f"{REPO}/refs/main/diff/main/summary", f"{BRANCHES}/main/diff/summary"):
        answer = call("GET", path, query)
        assert (answer.status, words in str(answer.json())) == (400, True)


def test_what_a_later_version_made_is_told_by_its_code(call: Client) -> None:
    commit(call, "main", {"a": b"1"})
    branch(call, "old", "main~1")
    tables, repository = call.world.lake.tables, call.world.lake.repository("repo")
    before = repository.commit_of("main")
    later = new_commit([before], before.metarange, "", "later", before.created, {}, "of a later version")
    record = encode_commit(later).replace(b'"version":1', b'"version":2')
    tables.put(CommitStore(tables, repository.repository.uid).key(later.id), {"record": record, "line": b""})
    key = Refs(tables, repository.repository.uid).branch_key("main")
    tables.put(key, {**(tables.get(key) or {}), "commit": later.id})
    head = later.id
    for method, path, query, body in (
        ("GET", f"{REPO}/refs/main/objects", {"path": "a"}, None),
        ("GET", f"{REPO}/refs/main/commits", {}, None),
        ("POST", f"{REPO}/refs/main/merge/old", {}, {}),
        ("POST", f"{BRANCHES}/main/commits", {}, {"message": "m", "allow_empty": True}),
    ):
        refused = call(method, path, query, body)
        assert refused.status == 501
        said = refused.json()
        assert (said["code"], said["fields"]["version"], said["fields"]["latest"]) == ("later_version", 2, 1)
        assert f"the record of commit {head} was made by a later version of graveler" in said["message"]
    checked = call("GET", f"{REPO}/fsck").json()
    assert (checked["clean"], checked["checked"]["garbage"]) == (False, False)
    assert [finding["kind"] for finding in checked["results"]] == ["later-version"]


def test_a_numbered_write_is_merged_once(call: Client) -> None:
    written = f"{BRANCHES}/main/written"

    def merge(name: str, **application: object) -> str:
        branch(call, name)
        commit(call, name, {f"t/{name}": b"1"})
        answer = call("POST", f"{REPO}/refs/{name}/merge/main", (), {"application": application})
        assert answer.status == 200
        return str(answer.json()["reference"])

    asked = {"application": "a/stream", "version": "3"}
    assert call("GET", written, asked).json() == {"commit_id": None}
    made = merge("one", id="a/stream", version=3)
    assert merge("again", id="a/stream", version=3) == made
    assert merge("older", id="a/stream", version=2) == made
    assert call("GET", written, asked).json() == {"commit_id": made}
    assert call("GET", written, {**asked, "version": "4"}).json() == {"commit_id": None}
    assert merge("another", id="another", version=0) != made
    assert set(paths(call, "main")) == {"t/one", "t/another"}
    assert call("GET", written).status == 400
    assert call("GET", written, {**asked, "version": "-1"}).status == 400
    assert call("GET", f"{BRANCHES}/nothing/written", asked).status == 404
    for wrong in ({"id": "", "version": 1}, {"id": "a", "version": -1}, {"id": "a"}, "a"):
        assert call("POST", f"{REPO}/refs/another/merge/main", (), {"application": wrong}).status == 400
