"""A lake on a read-only disk, and one in which this user may only read: reading works, with a warning; writing is refused."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import graveler
from graveler.storage.tables.sqlite import SqliteTables

READ: tuple[str, ...] = (
    "log lakefs://demo/main",
    "ls lakefs://demo/main/",
    "cat lakefs://demo/main/a",
    "stat lakefs://demo/main/a",
    "diff lakefs://demo/main~1 lakefs://demo/main",
    "blame lakefs://demo/main/a",
    "du lakefs://demo/main",
    "branch list lakefs://demo",
    "repo list",
)
WRITES: tuple[str, ...] = (
    "put graveler.json lakefs://demo/main/b",
    "commit lakefs://demo/main -m again",
    "branch create lakefs://demo/new --source lakefs://demo/main",
    "repo create other",
    "rm lakefs://demo/main/a",
    "gc run demo",
)

Reader = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake with a commit that is only in the log: its writer was killed."""
    made = tmp_path / "it's 100% „odd“"
    with graveler.create(made, user="ada") as lake:
        keep = sqlite3.connect(made / "tables.sqlite")  # as long as it is open, the log stays
        keep.execute("SELECT count(*) FROM items").fetchone()
        main = lake.repository("demo").create().branch("main")
        main.object("a").upload("text")
        main.commit("first")
    log = (made / "tables.sqlite-wal").read_bytes()
    keep.close()
    assert log, "the commit is in the log"
    return made


def _command(folder: Path, before: list[str], words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "GRAVELER_LAKE": str(folder), "GRAVELER_USER": "eve"}
    program = [*before, sys.executable, "-m", "graveler.cli", *words.split()]
    return subprocess.run(program, env=environment, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(params=["read-only disk", "another user"])
def reader(request: pytest.FixtureRequest, folder: Path) -> Reader:
    """Runs a command that can only read the lake, although these tests may be root's."""
    if request.param == "read-only disk":
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
        before = ["unshare", "--mount", "sh", "-c", mount, str(folder)]
        if os.geteuid() or subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount")
        return lambda words: _command(folder, before, words)
    nobody = 65534
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
        if not os.geteuid():
            os.chown(each, nobody, nobody)
    if os.geteuid():
        return lambda words: _command(folder, [], words)
    if shutil.which("setpriv") is None:
        pytest.skip("root keeps all rights without setpriv")
    return lambda words: _command(folder, ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"], words)


def _state(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_reading_works_with_one_warning_each(folder: Path, reader: Reader) -> None:
    before = _state(folder)
    for words in READ:
        done = reader(words)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stderr.count("can only be read") == done.stderr.count("\n") == 1, (words, done.stderr)
    assert reader("cat lakefs://demo/main/a").stdout == "text"
    assert "first" in reader("log lakefs://demo/main").stdout
    assert _state(folder) == before


def test_writing_is_refused(folder: Path, reader: Reader) -> None:
    before = _state(folder)
    for words in WRITES:
        done = reader(words)
        assert done.returncode not in (0, 1, 2), (words, done.stdout, done.stderr)
        assert "error: " in done.stderr
        assert any(why in done.stderr for why in ("can only be read: its disk", "read-only", "no permission")), (
            words,
            done,
        )
        assert "Traceback" not in done.stderr
    assert _state(folder) == before


def test_python_warns_once_for_each_open(
    folder: Path, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graveler.storage.tables.sqlite_handle.may_write", lambda _: False)
    with graveler.open(folder) as lake:
        main = lake.repository("demo").branch("main")
        assert main.object("a").reader().read() == b"text"
        assert [commit.message for commit in main.log()] == ["first", "Repository created"]
        with pytest.raises(graveler.UnavailableError, match="can only be read"):
            main.commit("again", allow_empty=True)
    assert ["can only be read" in str(told.message) for told in recwarn] == [True]


def test_a_lake_for_a_group_is_written_by_its_members(tmp_path: Path) -> None:
    from graveler.lake.opening.folder import Shared, create_folder_lake, open_folder_lake

    create_folder_lake(tmp_path / "lake", shared=Shared.GROUP).close()
    with open_folder_lake(tmp_path / "lake") as lake:
        assert not lake.notice
        assert isinstance(lake.tables, SqliteTables)
        assert lake.tables.may_write()
