"""Group commit: one thread writes to the SQLite table for all threads of a process, all waiting writes in one transaction.

A sync of the disk takes as long for fifty writes as for one. So each caller queues a job and waits, and the writer takes all that
have come while it was waiting for the file's lock, or for the disk. Each job evaluates its own conditions, and sees the writes of
those before it. A job that raises has written nothing, and gets its own error; a failure of the transaction is reported to all of
them: nothing was written, or, if COMMIT failed, the outcome is unknown (:class:`graveler.errors.AnswerLostError`).
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from threading import Semaphore, Thread
from typing import Any, Final, TypeAlias, TypeVar, cast

from graveler.errors import AnswerLostError, BusyError, GravelerError, UnavailableError
from graveler.storage.tables.port import Item, Key
from graveler.storage.tables.sqlite_connections import Connection
from graveler.system.pauses import new_pause

R = TypeVar("R")

PUT: Final = "INSERT INTO items VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
DELETE: Final = "DELETE FROM items WHERE partition = ? AND sort = ?"
TOGETHER: Final = 16
"""Number of rows that one statement reads or writes: each step of one releases the interpreter's lock, and waits for it again."""
# A row that damage made NULL must not pass for a missing one.
_ONE: Final = "(SELECT ifnull(body, 0) FROM items WHERE partition = ? AND sort = ?)"
GET_SOME: Final = {count: f"SELECT {', '.join([_ONE] * count)}" for count in range(1, TOGETHER + 1)}
"""By the number of keys: their bodies in one row, NULL for missing ones."""
_PUT_SOME: Final = {
    count: PUT.replace("(?, ?, ?)", ", ".join(["(?, ?, ?)"] * count)) for count in range(1, TOGETHER + 1)
}
_MOST: Final = 256
"""Maximum number of jobs in one transaction: so many are as good as one sync each, and none waits for many more."""
_SEVERAL: Final = 4
_GATHERING: Final = 0.0005
"""Seconds that the writer waits after a transaction of several jobs if fewer are queued by then: a transaction takes as much
processor time as 30 jobs in it."""

RowKey: TypeAlias = tuple[str, bytes]
"""Partition and sort key."""


def read_rows(connection: sqlite3.Connection, row_keys: Sequence[RowKey]) -> list[object]:
    """Return the rows, None for missing ones; up to :data:`TOGETHER` all from one moment."""
    rows: list[object] = []
    for begin in range(0, len(row_keys), TOGETHER):
        some = row_keys[begin : begin + TOGETHER]
        rows += connection.execute(GET_SOME[len(some)], [*chain.from_iterable(some)]).fetchone()
    return rows


class Transaction:
    """An open write transaction. Each row is read at most once, and puts are written by :meth:`flush`, which is called before the
    commit."""

    __slots__ = ("_connection", "_rows", "_unwritten", "written")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[RowKey, object] = {}
        self._unwritten: dict[RowKey, bytes | None] = {}
        self.written = 0
        """Number of puts, deletes and executed statements."""

    def read(self, row_keys: Iterable[RowKey]) -> None:
        """Read the rows that :meth:`get` will return, with one statement for several of them."""
        unread = [row_key for row_key in dict.fromkeys(row_keys) if row_key not in self._rows]
        self._rows.update(zip(unread, read_rows(self._connection, unread), strict=True))

    def get(self, key: Key) -> Item | None:
        """Return the item, including this transaction's writes."""
        row_key = (key.partition, key.sort)
        if row_key not in self._rows:
            self.read((row_key,))
        row = self._rows[row_key]
        return None if row is None else self._connection.decode(key, row)

    def put(self, key: Key, row: bytes) -> None:
        """Write a row, replacing any existing one."""
        self._change((key.partition, key.sort), row)

    def delete(self, key: Key) -> None:
        """Remove the row, if it exists."""
        self._change((key.partition, key.sort), None)

    def _change(self, row_key: RowKey, row: bytes | None) -> None:
        self._rows[row_key] = self._unwritten[row_key] = row
        self.written += 1

    def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        """Execute one statement for many rows; return the number of changed rows."""
        self.flush()
        self._rows.clear()
        self.written += 1
        return self._connection.executemany(statement, rows).rowcount

    def flush(self) -> None:
        """Write the pending puts and deletes: neighbours together, since they share pages of the file."""
        if not self._unwritten:
            return
        puts = sorted([(*row_key, row) for row_key, row in self._unwritten.items() if row is not None])
        for begin in range(0, len(puts), TOGETHER):
            some = puts[begin : begin + TOGETHER]
            self._connection.execute(_PUT_SOME[len(some)], [*chain.from_iterable(some)])
        if len(puts) < len(self._unwritten):
            deletes = sorted([row_key for row_key, row in self._unwritten.items() if row is None])
            self._connection.executemany(DELETE, deletes)
        self._unwritten.clear()


Job = Callable[[Transaction], R]
"""Reads first and writes then: once it has written, it raises nothing but SQLite's errors, which end the transaction."""


class _Ticket:
    """A queued job, and its outcome."""

    __slots__ = ("error", "job", "pause", "result", "row_keys")

    def __init__(self, job: Job[Any], row_keys: Sequence[RowKey]) -> None:
        self.job = job
        self.row_keys = row_keys
        self.pause = new_pause()
        self.result: Any = None
        self.error: BaseException | None = None

    def work(self, transaction: Transaction) -> None:
        before = transaction.written
        try:
            self.result = self.job(transaction)
        except GravelerError as error:  # of this job alone
            self.error = error
        except (sqlite3.Error, MemoryError):  # the state of the connection is unknown then
            raise
        except Exception as error:
            if transaction.written != before:
                raise
            self.error = error

    def fail(self, error: BaseException, *, caused: bool) -> None:
        """Record an error that ended the transaction, which this job ``caused`` or another one."""
        if not caused and not isinstance(error, GravelerError):
            self.error = UnavailableError(
                "another write of the same transaction failed; nothing was written, try again"
            )
            self.error.__cause__ = error
            return
        # An exception that several threads raise would gather all their tracebacks.
        if type(error) in (BusyError, UnavailableError, AnswerLostError):
            copy = type(error)(str(error))
            copy.__cause__ = error
            error = copy
        self.error = error


class GroupWriter:
    """The writer of one process. ``begin`` opens a write transaction, commits it at the end of its block, and raises the errors
    of :class:`graveler.storage.tables.sqlite.SqliteTables` for that."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Transaction]]) -> None:
        self.process = os.getpid()
        self._begin = begin
        self._line: deque[_Ticket] = deque()
        self._bell = Semaphore(0)
        self._asleep = False
        self._closing = False
        self._ended = False
        self._thread = Thread(target=self._work, name="table writer", daemon=True)
        self._thread.start()

    def run(self, job: Job[R], row_keys: Sequence[RowKey] = ()) -> R:
        """Return or raise the job's result, once it is durable. The rows at ``row_keys`` are read before, together with those of
        other jobs. Call it from any thread but the writer's own. After :meth:`close` the job runs in a transaction of its own."""
        ticket = _Ticket(job, row_keys)
        self._line.append(ticket)
        if self._asleep:
            self._ring()
        if self._ended and self._left_behind(ticket):
            with self._begin() as transaction:
                return job(transaction)
        ticket.pause.wait()
        if ticket.error is not None:
            try:
                raise ticket.error
            finally:
                ticket.error = None  # its traceback holds this frame
        return cast(R, ticket.result)

    def close(self) -> None:
        """End when the queue is empty."""
        self._closing = True
        self._ring()
        self._thread.join()

    def _left_behind(self, ticket: _Ticket) -> bool:
        """Return whether a job came after the writer had looked for the last time."""
        self._thread.join()
        try:
            self._line.remove(ticket)
        except ValueError:
            return False
        return True

    def _ring(self) -> None:
        self._asleep = False
        self._bell.release()

    def _work(self) -> None:
        done: list[_Ticket] = []
        while True:
            if not self._line:
                if self._closing:
                    self._ended = True
                    if not self._line:  # earlier jobs did not see the end
                        return
                    continue
                self._asleep = True
                if not self._line and not self._closing:  # earlier jobs did not see it asleep
                    self._bell.acquire()
                self._asleep = False
                continue
            if len(done) >= _SEVERAL and len(self._line) < len(done):
                time.sleep(_GATHERING)
            done = []
            waiting: deque[_Ticket] = deque()
            try:
                with self._begin() as transaction:
                    while self._line and len(done) < _MOST:
                        while self._line and len(done) + len(waiting) < _MOST:
                            waiting.append(self._line.popleft())
                        transaction.read(chain.from_iterable([ticket.row_keys for ticket in waiting]))
                        while waiting:
                            done.append(waiting.popleft())
                            done[-1].work(transaction)
            except BaseException as error:  # noqa: BLE001 - every job in the transaction gets it
                self._line.extendleft(reversed(waiting))
                if not done:
                    done = [self._line.popleft() for _ in range(len(self._line))]
                for ticket in done:
                    ticket.fail(error, caused=ticket is done[-1])
            for ticket in done:
                ticket.pause.wake()
