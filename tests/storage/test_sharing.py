"""A table in a program that forks or reads the table's files, beside processes that come and go: nothing acknowledged is lost,
and nobody waits for ever.

SQLite's locks belong to the process: they go with any descriptor of the file, and a child does not inherit them.
``GRAVELER_SOAK_SECONDS=n`` adds a campaign of random forks, copies and kills of n seconds.
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from graveler.errors import UnavailableError
from graveler.storage.file_locks import AVAILABLE, ByteRange
from graveler.storage.limits import encode_item
from graveler.storage.tables import sqlite_files
from graveler.storage.tables.port import Key
from graveler.storage.tables.rows import encode_row
from graveler.storage.tables.sqlite import SqliteTables
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no locks of open files")

SOAK = os.environ.get("GRAVELER_SOAK_SECONDS")


def run(tmp_path: Path, program: str, *arguments: str) -> str:
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.sharing", program, str(folder), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=2 * PATIENCE + float(SOAK or 0),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("state", ["closed", "idle", "reading", "writing", "together"])
def test_children_forked_at_any_moment_lose_nothing(tmp_path: Path, state: str) -> None:
    run(tmp_path, "fork", "fork", state)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_the_other_start_methods_lose_nothing(tmp_path: Path, method: str) -> None:
    run(tmp_path, "fork", method, "writing")


def test_forked_workers_that_stay_read_while_their_parent_writes(tmp_path: Path) -> None:
    run(tmp_path, "load")


@pytest.mark.parametrize("way", ["copy", "links", "descriptors"])
def test_reading_the_files_of_an_open_table_loses_nothing(tmp_path: Path, way: str) -> None:
    run(tmp_path, "read_files", way)


def test_reading_the_files_in_the_middle_of_writes_loses_nothing(tmp_path: Path) -> None:
    run(tmp_path, "read_files_amid_writes", "1")


@pytest.mark.parametrize("state", ["idle", "in use"])
def test_a_child_of_a_fork_that_python_does_not_know_of_loses_nothing_or_says_so(tmp_path: Path, state: str) -> None:
    run(tmp_path, "fork_in_c", state)


@pytest.mark.skipif(SOAK is None, reason="the campaign of minutes: GRAVELER_SOAK_SECONDS=n")
def test_random_forks_copies_and_kills_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(tmp_path, "campaign", SOAK or "")
    with capsys.disabled():
        sys.stdout.write(f"\n{said}\n")


@pytest.mark.parametrize("way", ["index removed", "log moved", "second name"])
def test_processes_that_would_have_different_logs_or_indexes_do_not_write_over_each_other(
    tmp_path: Path, way: str
) -> None:
    path = other = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(Key("p", b"1"), {})
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if way == "index removed":
            Path(f"{path}-shm").unlink()
        elif way == "log moved":
            Path(f"{path}-wal").rename(tmp_path / "moved")
        else:
            other = tmp_path / "other.db"
            os.link(path, other)
        program = f"""
from pathlib import Path
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Key
SqliteTables(Path({str(other)!r})).put(Key("p", b"other"), {{}})
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "UnavailableError" in done.stderr
        assert "-shm was, or the table is open by another name" in done.stderr
        if way == "index removed":
            with pytest.raises(UnavailableError, match=r"index .*-shm was"):
                tables.put(Key("p", b"2"), {})
        else:
            tables.put(Key("p", b"2"), {})
    with SqliteTables(path) as tables:
        assert tables.get(Key("p", b"1")) == {}
        assert tables.integrity_errors() == []


def test_a_table_that_is_a_symbolic_link_has_its_log_beside_the_target(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "t.db", tmp_path / "t.db"
    with SqliteTables(target) as tables:
        tables.put(Key("p", b"1"), {})
        link.symlink_to(target)
        with SqliteTables(link) as linked:
            linked.put(Key("p", b"2"), {})
        tables.put(Key("p", b"3"), {})
    with SqliteTables(link) as linked:
        linked.put(Key("p", b"4"), {})
        assert [name for name, _ in linked.query("p").items] == [b"1", b"2", b"3", b"4"]


def test_a_second_name_in_one_process_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "t.db", tmp_path / "other.db"
    with SqliteTables(path) as tables:
        tables.put(Key("p", b"1"), {})
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.link(path, other)
        with pytest.raises(UnavailableError, match="hard link"):
            SqliteTables(other).get(Key("p", b"1"))
        tables.put(Key("p", b"2"), {})


def test_a_child_of_a_parent_that_died_in_a_write_keeps_nobody_out(tmp_path: Path) -> None:
    run(tmp_path, "die_in_a_write")


def test_a_signal_handler_may_fork_in_the_middle_of_an_opening(tmp_path: Path) -> None:
    run(tmp_path, "fork_in_handlers")


def test_exceptions_of_signal_handlers_leave_no_write_under_way(tmp_path: Path) -> None:
    run(tmp_path, "interrupt")


def test_forks_leave_nothing_behind_in_a_handle(tmp_path: Path) -> None:
    run(tmp_path, "fork_often")


def close_some(path: Path) -> None:
    """Drop the locks of this process on a table's files, as whatever reads them does."""
    for ending in ("", "-wal", "-shm"):
        os.close(os.open(f"{path}{ending}", os.O_RDONLY))


def test_an_open_table_stays_marked_as_open_when_its_files_were_read(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    # The bytes that SQLite locks alone to delete the log, and to empty the index (its os.h and os_unix.c).
    marks = [(path, ByteRange(0x40000002, 510)), (Path(f"{path}-shm"), ByteRange(128))]

    def are_locked() -> list[bool]:
        locked = []
        for file, mark in marks:
            with file.open("rb+") as stream:
                locked.append(mark.blocker(stream.fileno()) is not None)
        return locked

    with SqliteTables(path) as tables:
        tables.put(Key("p", b"1"), {})
        close_some(path)
        assert are_locked() == [True, True]
        tables.put(Key("p", b"2"), {})
        assert are_locked() == [True, True]


def test_a_write_whose_locks_were_dropped_midway_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    program = f"""
from pathlib import Path
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Key
SqliteTables(Path({str(path)!r}), busy_seconds=0.1).put(Key("p", b"other"), {{}})
"""
    with SqliteTables(path) as tables:
        with tables.writes.transaction() as transaction:
            transaction.put(Key("p", b"1"), encode_row("p", b"1", encode_item(Key("p", b"1"), {})))
            close_some(path)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            assert "BusyError" in done.stderr
        assert [name for name, _ in tables.query("p").items] == [b"1"]


def test_a_log_that_another_program_removes_is_reported_and_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables, SqliteTables(path) as idle:
        tables.put(Key("p", b"1"), {})
        idle.put(Key("p", b"2"), {})
        assert tables.get(Key("p", b"2")) == {}
        Path(f"{path}-wal").unlink()
        with pytest.raises(UnavailableError, match=r"log .*-wal was removed or replaced"):
            tables.put(Key("p", b"3"), {})
        # Both have let go of the old log: what is written now stays.
        tables.put(Key("p", b"4"), {})
        idle.put(Key("p", b"5"), {})
    with SqliteTables(path) as tables:
        assert {name for name, _ in tables.query("p").items} >= {b"4", b"5"}
        assert tables.integrity_errors() == []


def test_the_files_of_an_open_table_are_known_and_forgotten_when_it_is_closed(tmp_path: Path) -> None:
    files = [tmp_path / f"t.db{ending}" for ending in ("", "-wal", "-shm")]
    with SqliteTables(files[0]) as tables:
        tables.put(Key("p", b"1"), {})
        statuses = [file.stat() for file in files]
        assert all(map(sqlite_files.is_open_table, statuses))
        assert not sqlite_files.is_open_table(tmp_path.stat())
    assert not any(map(sqlite_files.is_open_table, statuses))
    assert [file.exists() for file in files] == [True, False, False]
