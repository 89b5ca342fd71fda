"""Group commit on disks that fail, wait and are busy; with files that are replaced, with forks, and at its end: every job gets
a true answer, nobody waits for ever, and the writer continues.

``GRAVELER_FAULTS`` fails every call of the disk, once and from then on.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from graveler.errors import BusyError, CorruptError, UnavailableError
from graveler.storage.tables.port import Absent, ConditionFailedError, Key
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_connections import Connection
from graveler.storage.tables.sqlite_writer import Transaction
from tests.storage.batches import Campaign, Outcome, gathered, key, told
from tests.support import brittle
from tests.support.patience import PATIENCE

LONG = bool(os.environ.get("GRAVELER_FAULTS"))
PROGRAM = "import runpy; runpy.run_module('tests.storage.batches', run_name='__main__')"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SqliteTables]:
    with SqliteTables(tmp_path / "t.db", busy_seconds=PATIENCE) as opened:
        opened.put(key("there"), {})
        opened.write_together()
        yield opened


def put(tables: SqliteTables, name: str) -> Callable[[], object]:
    return lambda: tables.put(key(name), {}, Absent())


def names(tables: SqliteTables) -> set[str]:
    return {name.decode() for name, _ in tables.query("p").items}


@pytest.mark.parametrize("lasting", [False, True] if LONG else [False], ids=lambda lasting: "all" if lasting else "one")
@pytest.mark.parametrize("kind", list(brittle.Kind), ids=lambda kind: str(kind.name).lower())
def test_what_each_job_of_a_batch_is_told_of_a_failing_disk_is_so(
    kind: brittle.Kind, lasting: bool, tmp_path: Path
) -> None:
    every = 5 if kind is brittle.Kind.WRITE and not LONG else 1
    campaign = Campaign(str(tmp_path), int(kind), "/t.db", lasting, every)
    printed = brittle.run(PROGRAM, msgspec.json.encode(campaign).decode())
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in printed.splitlines()]
    assert [outcome for outcome in outcomes if not outcome.is_true] == []
    worst = "nothing" if kind is brittle.Kind.READ else "unknown"
    assert any(set(outcome.told) == {worst} for outcome in outcomes), "the batch failed as a whole"
    assert all(outcome.next == "done" for outcome in outcomes), "the disk is in order again"


def test_nobody_is_told_before_the_sync_that_covers_it(tmp_path: Path) -> None:
    """Each sync of the log waits until all that was told before it is counted."""
    program = f"""
import os, sys
from pathlib import Path
from threading import Thread
from graveler.storage.tables.sqlite import SqliteTables
from tests.storage.batches import gathered, key
from tests.support import brittle
tables = SqliteTables(Path({str(tmp_path / "t.db")!r}))
tables.put(key("there"), {{}})
tables.write_together()
(synced, tell), (wait, go_on) = os.pipe(), os.pipe()
for round in range(3):
    acknowledged = []
    def put(name):
        tables.put(key(name), {{}})
        acknowledged.append(name)
    def hold():
        brittle.begin(brittle.Kind.SYNC, "t.db", 1 << 30, 0, 0)
        brittle.hold(tell, wait)
    def watch():
        os.read(synced, 1)
        print(len(acknowledged), end=" ")
        os.write(go_on, b"x")
    watching = Thread(target=watch)
    watching.start()
    calls = [lambda name=f"{{round}} {{number}}": put(name) for number in range(8)]
    outcomes = gathered(tables, calls, hold)
    brittle.hold(-1, -1)
    if not brittle.seen():
        os.write(tell, b"x")  # nothing was synced, and the watch waits for that
    watching.join()
    assert [outcome.exception() for outcome in outcomes] == [None] * 8
    print(len(acknowledged), brittle.seen(), end="; ")
tables.close()
"""
    assert brittle.run(program) == "0 8 1; " * 3


def test_jobs_that_wait_for_a_busy_table_are_told_so_and_later_ones_go_on(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "t.db", busy_seconds=0.05) as tables:
        tables.put(key("there"), {})
        tables.write_together()
        other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(8) as pool:
                outcomes = [pool.submit(put(tables, str(number))) for number in range(8)]
                errors = [outcome.exception(PATIENCE) for outcome in outcomes]
            assert {type(error) for error in errors} == {BusyError}
            assert all("nothing was written" in str(error) for error in errors)
            other.execute("COMMIT")
        finally:
            other.close()
        put(tables, "after")()
        assert names(tables) == {"there", "after"}


def test_jobs_whose_file_is_replaced_write_nothing(tables: SqliteTables, tmp_path: Path) -> None:
    go_on, begun = Event(), Event()
    real = tables.writes.begin

    def begin(connection: Connection) -> None:
        real(connection)
        begun.set()
        assert go_on.wait(PATIENCE)

    tables.writes.begin = begin  # type: ignore[method-assign]
    with ThreadPoolExecutor(4) as pool:
        outcomes = [pool.submit(put(tables, str(number))) for number in range(4)]
        assert begun.wait(PATIENCE)
        for ending in ("", "-wal", "-shm"):
            (tmp_path / f"t.db{ending}").replace(tmp_path / f"old.db{ending}")
        with SqliteTables(tmp_path / "t.db") as other:
            other.put(key("other"), {})
            tables.writes.begin = real  # type: ignore[method-assign]
            go_on.set()
            said = [told(outcome.result) for outcome in outcomes]
    # Those that came when the first had been told so are written to the new file.
    assert "nothing" in said
    assert set(said) <= {"nothing", "done"}
    expected = {"other"} | {str(number) for number, word in enumerate(said) if word == "done"}
    assert names(tables) == expected
    put(tables, "after")()
    assert names(tables) == expected | {"after"}


def test_closing_with_jobs_in_the_line_does_them_all(tables: SqliteTables) -> None:
    closing: list[Thread] = []

    def close() -> None:
        closing.append(Thread(target=tables.close))
        closing[0].start()

    outcomes = gathered(tables, [put(tables, str(number)) for number in range(20)], close)
    assert [outcome.exception() for outcome in outcomes] == [None] * 20
    closing[0].join()
    assert names(tables) == {"there", *map(str, range(20))}


def test_who_comes_when_the_writer_has_ended_writes_by_itself(tables: SqliteTables) -> None:
    writer = tables.writes.group
    assert writer is not None
    tables.close()
    row = Key("p", b"late")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tables.put, key("first"), {}).result(PATIENCE)
        tables.writes.group = writer  # as one sees it who asked for it before the end
        pool.submit(tables.put, row, {}).result(PATIENCE)
    assert names(tables) == {"there", "first", "late"}


def test_nobody_hangs_who_writes_while_others_close(tables: SqliteTables) -> None:
    stop, rounds = Event(), 40 if LONG else 10

    def write(name: str) -> list[str]:
        made: list[str] = []
        while not stop.is_set():
            made.append(f"{name} {len(made)}")
            tables.put(key(made[-1]), {})
        return made

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, str(number)) for number in range(6)]
        try:
            for _ in range(rounds):
                tables.close()
                tables.write_together()
                tables.put(key("there"), {})
        finally:
            stop.set()
        made = {name for writer in writers for name in writer.result(PATIENCE)}
    assert {name.decode() for name, _ in tables.query("p", limit=1_000_000).items} == made | {"there"}


def test_a_child_of_a_fork_with_jobs_in_the_line_writes_by_itself_and_does_none_of_them(tmp_path: Path) -> None:
    program = f"""
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_transactions import RetiredError
from tests.storage.batches import key
from tests.support.children import end_process
tables = SqliteTables(Path({str(tmp_path / "t.db")!r}))
tables.put(key("there"), {{}})
tables.write_together()
begun, begin, connections = Event(), tables.writes.begin, tables.handle.connections
def wait_for_another_process(connection):
    begun.set()
    while not connections.is_retired:  # by the fork
        pass
    tables.writes.begin = begin
    raise RetiredError
tables.writes.begin = wait_for_another_process
with ThreadPoolExecutor(4) as pool:
    outcomes = [pool.submit(tables.put, key(str(at)), {{}}) for at in range(4)]
    begun.wait()
    while len(tables.writes.group._line) < 4:
        pass
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        try:
            tables.put(key("child"), {{}})
            tables.write_together()
            tables.put(key("grown"), {{}})
            tables.close()
            end_process(0)
        finally:
            end_process(1)
assert [outcome.exception() for outcome in outcomes] == [None] * 4
print(*sorted(name.decode() for name, _ in tables.query("p").items))
tables.close()
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "0 1 2 3 child grown there\n"


def test_a_job_that_fails_as_nobody_expects_before_it_writes_fails_alone(tables: SqliteTables) -> None:
    writer = tables.writes.group
    assert writer is not None

    def wrong(transaction: Transaction) -> None:
        transaction.get(key("there"))
        raise ZeroDivisionError

    calls = [put(tables, "1"), lambda: writer.run(wrong), put(tables, "2")]
    outcomes = gathered(tables, calls, lambda: None)
    assert type(outcomes[1].exception()) is ZeroDivisionError
    assert (outcomes[0].exception(), outcomes[2].exception()) == (None, None)
    assert names(tables) == {"there", "1", "2"}


def test_a_job_that_fails_as_nobody_expects_when_it_has_written_leaves_nothing(tables: SqliteTables) -> None:
    writer = tables.writes.group
    assert writer is not None

    def wrong(transaction: Transaction) -> None:
        transaction.put(key("half"), b"\x70")
        raise ZeroDivisionError

    outcomes = gathered(tables, [put(tables, "1"), lambda: writer.run(wrong), put(tables, "2")], lambda: None)
    assert type(outcomes[1].exception()) is ZeroDivisionError
    assert type(outcomes[0].exception()) is UnavailableError
    assert "nothing was written" in str(outcomes[0].exception())
    assert names(tables) == {"there", "2"}


def test_a_row_that_damage_made_null_is_no_row_that_is_missing(tables: SqliteTables, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("PRAGMA writable_schema = ON")
    other.execute("UPDATE sqlite_schema SET sql = replace(sql, 'body BLOB NOT NULL', 'body BLOB')")
    other.close()
    other = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    other.execute("UPDATE items SET body = NULL")
    other.execute("PRAGMA writable_schema = ON")
    other.execute("UPDATE sqlite_schema SET sql = replace(sql, 'body BLOB', 'body BLOB NOT NULL')")
    other.close()
    for read in (put(tables, "there"), lambda: tables.get(key("there")), lambda: tables.get_many([key("there")])):
        with pytest.raises(CorruptError):
            read()
    with SqliteTables(tmp_path / "t.db") as opened, pytest.raises(CorruptError):
        opened.get(key("there"))


def test_what_jobs_of_one_batch_write_and_delete_is_seen_by_those_behind_and_written_in_the_end(
    tables: SqliteTables,
) -> None:
    calls: list[Callable[[], object]] = [put(tables, f"{at:03}") for at in range(40)]
    calls += [
        lambda: tables.delete(key("there")),
        put(tables, "there"),
        lambda: tables.delete(key("005")),
        put(tables, "006"),
        lambda: tables.replace(key("007"), {"n": 1}),
    ]
    outcomes = gathered(tables, calls, lambda: None)
    refused = [at for at, outcome in enumerate(outcomes) if isinstance(outcome.exception(), ConditionFailedError)]
    assert refused == [43]
    assert outcomes[44].result() == {}
    assert names(tables) == {"there", *(f"{at:03}" for at in range(40))} - {"005"}
    assert tables.get(key("007")) == {"n": 1}


def test_a_row_that_damage_made_a_text_is_the_matter_of_who_reads_it(tables: SqliteTables, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "t.db")
    with other:
        other.execute("UPDATE items SET body = CAST(x'70ff' AS TEXT)")
    other.close()
    calls = [put(tables, "1"), put(tables, "there"), put(tables, "2")]
    outcomes = gathered(tables, calls, lambda: None)
    assert isinstance(outcomes[1].exception(), CorruptError)
    assert (outcomes[0].exception(), outcomes[2].exception()) == (None, None)
    assert tables.get(key("2")) == {}
