"""On a terminal: colours, questions, progress. A pseudo-terminal stands in for one."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.cli.progress import LARGE, rate
from tests.cli.support import commit, done, put, write_tree
from tests.support.shell import Shell


def on_terminal(*arguments: str, answer: str = "", **environment: str) -> tuple[int, str]:
    """Run the command with a terminal for all three streams; exit code and what was on the screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "graveler.cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **environment},
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    screen = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the terminal is closed
            break
        if not piece:
            break
        screen += piece
    os.close(ours)
    return process.wait(), screen.decode().replace("\r\n", "\n")


def test_colours_only_where_they_are_wanted(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    assert "\x1b[33m" in on_terminal("log", "lakefs://lake/main", "--oneline", "--graph")[1]
    assert "\x1b" not in on_terminal("log", "lakefs://lake/main", "--oneline", "--graph", NO_COLOR="1")[1]
    assert "\x1b" not in on_terminal("log", "lakefs://lake/main", "--oneline", "--graph", TERM="dumb")[1]
    assert on_terminal("ls", "nonsense")[1].startswith("\x1b[31;1merror:\x1b[0m ")


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("n\n", 5, ["dev", "main"]), ("\n", 5, ["dev", "main"]), ("y\n", 0, ["main"])]
)
def test_uncommitted_changes_are_lost_only_after_a_yes(lake: Path, answer: str, code: int, left: list[str]) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a", "1")
    got, screen = on_terminal("branch", "delete", "lakefs://lake/dev", answer=answer)
    assert got == code
    assert "would be lost. Delete it? [y/N]" in screen
    assert [line["name"] for line in done("branch", "list", "lake", "--json").lines] == left


def test_a_repository_is_deleted_only_after_a_yes(lake: Path) -> None:
    code, screen = on_terminal("repo", "delete", "lake", answer="n\n")
    assert (code, "Delete repository 'lake' with 1 branch and" in screen) == (5, True)
    assert on_terminal("repo", "delete", "lake", answer="yes\n")[0] == 0


def test_long_work_shows_progress(lake: Path) -> None:
    write_tree(Path("data"), {f"{n}": "x" for n in range(20)})
    assert "importing" in on_terminal("import", "data", "lakefs://lake/main/d/")[1]
    assert "uploading" in on_terminal("put", "-r", "data", "lakefs://lake/main/e/")[1]
    assert "downloading" in on_terminal("get", "-r", "lakefs://lake/main/e/", "out")[1]
    assert "dumping" in on_terminal("dump", "lake")[1]
    (made,) = done("dumps", "lakefs://lake", "--json").lines
    done("repo", "delete", "lake", "--yes")
    assert "restoring" in on_terminal("restore", made["namespace"], made["id"], "again")[1]


def test_progress_of_bytes_has_a_total_and_the_time_left(lake: Path) -> None:
    write_tree(Path("data"), {f"{n}": "x" * 1000 for n in range(20)})
    write_tree(Path("data"), {".gravelerignore": "*.tmp\n", "a.tmp": "x" * 5000})
    for arguments in (
        ("import", "data", "lakefs://lake/main/i/"),
        ("import", "data", "lakefs://lake/main/c/", "--copy"),
        ("put", "-r", "data", "lakefs://lake/main/e/"),
        ("get", "-r", "lakefs://lake/main/e/", "out"),
    ):
        screen = on_terminal(*arguments)[1]
        assert "of 19.5 KiB" in screen
        assert re.search(r"-:--:--|0:00:00", screen)
    commit("main", "One")
    assert " of " not in on_terminal("import", "data", "lakefs://lake/main/i/", "--trust-mtime")[1], "no file is read"
    assert "of 19.5 KiB" in on_terminal("export", "lakefs://lake/main/e/", "exported")[1]
    put("main", "e/f", "1")
    commit("main", "Two")
    assert "KiB" not in on_terminal("export", "lakefs://lake/main/e/", "exported")[1], "only what differs is written"


def test_a_large_file_shows_progress_and_a_small_one_does_not(lake: Path) -> None:
    Path("large").write_bytes(b"x" * LARGE)
    Path("small").write_bytes(b"x")
    for arguments, doing in (
        (("put", "large", "lakefs://lake/main/large"), "uploading"),
        (("get", "lakefs://lake/main/large", "again"), "downloading"),
    ):
        assert doing in on_terminal(*arguments)[1]
        assert doing not in on_terminal(*arguments, "--quiet")[1]
    assert "uploading" not in on_terminal("put", "small", "lakefs://lake/main/small")[1]


def test_commits_and_merges_show_progress_once_there_is_much(lake: Path) -> None:
    write_tree(Path("data"), {f"{n:04}": "x" for n in range(1001)})
    done("branch", "create", "lakefs://lake/dev")
    done("put", "-r", "data", "lakefs://lake/dev/d/")
    assert "committing dev" in on_terminal("commit", "lakefs://lake/dev", "-m", "Many")[1]
    screen = on_terminal("merge", "lakefs://lake/dev", "main")[1]
    assert "merging" in screen
    assert "━" in screen, "a bar, of the branch's objects"
    put("dev", "e", "1")
    assert "committing dev" not in on_terminal("commit", "lakefs://lake/dev", "-m", "One")[1]
    assert "merging" not in on_terminal("merge", "lakefs://lake/dev", "main", "-q")[1]


@pytest.mark.parametrize(
    ("speed", "moves", "shown"), [(None, True, ""), (2048.0, True, "2.0 KiB/s"), (12345.6, False, "12,346/s")]
)
def test_a_rate_is_of_bytes_or_of_objects(speed: float | None, moves: bool, shown: str) -> None:
    assert rate(speed, moves=moves) == shown


PAGER = "sh -c 'sed s/^/paged:/'"


def test_long_output_goes_through_the_pager_of_the_user(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    log = ("log", "lakefs://lake/main", "--oneline", "-n", "1")
    code, screen = on_terminal(*log, GRAVELER_PAGER=PAGER)
    assert (code, screen.startswith("paged:\x1b[33m")) == (0, True)
    assert "paged:" not in on_terminal(*log, GRAVELER_PAGER="", PAGER=PAGER)[1]
    diff = ("diff", "lakefs://lake/main~1..main")
    assert on_terminal(*diff, GRAVELER_PAGER=PAGER, NO_COLOR="1") == (0, "paged:+ a\npaged:1 added\n")
    for arguments in ((*diff, "--no-pager"), (*diff, "--json"), ("status", "lakefs://lake/main")):
        assert "paged:" not in on_terminal(*arguments, GRAVELER_PAGER=PAGER)[1]
    assert "paged:" not in on_terminal(*diff, GRAVELER_PAGER=PAGER, TERM="dumb")[1]


def test_without_a_terminal_there_is_no_pager(lake: Path, shell: Shell) -> None:
    shell.export("GRAVELER_PAGER", "false")
    assert "Repository created" in done("log", "lakefs://lake/main").out


def test_leaving_the_pager_is_no_error_and_one_that_is_not_there_is(lake: Path) -> None:
    for number in range(3):
        put("main", str(number), "1")
        commit("main", "x" * 100_000)
    assert on_terminal("log", "lakefs://lake/main", GRAVELER_PAGER="true") == (0, "")
    for wrong, said in (
        ("no-such-pager", "cannot start the pager 'no-such-pager': No such file"),
        ("less '", "is not a command"),
    ):
        code, screen = on_terminal("log", "lakefs://lake/main", GRAVELER_PAGER=wrong)
        assert (code, said in screen) == (2, True)


def test_pager_is_less_unless_named_and_shows_a_short_log_at_once(lake: Path, shell: Shell) -> None:
    folder = lake.parent / "bin"
    folder.mkdir()
    less = folder / "less"
    less.write_text("#!/bin/sh\necho with $LESS\ncat\n")
    less.chmod(0o755)
    shell.unset("GRAVELER_PAGER", "PAGER", "LESS")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert on_terminal("log", "lakefs://lake/main", PATH=path)[1].startswith("with FRX\n")
    assert on_terminal("log", "lakefs://lake/main", PATH=path, LESS="R")[1].startswith("with R\n")
    assert not on_terminal("log", "lakefs://lake/main", PATH=path, PAGER="cat")[1].startswith("with")
