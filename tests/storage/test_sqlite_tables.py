"""What is special to the table in an SQLite file: processes, crashes, damage, refusals."""

import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.errors import AnswerLostError, BusyError, CorruptError, InvalidError, UnavailableError
from graveler.storage import sqlite_tables
from graveler.storage.sqlite_tables import APPLICATION_ID, FORMAT_VERSION, SqliteTables
from graveler.storage.tables import Key, Put
from tests.storage.processes import count_up, run_all, transact_until_killed

K = Key("p", b"k")
SPAWN = multiprocessing.get_context("spawn")


def test_processes_that_count_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"  # made by whichever process comes first
    run_all(count_up, [(path, 60)] * 4)
    with SqliteTables(path) as tables:
        assert tables.get(Key("counter", b"n")) == {"n": 240}


def test_a_transaction_is_all_or_none_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    for number in range(4):
        receiver, sender = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=transact_until_killed, args=(path, sender))
        process.start()
        sender.close()
        acknowledged = -1
        for _ in range(5 + 17 * number):  # the kill hits wherever the next transactions are
            acknowledged = receiver.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        try:
            while True:
                acknowledged = receiver.recv()
        except EOFError:
            receiver.close()
        process.join()
        process.close()
        with SqliteTables(path) as tables:
            rounds = {item["round"] for _, item in tables.query("all").items}
            assert len(rounds) == 1
            last = rounds.pop()
            assert isinstance(last, int)
            assert acknowledged <= last <= acknowledged + 1


def test_it_can_be_pickled(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "t.db") as tables:
        tables.put(K, {"n": 1})
        with pickle.loads(pickle.dumps(tables)) as copy:
            assert copy.get(K) == {"n": 1}


def test_it_can_be_used_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    # In a process of its own: pytest's has threads, which do not survive a fork.
    program = f"""
import os
from pathlib import Path
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Absent, Key
parent, child = Key("p", b"parent"), Key("p", b"child")
with SqliteTables(Path({str(tmp_path / "t.db")!r})) as tables:
    tables.put(parent, {{"n": 1}})
    inherited = set(tables._connections.all)
    pid = os.fork()
    if pid == 0:
        tables.put(child, {{"n": 2}}, Absent())
        if inherited & tables._connections.all:
            os._exit(2)
        tables.close()
        os._exit(0 if tables.get(parent) == {{"n": 1}} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert tables.get(child) == {{"n": 2}}
    tables.put(parent, {{"n": 3}})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with SqliteTables(tmp_path / "t.db") as tables:
        assert tables.get(Key("p", b"parent")) == {"n": 3}


def test_it_can_be_used_again_after_close(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "t.db")
    tables.put(K, {"n": 1})
    tables.close()
    assert tables.get(K) == {"n": 1}
    tables.close()
    tables.close()


def test_two_that_make_the_file_at_once_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    enter_wal = SqliteTables._enter_wal

    def overtaken(tables: SqliteTables, connection: sqlite3.Connection) -> None:
        # Another one makes the table after this one saw that there is none.
        monkeypatch.setattr(SqliteTables, "_enter_wal", enter_wal)
        with SqliteTables(path) as other:
            other.put(K, {"n": 1})
        enter_wal(tables, connection)

    monkeypatch.setattr(SqliteTables, "_enter_wal", overtaken)
    with SqliteTables(path) as tables:
        assert tables.get(K) == {"n": 1}


def test_a_batch_that_fails_in_the_middle_does_not_say_that_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tables, "_BATCH", 2)
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    begin = SqliteTables._begin
    begun = 0

    def overtaken(tables: SqliteTables, connection: sqlite3.Connection) -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            other.execute("BEGIN IMMEDIATE")
        begin(tables, connection)

    with SqliteTables(tmp_path / "t.db", busy_seconds=0.05) as tables:
        assert tables.get(K) is None
        monkeypatch.setattr(SqliteTables, "_begin", overtaken)
        with pytest.raises(AnswerLostError, match="2 of 3 items were written"):
            tables.write_many([Put(Key("p", b"%d" % number), {}) for number in range(3)])
        other.close()
        assert len(tables.query("p").items) == 2


def test_a_reader_does_not_wait_for_a_writer_and_a_second_writer_waits_only_so_long(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path, busy_seconds=0.05) as tables:
        tables.put(K, {"n": 1})
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM items")
            assert tables.get(K) == {"n": 1}
            calls: list[Callable[[], None]] = [
                lambda: tables.put(K, {"n": 2}),
                lambda: tables.delete(K),
                lambda: tables.write_many([Put(K, {"n": 2})]),
                lambda: tables.transact([Put(K, {"n": 2})]),
            ]
            for call in calls:
                with pytest.raises(BusyError, match="nothing was written"):
                    call()
            other.execute("ROLLBACK")
        finally:
            other.close()
        tables.put(K, {"n": 3})
        assert tables.get(K) == {"n": 3}


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "t.db") as tables:
        tables.put(K, {})
        (connection,) = tables._connections.idle_writers
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_what_is_recovered_from_the_log_is_made_durable_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer died between writing the log and syncing it."""
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {"n": 1})
        for file in tmp_path.iterdir():
            (tmp_path / file.name.replace("t.db", "copy.db")).write_bytes(file.read_bytes())
    (tmp_path / "copy.db-shm").unlink()
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with SqliteTables(tmp_path / "copy.db") as tables:
        assert tables.get(K) == {"n": 1}
        assert synced == ["copy.db-wal"]
        tables.put(K, {"n": 2})
        assert synced == ["copy.db-wal"]


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {})
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == FORMAT_VERSION
    assert [file.name for file in tmp_path.iterdir()] == ["t.db"]


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {})
    _change(path, f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    before = path.read_bytes()
    with (
        SqliteTables(path) as tables,
        pytest.raises(InvalidError, match=rf"version {FORMAT_VERSION + 1}.*newer graveler"),
    ):
        tables.get(K)
    assert path.read_bytes() == before


def test_the_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    _change(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with SqliteTables(path) as tables, pytest.raises(InvalidError, match="another program"):
        tables.put(K, {})
    assert path.read_bytes() == before


@pytest.mark.parametrize("contents", [b"x", b"not a database\n" * 1000, bytes(range(256)) * 64])
def test_what_is_no_database_is_corrupt(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(contents)
    with SqliteTables(path) as tables:
        for call in (lambda: tables.get(K), lambda: tables.put(K, {}), lambda: tables.query("p")):
            with pytest.raises(CorruptError, match=r"t\.db"):
                call()
    assert path.read_bytes() == contents


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_table_is_corrupt(tmp_path: Path, keep: float) -> None:
    path = _filled(tmp_path)
    contents = path.read_bytes()
    path.write_bytes(contents[: int(len(contents) * keep)])
    with SqliteTables(path) as tables, pytest.raises(CorruptError, match="restore it from a copy"):
        tables.query("p", limit=10_000)


def test_damage_is_reported_and_never_a_traceback_of_sqlite(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    contents = path.read_bytes()
    reported = 0
    for page in range(len(contents) // 4096):
        damaged = bytearray(contents)
        damaged[page * 4096 : page * 4096 + 64] = bytes(64)
        path.write_bytes(damaged)
        with SqliteTables(path) as tables:
            try:
                tables.query("p", limit=10_000)
            except (CorruptError, InvalidError):
                reported += 1
    assert reported > len(contents) // 4096 * 0.9  # all but free pages


def test_a_damaged_item_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {"a": 1})
    _change(path, "UPDATE items SET body = x'85a161'")
    with SqliteTables(path) as tables:
        with pytest.raises(CorruptError, match="damaged"):
            tables.get(K)
        tables.put(K, {"a": 2})
        assert tables.get(K) == {"a": 2}


def test_a_missing_table_is_made_only_if_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.db"
    with SqliteTables(path, create=False) as tables, pytest.raises(UnavailableError, match="does not exist"):
        tables.get(K)
    assert not path.parent.exists()
    with SqliteTables(path) as tables:
        assert tables.get(K) is None
    with SqliteTables(path, create=False) as tables:
        assert tables.get(K) is None


def test_a_file_that_is_replaced_while_open_takes_no_writes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {"n": 1})
        for file in tmp_path.iterdir():
            file.unlink()
        with pytest.raises(UnavailableError, match="removed or replaced"):
            tables.put(K, {"n": 2})
        tables.put(K, {"n": 3})
    with SqliteTables(path) as tables:
        assert tables.get(K) == {"n": 3}


def test_a_folder_in_its_place_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t.db").mkdir()
    with SqliteTables(tmp_path / "t.db") as tables, pytest.raises(UnavailableError, match="cannot be opened"):
        tables.get(K)
    (tmp_path / "file").write_bytes(b"")
    with SqliteTables(tmp_path / "file" / "t.db") as tables, pytest.raises(UnavailableError, match="file"):
        tables.get(K)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, {"n": 1})
    # A limit for the size of files stands in for the disk; of a process of its own, since it cannot be taken back safely.
    program = f"""
import resource
from pathlib import Path
from graveler.errors import UnavailableError
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Key, Put
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
with SqliteTables(Path({str(path)!r})) as tables:
    done = 0
    try:
        for number in range(1000):
            tables.transact([Put(Key("a", b"%04d" % number), {{"b": bytes(5000)}}), Put(Key("b", b"%04d" % number), {{}})])
            done += 1
    except UnavailableError as error:
        print(done, error)
    assert tables.get(Key("p", b"k")) == {{"n": 1}}
"""
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    done, _, message = output.partition(" ")
    assert "room" in message or "full" in message
    with SqliteTables(path) as tables:
        assert int(done) > 10
        assert len(tables.query("a").items) == len(tables.query("b").items) == int(done)


def _change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def _filled(folder: Path) -> Path:
    path = folder / "t.db"
    with SqliteTables(path) as tables:
        tables.write_many([Put(Key("p", b"%05d" % number), {"n": number, "b": bytes(40)}) for number in range(2000)])
    return path
