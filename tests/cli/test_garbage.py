"""gc: plan, run, report, rules, restore, and legal holds."""

import os
import time
from pathlib import Path
from secrets import token_hex

import pytest

from graveler.lake.clock import SystemClock
from tests.cli.support import commit, done, put, run


@pytest.fixture
def dropped(lake: Path) -> list[Path]:
    """A commit, and an object that was dropped; all files are old. Where the objects lie."""
    put("main", "a", "stays")
    commit("main", "One")
    put("main", "b", "lost")
    done("reset", "lakefs://lake/main", "--yes")
    files = [path for path in lake.rglob("objects/**/*") if path.is_file()]
    old = time.time() - 3 * 86_400
    for path in files:
        os.utime(path, (old, old))
    return [path for path in files if "data" in path.parts]


def test_a_lost_object_goes_to_quarantine_and_comes_back(lake: Path, dropped: list[Path]) -> None:
    planned = done("gc", "plan", "lake", "--json").json
    assert planned["found"] == {"object": {"files": 1, "bytes": 4}}
    assert planned["mode"] == "dry-run"
    assert all(path.exists() for path in dropped)
    out = done("gc", "run", "lakefs://lake").out
    assert "quarantined  1 object, 4 B" in out
    assert sum(path.exists() for path in dropped) == len(dropped) - 1
    *_, made = done("gc", "report", "lake", "--json").lines
    (row,) = done("gc", "report", "lake", made["run"], "--json").lines
    assert (row["kind"], row["size"], row["outcome"]) == ("object", 4, "quarantined")
    assert row["key"] in done("gc", "report", "lake", made["run"]).out
    assert done("gc", "restore", "lake", made["run"], "--json").lines == [{"key": row["key"], "restored": True}]
    assert all(path.exists() for path in dropped)
    assert run("gc", "restore", "lake", made["run"]).code == 3
    assert len(done("gc", "report", "lake").out.splitlines()) == 2
    assert done("cat", "lakefs://lake/main/a").out == "stays"


def test_rules_are_tried_set_and_removed(lake: Path, dropped: list[Path]) -> None:
    assert done("gc", "rules", "lake").out.startswith("no rules")
    wanted = ("--default-days", "30", "--branch", "main=90")
    tried = done("gc", "rules", "lake", *wanted, "--preview", "--json").json
    assert tried == {"reached": 2, "kept": 2, "lost": []}
    assert done("gc", "rules", "lake", "--json").json == {"default_days": None, "branches": {}}
    assert done("gc", "rules", "lake", *wanted, "--json").json == {"default_days": 30, "branches": {"main": 90}}
    assert done("gc", "rules", "lake", "--clear").out.startswith("no rules")
    for wrong in (("--branch", "main=90"), ("--default-days", "0"), ("--clear", "--default-days", "1")):
        assert run("gc", "rules", "lake", *wrong).code == 2, wrong
    assert run("gc", "rules", "lake", "--default-days", "1", "--branch", "main").code == 2


def test_holds_are_set_listed_and_released(lake: Path, dropped: list[Path]) -> None:
    held = done("gc", "hold", "lakefs://lake/main", "--why", "audit", "--json").json
    assert [hold["commit"] for hold in done("gc", "holds", "lake", "--json").lines] == [held["commit"]]
    assert "audit" in done("gc", "holds", "lake").out
    done("gc", "release", "lakefs://lake/main")
    assert done("gc", "holds", "lake").out == ""
    assert run("gc", "release", "lakefs://lake/main").code == 3


def test_what_cannot_be_is_refused(lake: Path) -> None:
    assert run("gc", "run", "lake", "--quarantine", "--delete").code == 2
    assert run("gc", "run", "nowhere").code == 3
    assert run("gc", "report", "lake", "no-such-run").code == 3


def test_what_a_deleted_repository_left_is_purged_a_day_later(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("main", "a", "1")
    commit("main", "One")
    done("repo", "delete", "lake", "--yes")
    (found,) = done("gc", "deleted", "--json").lines
    assert (found["name"], found["purging"]) == ("lake", False)
    assert found["uid"] in done("gc", "deleted").out
    early = run("gc", "purge", "lake", "--yes")
    assert (early.code, "deleted only recently" in early.err) == (5, True)
    asked = run("gc", "purge", "lake")
    assert (asked.code, "needs --yes" in asked.err) == (5, True)
    assert run("gc", "purge", "none", "--yes").code == 3
    monkeypatch.setattr(SystemClock, "now", lambda _: time.time() + 2 * 86_400)
    told = done("gc", "purge", "lake", "--yes", "--json").json
    assert (told["name"], told["unknown"]) == ("lake", {"files": 0, "bytes": 0})
    assert told["files"] >= 4
    assert done("gc", "deleted").out == ""
    left = [path for path in lake.rglob("objects/**/*") if path.is_file() and ".graveler-tmp" not in path.parts]
    assert left == []


def removed_other() -> list[str]:
    """What a repository ``other`` is called in the messages about its deletion, after it had an object."""
    namespace = f"local://other-{token_hex(6)}"
    done("repo", "create", "other", "--namespace", namespace)
    done("put", "-", "lakefs://other/main/a", stdin=b"1")
    out = done("repo", "delete", "other", "--yes").out.splitlines()
    assert out[0] == f"deleted repository other; its objects are still in {namespace}"
    return [namespace, *out[1:]]


def uids_of_other() -> list[str]:
    return [line["uid"] for line in done("gc", "deleted", "--json").lines if line["name"] == "other"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_deletion_says_how_its_space_comes_back(lake: Path, times: int) -> None:
    for _ in range(times):  # the second one of this name is named by its uid
        _, *lines = removed_other()
    later, now = (line.partition(": graveler ")[2].split() for line in lines)
    assert run(*later, "--yes").code == 5
    removed = done(*now, "--yes", "--json").json
    assert (removed["name"], removed["files"] >= 2, removed["unknown"]["files"]) == ("other", True, 0)
    rest = uids_of_other()
    assert len(rest) == times - 1
    for uid in rest:
        done("gc", "purge", uid, "--at-once", "--yes")


@pytest.mark.parametrize("name", ["lakefs://other", "other", "{namespace}", "{namespace}/", "{uid}"])
def test_a_purge_takes_every_name_that_is_shown(lake: Path, name: str) -> None:
    namespace, *_ = removed_other()
    (uid,) = uids_of_other()
    done("gc", "purge", name.format(uid=uid, namespace=namespace), "--at-once", "--yes")
    assert uids_of_other() == []


def test_a_plan_without_garbage_says_what_keeps_the_commits(lake: Path) -> None:
    done("commit", "lakefs://lake/main", "-m", "again", "--allow-empty")
    done("tag", "create", "lakefs://lake/v1", "lakefs://lake/main")
    out = done("gc", "plan", "lake").out
    assert "nothing to collect" in out
    assert "as heads of branches" in out
    assert done("gc", "plan", "lake", "--json").json["outlook"]["has_rules"] is False
    assert done("gc", "run", "lake", "--json").json["outlook"] is None
