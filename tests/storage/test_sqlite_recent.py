"""What a connection of the SQLite table remembers is never older than the last commit, whoever made it."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.storage.tables import sqlite as sqlite_tables
from graveler.storage.tables.port import Item, Key, Put
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_writer import RowKey, read_rows

KEYS = [Key("p", bytes([number])) for number in range(4)]
OTHERS = [Key("q", bytes([number])) for number in range(20)]
"""Enough for one partition to be found empty."""

WRITE = """
import sys
from pathlib import Path
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Key

with SqliteTables(Path(sys.argv[1])) as tables:
    for line in sys.stdin:
        tables.put(Key("p", b"\\0"), {"n": int(line)})
        print("written", flush=True)
"""


def test_a_read_sees_what_another_process_wrote(tmp_path: Path) -> None:
    path = tmp_path / "table"
    with SqliteTables(path) as tables:
        tables.put(KEYS[0], {"n": -1})
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            for number in range(50):
                assert tables.get_many(KEYS[:2]) == [{"n": number - 1}, None]
                assert tables.get_many(KEYS[:2]) == [{"n": number - 1}, None]
                print(number, file=writer.stdin, flush=True)
                assert writer.stdout.readline() == "written\n"
                assert tables.get_many(KEYS[:2]) == [{"n": number}, None]
            writer.stdin.close()


def test_a_read_sees_what_another_thread_wrote(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "table") as tables:
        tables.write_together()
        for number in range(20):
            writer = Thread(target=tables.put, args=(KEYS[0], {"n": number}))
            writer.start()
            writer.join()
            assert tables.get_many(KEYS) == [{"n": number}, None, None, None]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(
            st.tuples(st.just("get"), st.lists(st.sampled_from(KEYS), min_size=1, unique=True)),
            st.tuples(st.just("get"), st.lists(st.sampled_from(OTHERS), min_size=10, max_size=16, unique=True)),
            st.tuples(st.just("put"), st.sampled_from(OTHERS)),
            st.tuples(st.just("delete"), st.sampled_from(OTHERS)),
            st.tuples(st.just("put"), st.sampled_from(KEYS)),
            st.tuples(st.just("delete"), st.sampled_from(KEYS)),
            st.tuples(st.just("write_many"), st.lists(st.sampled_from(KEYS), min_size=1, unique=True)),
            st.tuples(st.just("between"), st.sampled_from(KEYS)),
        ),
    ),
    max_size=40,
)


def read_between_commits(table: SqliteTables, other: SqliteTables, key: Key) -> tuple[Item | None, bool]:
    """Read an item. If its row is read, ``other`` commits -1 just before and -2 just behind. Return what was read, and whether it
    was."""
    committed: list[bool] = []

    def read(connection: sqlite3.Connection, row_keys: Sequence[RowKey]) -> list[object]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite_tables, "read_rows", read_rows)
            other.put(key, {"n": -1})
            rows = read_rows(connection, row_keys)
            other.put(key, {"n": -2})
        committed.append(True)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_tables, "read_rows", read)
        [found] = table.get_many([key])
    return found, bool(committed)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_interleaved_reads_and_writes_of_several_tables_are_those_of_one_dict(
    steps: list[tuple[int, tuple[str, Any]]],
) -> None:
    held: dict[Key, Item] = {}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        tables = [stack.enter_context(SqliteTables(Path(folder) / "table")) for _ in range(3)]
        for number, (who, (what, which)) in enumerate(steps):
            table, other = tables[who], tables[who - 1]
            if what == "get":
                assert table.get_many(which) == [held.get(key) for key in which]
            elif what == "put":
                table.put(which, {"n": number})
                held[which] = {"n": number}
            elif what == "delete":
                table.delete(which)
                held.pop(which, None)
            elif what == "write_many":
                table.write_many([Put(key, {"n": number}) for key in which])
                held.update({key: {"n": number} for key in which})
            else:
                found, committed = read_between_commits(table, other, which)
                assert found == ({"n": -1} if committed else held.get(which))
                if committed:
                    held[which] = {"n": -2}
                assert table.get_many([which]) == [held.get(which)]


def note_reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The keys of each read of rows from now on."""
    reads: list[object] = []

    def read(connection: sqlite3.Connection, keys: Sequence[RowKey]) -> list[object]:
        reads.append(keys)
        return read_rows(connection, keys)

    monkeypatch.setattr(sqlite_tables, "read_rows", read)
    return reads


def test_an_unchanged_table_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteTables(tmp_path / "table") as tables:
        tables.put(KEYS[0], {"n": 0})
        for _ in range(2):  # the first read asks for the version, the second one remembers
            first = tables.get_many(KEYS)
        reads = note_reads(monkeypatch)
        assert tables.get_many(KEYS) == [*tables.get_many(KEYS[:2]), None, None] == first
        assert reads == []
        tables.put(Key("q", b"0"), {"n": 1})
        assert tables.get_many(KEYS) == first
        assert len(reads) == 1


def test_an_empty_partition_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteTables(tmp_path / "table") as tables, SqliteTables(tmp_path / "table") as other:
        tables.put(KEYS[0], {"n": 0})
        for _ in range(2):  # the first read asks for the version, the second one remembers
            tables.get_many(KEYS[:1])
        for key in OTHERS[:10]:
            assert tables.get_many([KEYS[0], key]) == [{"n": 0}, None]
        reads = note_reads(monkeypatch)
        for key in OTHERS[10:]:
            assert tables.get_many([KEYS[0], key]) == [{"n": 0}, None]
        assert reads == []
        other.put(OTHERS[19], {"n": 1})
        assert tables.get_many([KEYS[0], OTHERS[19]]) == [{"n": 0}, {"n": 1}]
        assert tables.get_many(OTHERS[:10]) == [None] * 10
