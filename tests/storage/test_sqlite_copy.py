"""Reading a table that this process may not write to: from a private copy, which is whole and current."""

import errno
import gc
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import pytest

from graveler.errors import BusyError, GravelerError, UnavailableError
from graveler.storage.objects.port import NotPermittedError
from graveler.storage.tables import sqlite_handle
from graveler.storage.tables.port import Key, Put
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_copy import TableCopy, may_write

A, B = Key("p", b"a"), Key("p", b"b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "it's 100% „odd“" / "tables.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[SqliteTables]:
    """Somebody who may write, and whose connections stay open: the last one to close empties the log."""
    with SqliteTables(path) as tables:
        tables.put(A, {"n": 1})
        yield tables


@pytest.fixture
def may(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether tables that are opened from here on may be written to: the machine that runs the tests may be root's."""
    answer = [False]
    monkeypatch.setattr(sqlite_handle, "may_write", lambda _: answer[0])
    return answer


@pytest.fixture
def reader(path: Path, writer: SqliteTables, may: list[bool]) -> Iterator[SqliteTables]:
    with SqliteTables(path, create=False) as tables:
        yield tables


def checkpoint(path: Path, how: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()[0] == 0
    connection.close()


def settle(path: Path) -> None:
    """Date the table to long ago, so that a copy of it needs no second look."""
    for ending in ("", "-wal"):
        os.utime(f"{path}{ending}", (1e9, 1e9))


def count_copies(monkeypatch: pytest.MonkeyPatch) -> list[TableCopy]:
    made: list[TableCopy] = []
    real = TableCopy._copy

    def counted(copy: TableCopy) -> object:
        made.append(copy)
        return real(copy)

    monkeypatch.setattr(TableCopy, "_copy", counted)
    return made


def test_commits_in_the_log_are_read(path: Path, reader: SqliteTables) -> None:
    assert Path(f"{path}-wal").stat().st_size > 0
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    assert reader.get(A) == {"n": 1}
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


def test_a_table_with_an_empty_log_is_read(path: Path, reader: SqliteTables) -> None:
    checkpoint(path, "TRUNCATE")
    assert Path(f"{path}-wal").stat().st_size == 0
    assert reader.get(A) == {"n": 1}


def test_a_table_without_a_log_is_read(path: Path, writer: SqliteTables, reader: SqliteTables) -> None:
    writer.close()
    assert not Path(f"{path}-wal").exists()
    assert reader.get(A) == {"n": 1}


def test_later_commits_are_seen(path: Path, writer: SqliteTables, reader: SqliteTables) -> None:
    for number in range(2, 6):
        writer.put(A, {"n": number})
        assert reader.get(A) == {"n": number}
        assert list(reader.query("p").items) == [(b"a", {"n": number})]
        if number == 3:
            checkpoint(path, "RESTART")


def test_a_copy_is_used_until_the_table_changes(
    path: Path, writer: SqliteTables, reader: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_copies(monkeypatch)
    settle(path)
    for _ in range(5):
        assert reader.get(A) == {"n": 1}
    assert len(made) == 1
    writer.put(A, {"n": 2})
    settle(path)
    assert reader.get(A) == {"n": 2}
    assert len(made) == 2
    assert not made[0].path.parent.exists(), "the first copy is removed"


WRITES: dict[str, Callable[[SqliteTables], object]] = {
    "put": lambda tables: tables.put(A, {"n": 2}),
    "replace": lambda tables: tables.replace(A, {"n": 2}),
    "delete": lambda tables: tables.delete(A),
    "many": lambda tables: tables.write_many([Put(A, {"n": 2})]),
    "partitions": lambda tables: tables.remove_partitions("p"),
}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("first", ["read", "write"])
def test_writes_are_refused(reader: SqliteTables, name: str, first: str, together: bool) -> None:
    if together:
        reader.write_together()
    if first == "read":
        assert reader.get(A) == {"n": 1}
    with pytest.raises(GravelerError, match="can only be read: its disk is read-only, or this user may not") as refused:
        WRITES[name](reader)
    assert together or isinstance(refused.value, NotPermittedError)
    assert reader.get(A) == {"n": 1}


def test_a_right_that_is_granted_later_counts(writer: SqliteTables, reader: SqliteTables, may: list[bool]) -> None:
    assert reader.get(A) == {"n": 1}
    may[0] = True
    reader.put(A, {"n": 2})
    assert reader.get(A) == writer.get(A) == {"n": 2}


def test_the_copy_is_removed(
    path: Path, writer: SqliteTables, may: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_copies(monkeypatch)
    settle(path)
    tables = SqliteTables(path)
    tables.get(A)
    assert made[0].path.parent.stat().st_mode & 0o777 == 0o700
    tables.close()
    assert not made[0].path.parent.exists()
    assert tables.get(A) == {"n": 1}, "after close, it is opened again"
    del tables
    gc.collect()
    assert not made[-1].path.parent.exists()


def test_a_log_that_is_begun_anew_meanwhile_is_copied_again(
    path: Path, writer: SqliteTables, reader: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File and log of different moments would lose what the checkpoint moved from one into the other."""
    writer.put(B, {"n": 1})
    real, turns = TableCopy._fetch, iter(range(2, 4))

    def fetch(copy: TableCopy, ending: str) -> None:
        if ending == "-wal" and (number := next(turns, 0)):
            checkpoint(path, "RESTART")
            writer.put(B, {"n": number})
        real(copy, ending)

    monkeypatch.setattr(TableCopy, "_fetch", fetch)
    assert reader.get_many([A, B]) == [{"n": 1}, {"n": 3}]
    assert next(turns, None) is None


def test_endless_writes_are_told(
    path: Path, writer: SqliteTables, reader: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TableCopy._fetch

    def fetch(copy: TableCopy, ending: str) -> None:
        real(copy, ending)
        if not ending:
            writer.put(B, {"n": os.urandom(8)})
            checkpoint(path, "RESTART")
            writer.put(B, {"n": os.urandom(8)})

    monkeypatch.setattr(TableCopy, "_fetch", fetch)
    with pytest.raises(BusyError, match=r"can only read the table .* others are writing to it so fast"):
        reader.get(A)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_temporary_folder_is_told(reader: SqliteTables, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(UnavailableError, match="temporary folder"):
        reader.get(A)


def test_a_table_that_is_gone_is_told(path: Path, writer: SqliteTables, reader: SqliteTables) -> None:
    assert reader.get(A) == {"n": 1}
    writer.close()
    path.parent.rename(path.parent.with_name("moved"))
    with pytest.raises(UnavailableError, match=r"tables\.sqlite"):
        reader.get(A)
    path.parent.with_name("moved").rename(path.parent)
    assert reader.get(A) == {"n": 1}


def _in_a_child(tables: SqliteTables, end: Connection) -> None:
    end.send((tables.get(A), str(tables.handle.copy.path) if tables.handle.copy else ""))
    tables.close()
    end.close()


def test_a_forked_child_has_a_copy_of_its_own(reader: SqliteTables) -> None:
    assert reader.get(A) == {"n": 1}
    assert reader.handle.copy is not None
    mine, its = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(reader, its))
    child.start()
    item, where = mine.recv()
    child.join()
    assert item == {"n": 1}
    assert where not in ("", str(reader.handle.copy.path))
    assert reader.handle.copy.path.exists()
    assert not Path(where).exists()


def _keep_writing(path: Path, end: Connection) -> None:
    with SqliteTables(path) as tables:
        tables.transact([Put(A, {"n": 0}), Put(B, {"n": 0})])
        end.send("begun")
        number = 0
        while not end.poll():
            number += 1
            tables.transact([Put(A, {"n": number, "x": b"x" * 9000}), Put(B, {"n": number})])
            if number % 5 == 0:
                checkpoint(path, "PASSIVE")


def test_readers_see_whole_transactions_while_another_process_writes(path: Path, may: list[bool]) -> None:
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_keep_writing, args=(path, its))
    process.start()
    assert mine.recv() == "begun"
    wrong: list[object] = []

    def read(tables: SqliteTables) -> None:
        last = 0
        for _ in range(40):
            try:
                one, other = tables.get_many([A, B])
            except BusyError:
                continue
            if one is None or other is None or not last <= int(str(one["n"])) == int(str(other["n"])):
                wrong.append((last, one, other))
                return
            last = int(str(one["n"]))

    with SqliteTables(path, create=False) as tables:
        threads = [Thread(target=read, args=(tables,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    mine.send("end")
    process.join()
    assert not wrong


@pytest.mark.parametrize("name", ["tables.sqlite-wal", "tables.sqlite-shm"])
def test_a_log_that_another_process_makes_at_that_moment_may_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It was missing when the right to write to it was asked for, and there when its existence was."""
    path, file = tmp_path / "tables.sqlite", tmp_path / name
    path.touch()
    exists = os.path.lexists

    def make_and_look(looked: str | Path) -> bool:
        if Path(looked) == file:
            file.touch()
        return exists(looked)

    monkeypatch.setattr(os.path, "lexists", make_and_look)
    assert may_write(path)
