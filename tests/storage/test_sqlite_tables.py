"""Properties of the table in an SQLite file: processes, crashes, damage, refusals."""

import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from graveler.errors import (
    AnswerLostError,
    BusyError,
    CorruptError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    UnavailableError,
)
from graveler.storage.limits import encode_item
from graveler.storage.tables import sqlite as sqlite_tables
from graveler.storage.tables import sqlite_schema
from graveler.storage.tables.port import Item, Key, Matches, Put
from graveler.storage.tables.rows import decode_row, decode_rows, encode_row
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_connections import Connection
from graveler.storage.tables.sqlite_schema import APPLICATION_ID, FORMAT_VERSION
from graveler.storage.tables.sqlite_transactions import TableWrites
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
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Absent, Key
from tests.support.children import end_process
parent, child = Key("p", b"parent"), Key("p", b"child")
with SqliteTables(Path({str(tmp_path / "t.db")!r})) as tables:
    tables.put(parent, {{"n": 1}})
    inherited = set(tables.handle.connections.all)
    pid = os.fork()
    if pid == 0:
        tables.put(child, {{"n": 2}}, Absent())
        if inherited & tables.handle.connections.all:
            end_process(2)
        tables.close()
        end_process(0 if tables.get(parent) == {{"n": 1}} else 1)
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
    enter_wal = sqlite_schema.enter_wal

    def overtaken(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> None:
        # Another one makes the table after this one saw that there is none.
        monkeypatch.setattr(sqlite_schema, "enter_wal", enter_wal)
        with SqliteTables(path) as other:
            other.put(K, {"n": 1})
        enter_wal(connection, path, busy_seconds)

    monkeypatch.setattr(sqlite_schema, "enter_wal", overtaken)
    with SqliteTables(path) as tables:
        assert tables.get(K) == {"n": 1}


def test_a_batch_that_fails_in_the_middle_does_not_say_that_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tables, "_BATCH", 2)
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    begin = TableWrites.begin
    begun = 0

    def overtaken(writes: TableWrites, connection: Connection) -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            other.execute("BEGIN IMMEDIATE")
        begin(writes, connection)

    with SqliteTables(tmp_path / "t.db", busy_seconds=0.05) as tables:
        assert tables.get(K) is None
        monkeypatch.setattr(TableWrites, "begin", overtaken)
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
        (connection,) = tables.handle.connections.idle_writers
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


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
        pytest.raises(LaterVersionError, match=rf"later version.*format {FORMAT_VERSION + 1}"),
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


FULL: Item = {"text": "t", "bytes": b"b", "number": 7, "truth": True, "list": ["a", "b"], "expires": 5}


def test_a_row_with_any_bit_flipped_is_corrupt_and_named(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.put(K, FULL)
        body = _body(path)
        for bit in range(8 * len(body)):
            damaged = bytearray(body)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptError, match="of the table is damaged"):
                decode_row(K, bytes(damaged))
            with pytest.raises(CorruptError, match="of the table is damaged"):
                decode_rows("p", [(K.sort, bytes(damaged))])
        _change(path, "UPDATE items SET body = ?", bytes(damaged))
        calls: list[Callable[[], object]] = [
            lambda: tables.get(K),
            lambda: tables.get_many([K]),
            lambda: tables.query("p"),
            lambda: tables.put(K, {}, Matches({"number": 7})),
            lambda: tables.remove_expired(9),
        ]
        for call in calls:
            with pytest.raises(CorruptError, match=r"item Key\(partition='p', sort=b'k'\) of the table is damaged"):
                call()
        tables.put(K, FULL)  # whoever does not ask what is there replaces it
        assert tables.get(K) == FULL


@pytest.mark.parametrize(("partition", "sort"), [("p", b"l"), ("q", b"k"), ("pk", b""), ("", b"pk")])
def test_a_row_under_another_key_is_corrupt(partition: str, sort: bytes) -> None:
    row = encode_row(K.partition, K.sort, encode_item(K, FULL))
    assert decode_row(K, row) == FULL
    with pytest.raises(CorruptError, match="checksum"):
        decode_row(Key(partition, sort), row)
    with pytest.raises(CorruptError, match="checksum"):
        decode_rows(partition, [(sort, row)])


def test_a_table_of_format_1_is_read_as_it_is_and_its_rows_get_checksums_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    other = Key("p", b"other")
    with SqliteTables(path) as tables:
        tables.write_many([Put(K, FULL), Put(other, FULL)])
    _change(path, "UPDATE items SET body = ?", msgspec.msgpack.encode(FULL))
    _change(path, "PRAGMA user_version = 1")

    def version() -> int:
        with closing(sqlite3.connect(path)) as file:
            (found,) = file.execute("PRAGMA user_version").fetchone()
            return int(found)

    with SqliteTables(path) as tables:
        assert tables.get(K) == tables.get(other) == FULL
        assert [item for _, item in tables.query("p").items] == [FULL, FULL]
        assert version() == 1  # an older graveler may still use it
        tables.put(other, FULL, Matches(FULL))
        assert version() == FORMAT_VERSION
        assert [item for _, item in tables.query("p").items] == [FULL, FULL]
        assert _body(path) == msgspec.msgpack.encode(FULL)


@pytest.mark.parametrize(
    "body",
    [{"n": 1.5}, {"n": None}, {"n": {"m": 1}}, {"n": [1]}, {"n": b"\xff"}],
    ids=["float", "nothing", "map", "numbers", "no UTF-8"],
)
def test_a_row_of_format_1_that_holds_what_no_item_holds_is_corrupt(body: dict[str, object]) -> None:
    # The bytes become a text that is no UTF-8.
    row = msgspec.msgpack.encode(body).replace(b"\xc4\x01\xff", b"\xa1\xff")
    for call in (lambda: decode_row(K, row), lambda: decode_rows("p", [(K.sort, row)])):
        with pytest.raises(CorruptError, match=r"sort=b'k'\) of the table is damaged"):
            call()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE items SET partition = CAST(x'70ff' AS TEXT)",
        "UPDATE items SET sort = CAST(x'6bff' AS TEXT)",
        "UPDATE items SET body = CAST(body || x'ff' AS TEXT)",
        "UPDATE items SET body = 7",
    ],
)
def test_a_row_whose_columns_are_no_utf_8_or_of_another_type_is_corrupt(tmp_path: Path, change: str) -> None:
    path = tmp_path / "t.db"
    with SqliteTables(path) as tables:
        tables.write_many([Put(K, FULL)])
        _change(path, change)
        if change != "UPDATE items SET body = 7":  # which is not found by "expires" in it
            with pytest.raises(CorruptError):
                tables.remove_expired(9)
        if "body" in change:  # the others are found only by who reads the whole table
            with pytest.raises(CorruptError):
                tables.query("p")


def test_of_a_file_with_a_byte_changed_what_is_read_is_right_or_an_error(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    with SqliteTables(path) as tables:
        right = dict(tables.query("p", limit=10_000).items)
    contents = path.read_bytes()
    random = Random(18)
    for at in [*range(100), *(random.randrange(len(contents)) for _ in range(60))]:
        damaged = bytearray(contents)
        damaged[at] ^= random.randrange(1, 256)
        path.write_bytes(damaged)
        with SqliteTables(path, busy_seconds=0.05) as tables:
            with suppress(GravelerError):
                assert all(right.get(sort) == item for sort, item in tables.query("p", limit=10_000).items), at
            with suppress(GravelerError):
                tables.put(Key("p", b"00007"), {"n": 8}, Matches({"n": 7}))
            with suppress(GravelerError):
                tables.remove_expired(1)


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
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Key, Put
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


def _change(path: Path, statement: str, *values: bytes) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def _body(path: Path) -> bytes:
    """Of the first row."""
    with closing(sqlite3.connect(path)) as connection:
        (body,) = connection.execute("SELECT body FROM items ORDER BY partition, sort").fetchone()
    assert isinstance(body, bytes)
    return body


def _filled(folder: Path) -> Path:
    path = folder / "t.db"
    with SqliteTables(path) as tables:
        tables.write_many([Put(Key("p", b"%05d" % number), {"n": number, "b": bytes(40)}) for number in range(2000)])
    return path
