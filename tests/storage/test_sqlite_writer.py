"""Group commit: the answer to each of many waiting jobs, and that they share transactions."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from graveler.errors import AnswerLostError, BusyError, CorruptError, GravelerError, UnavailableError
from graveler.storage.tables.port import Absent, ConditionFailedError, Key, Matches
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_writer import Transaction
from tests.storage.batches import gathered
from tests.support.patience import PATIENCE

K = Key("p", b"k")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SqliteTables]:
    with SqliteTables(tmp_path / "t.db") as opened:
        opened.put(K, {"n": 0})
        opened.write_together()
        yield opened


def together(tables: SqliteTables, calls: list[Callable[[], object]]) -> list["Future[object]"]:
    """The outcomes of calls that the writer finds in its line at once, in this order."""
    return gathered(tables, calls, lambda: None)


def commits(tables: SqliteTables, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each commit."""
    counted: list[int] = []
    real = tables.writes.commit

    def commit(connection: sqlite3.Connection) -> None:
        counted.append(1)
        real(connection)

    monkeypatch.setattr(tables.writes, "commit", commit)
    return counted


def put(tables: SqliteTables, number: int) -> Callable[[], object]:
    return lambda: tables.put(Key("p", b"%d" % number), {"n": number}, Absent())


def test_whoever_waits_is_in_the_same_transaction(tables: SqliteTables, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = commits(tables, monkeypatch)
    outcomes = together(tables, [put(tables, number) for number in range(20)])
    assert [outcome.result() for outcome in outcomes] == [None] * 20
    assert len(counted) == 1
    assert len(tables.query("p").items) == 21


def test_each_sees_what_those_before_it_wrote_and_is_told_its_own_outcome(tables: SqliteTables) -> None:
    other = Key("p", b"other")
    outcomes = together(
        tables,
        [
            lambda: tables.put(K, {"n": 1}, Matches({"n": 0})),
            lambda: tables.put(K, {"n": 2}, Matches({"n": 0})),
            lambda: tables.replace_and_get(K, {"n": 3}, [other]),
            lambda: tables.put(other, {"n": 4}),
            lambda: tables.replace_and_get(K, {"n": 5}, [other]),
        ],
    )
    assert outcomes[0].result() is None
    refused = outcomes[1].exception()
    assert isinstance(refused, ConditionFailedError)
    assert refused.failures == {0: {"n": 1}}
    assert outcomes[2].result() == ({"n": 1}, [None])
    assert outcomes[4].result() == ({"n": 3}, [{"n": 4}])
    assert tables.get(K) == {"n": 5}


def test_a_damaged_item_is_the_matter_of_who_reads_it(tables: SqliteTables, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as other:
        other.execute("UPDATE items SET body = ?", (b"\x70" + bytes(20),))
    other.close()
    outcomes = together(tables, [put(tables, 1), lambda: tables.put(K, {"n": 1}, Matches({})), put(tables, 2)])
    assert isinstance(outcomes[1].exception(), CorruptError)
    assert [outcomes[0].result(), outcomes[2].result()] == [None, None]
    assert tables.get(Key("p", b"2")) == {"n": 2}


@pytest.mark.parametrize(
    ("step", "told", "says"),
    [("begin", BusyError, "nothing was written"), ("commit", AnswerLostError, "may be there or not")],
)
def test_what_fails_of_the_transaction_is_told_to_all_and_the_writer_goes_on(
    tables: SqliteTables, monkeypatch: pytest.MonkeyPatch, step: str, told: type[GravelerError], says: str
) -> None:
    """The second one is refused on account of what the first one wrote, which nobody knows to be there."""
    failing = True
    real = getattr(tables.writes, step)

    def fail(connection: sqlite3.Connection) -> None:
        if failing and step == "begin":
            raise BusyError("busy; nothing was written, try again")
        real(connection)
        if failing:
            raise AnswerLostError("it may be there or not")

    calls = [put(tables, 1), put(tables, 1), put(tables, 2)]
    monkeypatch.setattr(tables.writes, step, fail)
    outcomes = [ThreadPoolExecutor(1).submit(call) for call in calls]
    errors = [outcome.exception(PATIENCE) for outcome in outcomes]
    assert all(type(error) is told and says in str(error) for error in errors)
    assert len({id(error) for error in errors}) == 3
    failing = False
    tables.put(Key("p", b"3"), {})
    assert tables.get(Key("p", b"3")) == {}


def test_a_statement_that_fails_takes_the_whole_transaction_back(
    tables: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = True
    real = Transaction.put

    def fail(self: Transaction, key: Key, row: bytes) -> None:
        real(self, key, row)
        if failing and key.sort == b"2":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    monkeypatch.setattr(Transaction, "put", fail)
    outcomes = together(tables, [put(tables, number) for number in (1, 2, 3)])
    told = [outcome.exception() for outcome in outcomes]
    assert type(told[0]) is type(told[1]) is UnavailableError
    there = {key for key, _ in tables.query("p").items}
    assert (b"1" in there, b"2" in there) == (False, False)
    assert (b"3" in there) == (told[2] is None)  # it is taken into the next transaction
    failing = False
    tables.put(Key("p", b"4"), {})


def test_what_nobody_expects_is_raised_by_whom_it_concerns(tables: SqliteTables) -> None:
    assert tables.writes.group is not None

    def wrong(transaction: Transaction) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tables.writes.group.run(wrong)
    tables.put(K, {"n": 1})


def test_closing_ends_the_writer_and_later_writes_go_by_themselves(tables: SqliteTables) -> None:
    writer = tables.writes.group
    assert writer is not None
    tables.put(K, {"n": 1})
    tables.close()
    assert not writer._thread.is_alive()
    tables.put(K, {"n": 2})
    assert tables.get(K) == {"n": 2}


def test_a_forked_child_writes_by_itself(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.port import Key
from tests.support.children import end_process
tables = SqliteTables(Path({str(tmp_path / "t.db")!r}))
tables.write_together()
tables.put(Key("p", b"parent"), {{}})
child = os.fork()
if not child:
    tables.put(Key("p", b"child"), {{}})
    end_process(0)
assert os.waitpid(child, 0)[1] == 0
tables.put(Key("p", b"again"), {{}})
print(len(tables.query("p").items))
tables.close()
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment, timeout=PATIENCE
    )
    assert done.stdout == "3\n"
