"""Ingest over HTTP: rules, what they have staged, comparing and repairing, recorded events."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.ingest_commits import OperationCommits
from graveler.api.settings import Settings
from graveler.ingest.handover import Look
from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.lake.opening.folder import create_folder_lake
from graveler.wire.ingest_documents import MAX_MESSAGES
from tests.api.support import ANYWHERE, Answer, Client, EventClient, World, basic, make_world
from tests.support.patience import PATIENCE

RULES = "/repositories/repo/ingest/rules"
REPLAY = "/repositories/repo/ingest/replay"
RECONCILIATIONS = "/repositories/repo/ingest/reconciliations"
RULE: dict[str, Any] = {"name": "r", "source": "s3://landing/in/", "branch": "main", "destination": "data/"}


def line(key: str, sequencer: str = "1", kind: str = "created") -> str:
    """An event that is younger than any rule here, so that the bucket, which there is none of, is not asked."""
    told = {"address": f"s3://landing/in/{key}", "kind": kind, "sequencer": sequencer, "size": 1, "etag": "e"}
    return json.dumps({**told, "time": time.time() + 3600})


def paths(call: Client, ref: str = "main") -> list[str]:
    return [entry.path for entry in call.world.lake.repository("repo").objects(ref)]


def test_rules_are_added_described_listed_and_removed(call: Client) -> None:
    added = call("POST", RULES, (), {**RULE, "commit": {"objects": 2}, "id": "chosen"})
    assert added.status == 201, added
    rule = added.json()
    assert rule == {
        **RULE,
        "suffixes": [],
        "deletes": "apply",
        "overwrites": "replace",
        "commit": {"objects": 2, "seconds": 0, "marker": "", "window": None},
        "message": "Ingest {objects} objects by rule {rule}",
        "metadata": {},
        "verify": False,
        "id": rule["id"],
    }
    assert rule["id"] not in ("", "chosen")
    assert call("GET", f"{RULES}/r").json() == rule
    assert call("POST", RULES, (), {**RULE, "name": "q", "source": "s3://other/", "destination": "q/"}).status == 201
    page = call("GET", RULES, {"amount": 1}).json()
    assert [one["name"] for one in page["results"]] == ["q"]
    assert page["pagination"]["has_more"] is True
    (last,) = call("GET", RULES, {"after": page["pagination"]["next_offset"]}).json()["results"]
    assert last == rule
    assert call("GET", RULES, {"prefix": "r"}).json()["results"] == [rule]
    assert call("DELETE", f"{RULES}/r").status == 204
    assert call("GET", f"{RULES}/r").status == call("DELETE", f"{RULES}/r").status == 404


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"source": "s3://landing"}, 400, "not the address"),
        ({"name": "a b"}, 400, "not the name of a rule"),
        ({"deletes": "never"}, 400, "deletes"),
        ({"branch": "gone"}, 404, "gone"),
        ({"name": "r"}, 409, "'r'"),
        ({"name": "other", "destination": "elsewhere/"}, 400, "overlaps 's3://landing/in/' of rule 'r'"),
        ({"name": "other", "source": "s3://../x/"}, 403, "s3://../x/"),
    ],
)
def test_rules_that_cannot_be_are_refused(call: Client, changes: dict[str, Any], status: int, said: str) -> None:
    assert call("POST", RULES, (), RULE).status == 201
    answer = call("POST", RULES, (), {**RULE, **changes})
    assert (answer.status, said in answer.message) == (status, True), answer
    assert len(call("GET", RULES).json()["results"]) == 1


def test_a_rule_is_replaced_and_begins_anew_only_where_it_moved(call: Client) -> None:
    added = call("PUT", f"{RULES}/r", (), RULE).json()
    assert call("PUT", f"{RULES}/r", (), RULE).json() == added
    changed = call("PUT", f"{RULES}/r", (), {**RULE, "commit": {"seconds": 60}, "suffixes": [".csv"]}).json()
    assert (changed["id"], changed["commit"]["seconds"]) == (added["id"], 60)
    moved = call("PUT", f"{RULES}/r", (), {**RULE, "destination": "elsewhere/"}).json()
    assert moved["id"] != added["id"]
    assert call("GET", RULES).json()["results"] == [moved]
    assert call("PUT", f"{RULES}/q", (), RULE).status == 400
    assert call("PUT", f"{RULES}/q", (), {**RULE, "name": "q"}).status == 400  # overlaps


def test_a_repeated_request_adds_one_rule(call: Client) -> None:
    key = {"Idempotency-Key": "k"}
    first = call("POST", RULES, (), RULE, key)
    assert call("POST", RULES, (), RULE, key).json() == first.json()
    assert call("POST", RULES, (), {**RULE, "branch": "x"}, key).status == 400
    assert call("POST", RULES, (), RULE).status == 409


def test_recorded_events_are_processed_once_and_what_is_due_is_committed(call: Client) -> None:
    call("POST", RULES, (), {**RULE, "commit": {"objects": 3}})
    bad = line("x").replace("landing", "other")
    answer = call("POST", REPLAY, (), {"messages": [line("a"), line("b"), "nonsense", bad]}).json()
    assert [one["outcome"] for one in answer["results"]] == ["staged", "staged", "poison", "poison"]
    assert "no rule applies to 's3://other'" in answer["results"][3]["reason"]
    assert (answer["commits"], answer["commits_failed"]) == ([], [])
    assert paths(call) == ["data/a", "data/b"]
    status = call("GET", f"{RULES}/r/status").json()
    assert status["pending"].pop("since") > 0
    assert status == {"rule": "r", "pending": {"objects": 2, "deleted": 0}, "due": "", "commits": 0}
    answer = call("POST", REPLAY, (), {"messages": [line("a"), line("c")]}).json()
    assert [one["outcome"] for one in answer["results"]] == ["stale", "staged"]
    (made,) = answer["commits"]
    assert made["rule"] == "r"
    assert call.world.lake.repository("repo").branch("main").commit_id == made["commit"]["id"]
    assert call("GET", f"{RULES}/r/status").json()["commits"] == 1
    assert call("POST", REPLAY, (), {"messages": [line("a")] * (MAX_MESSAGES + 1)}).status == 400


def test_events_are_processed_by_the_rules_of_the_repository_only(call: Client) -> None:
    lake = call.world.lake
    other = lake.create_repository("other", "local://other")
    RuleStore(lake.tables).add(lake, "other", Rule("r", "s3://landing/in/", "main"))
    call("POST", RULES, (), {**RULE, "source": "s3://mine/"})
    answer = call("POST", REPLAY, (), {"messages": [line("a")]}).json()
    assert answer["results"][0]["outcome"] == "poison"
    assert list(other.objects("main")) == []


def test_a_commit_that_is_too_much_for_a_request_is_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    application = Application(world.lake, world.access, Settings(operation_records=5, import_sources=ANYWHERE))
    call = EventClient(World(world.lake, world.access, application, world.admin, world.reader))
    try:
        repository = world.lake.create_repository("repo", "local://repo")
        call("POST", RULES, (), {**RULE, "commit": {"objects": 8}})
        messages = [line(f"{number}") for number in range(9)]
        with monkeypatch.context() as patched:  # the operation goes on for longer than the request
            patched.setattr(OperationCommits, "look", lambda *_: Look())
            assert call("POST", REPLAY, (), {"messages": messages}).json()["commits"] == []
        committing = call("GET", f"{RULES}/r/status").json()["committing"]
        assert (committing["number"], committing["reason"], committing["amount"]["objects"]) == (1, "objects", 9)
        ended = wait(call, f"/repositories/repo/operations/{committing['operation']}", "state")
        assert (ended["kind"], ended["state"], ended["branch"]) == ("commit", "completed", "main")
        answer = call("POST", REPLAY, (), {"messages": messages[:1]}).json()
        committed = [made["commit"]["id"] for made in answer["commits"]]
        assert committed == [ended["commit_id"]] == [repository.branch("main").commit_id]
        status = call("GET", f"{RULES}/r/status").json()
        assert "committing" not in status
        assert len(paths(call, "main@")) == 9
    finally:
        application.close()


def wait(call: Client, path: str, field: str) -> dict[str, Any]:
    never, deadline = Event(), time.monotonic() + PATIENCE
    while (found := call("GET", path).json())[field] in ("running", False):
        assert time.monotonic() < deadline, found
        never.wait(0.01)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def drop(tmp_path: Path) -> Iterator[tuple[EventClient, Path]]:
    """A lake in a folder, and a folder beside it in which something has landed before there was a rule."""
    landed = tmp_path / "drop"
    landed.mkdir()
    for name in ("a.csv", "b.csv"):
        (landed / name).write_text(name)
    with create_folder_lake(tmp_path / "lake") as lake:
        access = Access(lake.tables)
        application = Application(lake, access, Settings(import_sources=ANYWHERE))
        admin, reader = (basic(access.create_key(role.value, role)) for role in (Role.ADMIN, Role.READER))
        lake.create_repository("repo", "local://repo")
        RuleStore(lake.tables).add(
            lake, "repo", Rule("r", f"file://{landed}/", "main", "in/", commit=CommitPolicy(objects=2))
        )
        yield EventClient(World(lake, access, application, admin, reader)), landed
        application.close()


def test_sources_are_compared_and_repaired_in_the_background(drop: tuple[EventClient, Path]) -> None:
    call, landed = drop
    started = call("POST", RECONCILIATIONS, (), {"rule": "r", "dry_run": True})
    assert started.status == 202
    looked = wait(call, f"{RECONCILIATIONS}/{started.json()['id']}", "completed")
    assert (looked["linked"], looked["dry_run"], looked["commits"]) == (["in/a.csv", "in/b.csv"], True, [])
    assert paths(call) == []
    key = {"Idempotency-Key": "k"}
    again = [call("POST", RECONCILIATIONS, (), {"rule": "r"}, key).json()["id"] for _ in range(2)]
    assert again[0] == again[1]
    made = wait(call, f"{RECONCILIATIONS}/{again[0]}", "completed")
    assert (made["objects"], made["linked_count"], made["deleted_count"], made["refused"]) == (2, 2, 0, [])
    assert made["commits"] == [call.world.lake.repository("repo").branch("main").commit_id]
    (landed / "a.csv").unlink()
    third = call("POST", RECONCILIATIONS, (), {"rule": "r"}).json()["id"]
    assert wait(call, f"{RECONCILIATIONS}/{third}", "completed")["deleted"] == ["in/a.csv"]
    told = call("GET", f"/repositories/repo/operations/{third}").json()
    assert (told["kind"], told["state"], told["branch"], told["objects"]) == ("reconcile", "completed", "main", 1)
    assert call("POST", RECONCILIATIONS, (), {"rule": "none"}).status == 404
    assert call("GET", f"{RECONCILIATIONS}/none").status == 404


def test_comparing_that_fails_says_why(drop: tuple[EventClient, Path]) -> None:
    call, _ = drop
    call.world.lake.repository("repo").create_branch("other", "main")
    rule = {**call("GET", f"{RULES}/r").json(), "branch": "other"}
    assert call("PUT", f"{RULES}/r", (), rule).status == 200
    call.world.lake.repository("repo").delete_branch("other")
    started = call("POST", RECONCILIATIONS, (), {"rule": "r"}).json()["id"]
    ended = wait(call, f"{RECONCILIATIONS}/{started}", "completed")
    assert "'other'" in ended["error"]["message"]


@pytest.mark.parametrize(
    ("role", "branches", "rules", "replay"),
    [
        (Role.READER, (), 401, 401),
        (Role.WRITER, (), 401, 200),
        (Role.WRITER, ("main",), 401, 200),
        (Role.WRITER, ("dev*",), 401, 401),
        (Role.ADMIN, ("main",), 401, 200),
        (Role.ADMIN, (), 201, 200),
    ],
)
def test_rules_are_an_admins_and_their_branches_are_who_may_change_them(
    call: Client, role: Role, branches: tuple[str, ...], rules: int, replay: int
) -> None:
    call("POST", RULES, (), {**RULE, "source": "s3://other/", "name": "there"})
    key = basic(call.world.access.create_key("k", role, branches=branches))

    def status(method: str, path: str, body: object = None) -> int:
        answer: Answer = call(method, path, (), body, authorization=key)
        return answer.status

    assert status("GET", RULES) == status("GET", f"{RULES}/there/status") == 200
    assert status("POST", RULES, {**RULE, "destination": "new/"}) == rules
    assert status("POST", REPLAY, {"messages": []}) == replay
    assert status("POST", RECONCILIATIONS, {"rule": "there"}) == (202 if replay == 200 else 401)


def test_a_deployment_says_what_may_be_ingested() -> None:
    world = make_world()
    settings = Settings(
        import_sources=ImportSources(["s3://data/"]), ingest_sources=ImportSources(["s3://data/", "s3://landing/"])
    )
    application = Application(world.lake, world.access, settings)
    call = EventClient(World(world.lake, world.access, application, world.admin, world.reader))
    world.lake.create_repository("repo", "local://repo")
    assert call("POST", RULES, (), RULE).status == 201
    assert call("POST", RULES, (), {**RULE, "name": "s", "source": "s3://secret/"}).status == 403
    world.lake.repository("repo").set_import_sources(["s3://data/"])
    refused = call("PUT", f"{RULES}/r", (), RULE)
    assert (refused.status, "s3://landing/in/" in refused.message) == (403, True)
    application.close()
