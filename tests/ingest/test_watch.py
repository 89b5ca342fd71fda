"""A folder that is checked now and then: files that land there come to the branch."""

import json
import os
import time
from pathlib import Path
from signal import SIGINT
from subprocess import PIPE, Popen
from sys import executable

import pytest

from graveler.errors import UnavailableError
from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.folder_watch import FolderWatch
from graveler.storage.objects.folder import FolderObjects
from graveler.values.ignore_rules import Reason
from tests.cli.support import done, run
from tests.support.patience import PATIENCE
from tests.support.shell import Shell


class Ticks:
    """Each look is a second after the one before, and after all files."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._looks = folder, 0

    def __call__(self) -> int:
        self._looks += 1
        newest = max((path.stat().st_ctime_ns for path in self._folder.rglob("*")), default=0)
        return newest + self._looks * 10**9


def told(events: list[ObjectEvent], folder: Path) -> list[tuple[str, str]]:
    prefix = f"{str(folder)[1:]}/"
    return sorted((event.key.removeprefix(prefix), event.kind.value) for event in events)


def test_a_file_counts_when_two_looks_find_it_the_same(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, Ticks(tmp_path))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a b").write_text("1")
    assert watch.look() == []
    (tmp_path / "growing").write_text("1")
    assert told(watch.look(), tmp_path) == [("deep/a b", "created")]
    (tmp_path / "growing").write_text("12")
    assert watch.look() == []
    assert told(watch.look(), tmp_path) == [("growing", "created")]
    assert watch.look() == []


def test_what_goes_is_told_and_comes_after_what_came(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, Ticks(tmp_path))
    path = tmp_path / "a"
    path.write_text("1")
    watch.look()
    events = watch.look()
    path.unlink()
    events += watch.look()
    assert [event.kind for event in events] == [EventKind.CREATED, EventKind.DELETED]
    assert events[0].sequencer < events[1].sequencer


def test_what_is_ignored_has_no_events_and_what_is_ignored_from_now_on_is_not_gone(tmp_path: Path) -> None:
    ignored = {"b"}

    def reason(path: str) -> Reason | None:
        return Reason.DEFAULT if Path(path).name in ignored else None

    watch = FolderWatch(tmp_path, Ticks(tmp_path), ignoring=lambda: reason)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1")
    watch.look()
    watch.compared()
    assert told(watch.look(), tmp_path) == [("a", "created"), ("c", "created")]
    assert (watch.left_out.by_default, watch.left_out.paths) == (1, [str(tmp_path / "b")])
    ignored.add("a")
    assert watch.look() == []
    (tmp_path / "a").unlink()
    (tmp_path / "c").unlink()
    assert told(watch.look(), tmp_path) == [("c", "deleted")]
    ignored.clear()
    watch.look()
    assert told(watch.look(), tmp_path) == [("b", "created")]


def test_a_watch_that_begins_anew_tells_the_same_events(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    looks = []
    for _ in range(2):
        watch = FolderWatch(tmp_path, Ticks(tmp_path))
        watch.look()
        looks.append(watch.look())
    assert looks[0] == looks[1]
    assert len(looks[0]) == 1


def test_folders_that_are_skipped_and_links_in_circles(tmp_path: Path) -> None:
    for name in ("lake/a", "in/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1")
    (tmp_path / "in/circle").symlink_to(tmp_path)
    watch = FolderWatch(tmp_path, Ticks(tmp_path), lambda path: path.name == "lake")
    watch.look()
    assert told(watch.look(), tmp_path) == [("in/b", "created")]


def test_links_that_lead_to_no_file_are_passed_over_and_those_to_folders_are_followed(tmp_path: Path) -> None:
    drop, elsewhere = tmp_path / "drop", tmp_path / "elsewhere"
    drop.mkdir()
    elsewhere.mkdir()
    (elsewhere / "a").write_text("1")
    for name, target in (("self", "self"), ("one", "other"), ("other", "one"), ("up", "."), ("gone", "nowhere")):
        (drop / name).symlink_to(target)
    (drop / "link").symlink_to(elsewhere)
    (drop / "link2").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(drop)
    watch = FolderWatch(drop, time.time_ns)
    watch.look()
    assert told(watch.look(), drop) == [("link/a", "created"), ("link2/a", "created")]
    listed = FolderObjects(drop, foreign=True).list()
    assert [stored.key for stored in listed] == ["link/a", "link2/a"], "reconciling sees the same"
    (elsewhere / "a").unlink()
    assert told(watch.look(), drop) == [("link/a", "deleted"), ("link2/a", "deleted")]


def test_a_folder_that_vanishes_deletes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    (folder / "a").write_text("1")
    watch = FolderWatch(folder, Ticks(folder))
    watch.look()
    watch.look()
    folder.rename(tmp_path / "away")
    with pytest.raises(UnavailableError, match="nothing was treated as deleted"):
        watch.look()
    (tmp_path / "away").rename(folder)
    assert all(event.kind is EventKind.CREATED for event in watch.look())


# The command


@pytest.fixture
def quick(tmp_path: Path, shell: Shell) -> None:
    """A lake with the repository ``quick``."""
    shell.export("GRAVELER_LAKE", str(tmp_path / "lake"))
    shell.export("GRAVELER_USER", "ann")
    done("init", tmp_path / "lake")
    done("repo", "create", "quick")


@pytest.fixture
def drop(tmp_path: Path, quick: None) -> Path:
    """A folder with two files, a lake beside it, and a rule."""
    folder = tmp_path / "drop"
    (folder / "2026").mkdir(parents=True)
    (folder / "2026/a.csv").write_text("1")
    (folder / "b.csv").write_text("2")
    (folder / "note.txt").write_text("no")
    rule = (
        "ingest",
        "rules",
        "add",
        "drop",
        folder,
        "lakefs://quick/main/in/",
        "--suffix",
        ".csv",
        "--after-objects",
        "1",
    )
    assert "added rule drop" in done(*rule).out
    return folder


def paths() -> list[str]:
    return sorted(line["path"] for line in done("ls", "-r", "--json", "lakefs://quick/main@/").lines)


def test_watching_commits_what_lands_and_goes(drop: Path) -> None:
    done("ingest", "watch", drop, "--once")
    assert paths() == ["in/2026/a.csv", "in/b.csv"]
    assert done("cat", "lakefs://quick/main/in/b.csv").out == "2"
    (drop / "b.csv").unlink()
    (drop / "c.csv").write_text("3")
    (drop / "2026/a.csv").write_text("changed")
    out = done("ingest", "watch", drop, "--once").out
    assert paths() == ["in/2026/a.csv", "in/c.csv"]
    assert done("cat", "lakefs://quick/main/in/2026/a.csv").out == "changed"
    assert "staged 2 changes" in out
    assert "committed by rule drop" in out
    assert done("ingest", "watch", drop, "--once", "--json").out == ""


def test_reconciling_repairs_and_a_dry_run_only_tells(drop: Path) -> None:
    told = json.loads(done("ingest", "reconcile", "quick", "--dry-run", "--json").out)
    assert (told["objects"], told["linked"], told["deleted"]) == (2, ["in/2026/a.csv", "in/b.csv"], [])
    assert paths() == []
    done("ingest", "reconcile", "quick", "drop")
    assert paths() == ["in/2026/a.csv", "in/b.csv"]
    (drop / "b.csv").write_text("22")
    (drop / "2026/a.csv").unlink()
    out = done("ingest", "reconcile", "quick").out
    assert "1 linked, 1 deleted" in out
    assert paths() == ["in/b.csv"]
    assert "0 linked, 0 deleted" in done("ingest", "reconcile", "quick").out
    assert run("ingest", "reconcile", "quick", "no").code == 3


def test_replaying_lines(drop: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    line = {"address": f"file://{drop}/b.csv", "kind": "created", "sequencer": "1", "size": 1}
    file.write_text(json.dumps(line) + "\n\nnonsense\n" + json.dumps({**line, "address": f"file://{drop}/no.csv"}))
    result = run("ingest", "replay", file, "--json")
    assert [(told["line"], told["outcome"]) for told in result.lines] == [(1, "staged"), (3, "poison"), (4, "skipped")]
    assert (result.code, result.err) == (5, "")
    assert paths() == ["in/b.csv"]
    result = run("ingest", "replay", file)
    assert "line 3: poison: the message is not a JSON object" in result.out
    assert "1 stale" in result.out
    file.write_text(json.dumps({**line, "address": "s3://landing/a"}))
    assert run("ingest", "replay", file, "--json").lines[0]["outcome"] == "poison"
    done("ingest", "rules", "remove", "quick", "drop")  # the last one
    assert "1 skipped" in done("ingest", "replay", file).out


def test_rules_are_shown_and_removed(drop: Path) -> None:
    done(
        "ingest",
        "rules",
        "add",
        "hours",
        "s3://landing/x",
        "lakefs://quick/main/h/",
        "--window",
        "3600",
        "-m",
        "{window}",
    )
    shown = done("ingest", "rules", "list", "quick").out
    assert f"drop  file://{drop}/ → main/in/  commits after 1 changes" in shown
    assert "hours  s3://landing/x/ → main/h/  commits every 3,600 s" in shown
    listed = done("ingest", "rules", "list", "quick", "--json").lines
    assert [(rule["name"], rule["commit"]["objects"]) for rule in listed] == [("drop", 1), ("hours", 0)]
    done("ingest", "rules", "remove", "quick", "hours")
    assert "hours" not in done("ingest", "rules", "list", "quick").out
    assert run("ingest", "rules", "remove", "quick", "hours").code == 3
    assert run("ingest", "watch", drop.parent / "lake").code == 3


@pytest.mark.parametrize("option", ["--after-objects", "--after-seconds", "--window"])
def test_a_rule_that_would_commit_after_nothing_is_refused(drop: Path, option: str) -> None:
    for value in ("0", "-1"):
        refused = run("ingest", "rules", "add", "now", drop / "x", "lakefs://quick/main/now/", option, value)
        assert refused.code == 2
        assert f"{option} {value} is less than 1: `--after-objects 1` commits at once" in refused.err
    assert "now" not in done("ingest", "rules", "list", "quick").out


def test_a_rules_status_is_shown_with_each_window(drop: Path) -> None:
    done("ingest", "rules", "remove", "quick", "drop")
    window = ("--window", "3600", "--window-layout", "YYYY/")
    done("ingest", "rules", "add", "hours", drop, "lakefs://quick/main/in/", *window)
    for year in ("1969", "9000"):
        (drop / year).mkdir()
        (drop / year / "x.csv").write_text("x")
    done("ingest", "watch", drop, "--once")
    result = run("ingest", "rules", "show", "quick", "hours")
    lines = result.out.splitlines()
    assert lines[0].startswith(f"hours  file://{drop}/ → main/in/")
    assert lines[1].startswith("pending: 5 objects, 0 deleted, due at "), lines
    assert "  window 1969-01-01T00:00:00Z: 1 object, 0 deleted" in lines
    assert len([line for line in lines if line.startswith("  window ")]) >= 3, "that of 2026, and of the files' times"
    assert any(line.startswith("dated too far in the future: ") and "(9000-01-01T00:00:00Z)" in line for line in lines)
    assert lines[-1] == "0 commits started"
    shown = done("ingest", "rules", "show", "quick", "hours", "--json").json
    assert (shown["name"], shown["repository"]) == ("hours", "quick")
    status = shown["status"]
    assert (status["pending"]["objects"], status["due"], status["commits"]) == (5, "", 0)
    assert status["pending"]["windows"][0]["window"] == "1969-01-01T00:00:00Z"
    assert sum(one["objects"] for one in status["pending"]["windows"]) == 5
    assert status["ahead"]["window"] == "9000-01-01T00:00:00Z"
    assert run("ingest", "rules", "show", "quick", "none").code == 3


def test_the_lake_itself_is_no_source(drop: Path) -> None:
    result = run("ingest", "rules", "add", "loop", drop.parent, "lakefs://quick/main/l/")
    assert (result.code, "contains the lake itself" in result.err) == (2, True)
    inside = run("ingest", "rules", "add", "loop", drop.parent / "lake/objects", "lakefs://quick/main/l/")
    assert inside.code == 6


@pytest.mark.parametrize("interval", ["0.1", "3600"])
def test_ctrl_c_leaves_what_was_staged(drop: Path, interval: str) -> None:
    arguments = [executable, "-m", "graveler.cli", "ingest", "watch", str(drop), "--interval", interval, "--json"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with Popen(arguments, stdout=PIPE, stderr=PIPE, env=unbuffered, start_new_session=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["staged"] == 2
        os.killpg(process.pid, SIGINT)  # as a terminal does, to all processes of the command
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"watch again to continue" in err
    done("ingest", "watch", drop, "--once")
    assert paths() == ["in/2026/a.csv", "in/b.csv"]
