"""reset, undo, branch rename, put --if-absent."""

from pathlib import Path
from typing import Any

import pytest

from graveler.cli import terminal
from tests.cli.support import commit, done, put, run

MAIN = "lakefs://lake/main"


def changes() -> list[tuple[str, str]]:
    return [(line["type"], line["path"]) for line in done("status", MAIN, "--json").lines]


def head(branch: str = "main") -> Any:
    return done("log", f"lakefs://lake/{branch}", "-n", "1", "--json").json["id"]


def staged() -> None:
    put("main", "a", "1")
    commit("main", "First")
    put("main", "a", "2")
    put("main", "dir/b", "1")
    put("main", "dir/c", "1")


def test_reset_drops_the_changes_of_a_path_a_folder_or_all(lake: Path) -> None:
    staged()
    assert done("reset", f"{MAIN}/a").out == "~ a\ndropped 1 uncommitted change\n"
    assert changes() == [("added", "dir/b"), ("added", "dir/c")]
    assert done("cat", f"{MAIN}/a").out == "1"
    assert done("reset", "-r", f"{MAIN}/dir/", "--dry-run").out.splitlines()[-1] == "would drop 2 uncommitted changes"
    assert len(changes()) == 2
    refused = run("reset", "-r", f"{MAIN}/dir/")
    assert (refused.code, len(changes())) == (5, 2)
    assert refused.err == (
        "error: this drops 2 uncommitted changes of branch 'main' below 'dir/': use --yes; nothing was dropped. "
        "--dry-run lists them\n"
    )
    assert run("reset", "-r", f"{MAIN}/dir/", "--json").code == 5
    dropped = done("reset", "-r", f"{MAIN}/dir/", "--yes", "--json").lines
    assert [line["path"] for line in dropped] == ["dir/b", "dir/c"]
    assert changes() == []
    put("main", "x", "1")
    refused = run("reset", MAIN)
    assert (refused.code, len(changes())) == (5, 1)
    assert "--yes" in refused.err
    assert done("reset", MAIN, "--yes").out == "dropped 1 uncommitted change: + 1 object, 1 B\n"
    assert done("reset", MAIN).out == "dropped 0 uncommitted changes\n"
    assert run("reset", "lakefs://lake/nowhere").code == 3


def test_a_reset_of_a_folder_asks_and_prints_sums(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged()
    asked: list[str] = []
    answers = [False, True]

    def confirm(question: str) -> bool:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr(terminal, "confirm", confirm)
    refused = run("reset", "-r", f"{MAIN}/dir/")
    assert (refused.code, refused.out, len(changes())) == (5, "", 3)
    assert "not confirmed" in refused.err
    assert done("reset", "-r", f"{MAIN}/dir/").out == "dropped 2 uncommitted changes: + 2 objects, 2 B\n"
    assert asked == ["Drop 2 uncommitted changes of branch 'main' below 'dir/'?"] * 2
    assert done("reset", "-r", f"{MAIN}/dir/").out == "dropped 0 uncommitted changes\n"
    assert changes() == [("changed", "a")]


def test_a_hard_reset_moves_the_branch_and_undo_brings_it_back(lake: Path) -> None:
    put("main", "a", "1")
    first = commit("main", "First")
    put("main", "a", "2")
    second = commit("main", "Second")
    assert done("reset", MAIN, "--hard", "main~1").out == f"moved main from {second[:12]} to {first[:12]}\n"
    assert done("cat", f"{MAIN}/a").out == "1"
    assert done("undo", MAIN).out == f"moved main back to {second[:12]}\n"
    assert done("undo", MAIN, "--json").json == {"branch": "main", "commit_id": first}
    put("main", "b", "1")
    assert run("reset", MAIN, "--hard", second).code == 5
    assert run("undo", MAIN).code == 5
    assert head() == first
    assert run("reset", f"{MAIN}/a", "--hard", second).code == 2
    assert run("reset", MAIN, "--hard", "nowhere", "--json").code == 3


def test_a_branch_is_renamed_with_its_uncommitted_changes(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    assert done("branch", "rename", "lakefs://lake/dev", "trial").out == "renamed branch dev to trial\n"
    assert done("cat", "lakefs://lake/trial/a").out == "1"
    assert run("cat", "lakefs://lake/dev/a").code == 3
    assert run("branch", "rename", MAIN, "other").code == 6
    assert run("branch", "rename", "lakefs://lake/trial", "main").code == 4
    assert done("branch", "rename", "lakefs://lake/trial", "t2", "--json").json["name"] == "t2"


def test_put_if_match_refuses_what_has_changed(lake: Path) -> None:
    done("put", "-", f"{MAIN}/a", stdin=b"1")
    seen = done("stat", f"{MAIN}/a", "--json").json["checksum"]
    done("put", "-", f"{MAIN}/a", "--if-match", seen, stdin=b"2")
    refused = run("put", "-", f"{MAIN}/a", "--if-match", seen, stdin=b"3")
    assert refused.code == 5
    assert "has the ETag" in refused.err
    assert done("cat", f"{MAIN}/a").out == "2"
    assert run("put", "-", f"{MAIN}/b", "--if-match", seen, stdin=b"3").code == 3
    several = run("put", str(lake), str(lake), f"{MAIN}/", "--if-match", seen)
    assert (several.code, "one object" in several.err) == (2, True)


def test_put_if_absent_refuses_what_is_there(lake: Path) -> None:
    done("put", "-", f"{MAIN}/a", "--if-absent", stdin=b"1")
    refused = run("put", "-", f"{MAIN}/a", "--if-absent", stdin=b"2")
    assert refused.code == 4
    assert "'a'" in refused.err
    assert done("cat", f"{MAIN}/a").out == "1"
    done("rm", f"{MAIN}/a")
    done("put", "-", f"{MAIN}/a", "--if-absent", stdin=b"3")
    assert done("cat", f"{MAIN}/a").out == "3"
