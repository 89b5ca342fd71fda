"""Group commit: one thread writes to the SQLite table for all threads of a process, whatever waits in one transaction.

A sync of the disk takes as long for fifty writes as for one. So whoever writes puts a job into a line and waits, and the writer
takes all that have come while it was waiting for the file's lock, or for the disk. Each job judges its own conditions, and sees
what those before it wrote. One that raises has written nothing, and is told so by itself; what fails of the transaction is told
to all of them: nothing was written, or, where COMMIT failed, nobody knows (:class:`graveler.errors.AnswerLostError`).
"""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Semaphore, Thread
from typing import Any, Final, TypeVar, cast

from graveler.errors import AnswerLostError, BusyError, GravelerError, UnavailableError
from graveler.pauses import new_pause
from graveler.storage.rows import RowMemory
from graveler.storage.tables import Item, Key

R = TypeVar("R")

GET: Final = "SELECT body FROM items WHERE partition = ? AND sort = ?"
PUT: Final = "INSERT INTO items VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
DELETE: Final = "DELETE FROM items WHERE partition = ? AND sort = ?"
_MOST: Final = 256
"""Jobs of one transaction: so many are as good as one sync each, and none waits for many more."""


class Transaction:
    """An open write transaction. What was read once in it is not read again."""

    __slots__ = ("_items", "_memory", "connection")

    def __init__(self, connection: sqlite3.Connection, memory: RowMemory) -> None:
        self.connection = connection
        self._memory = memory
        self._items: dict[tuple[str, bytes], Item | None] = {}

    def get(self, key: Key) -> Item | None:
        """The item, with what this transaction has written."""
        place = (key.partition, key.sort)
        try:
            return self._items[place]
        except KeyError:
            row = self.connection.execute(GET, place).fetchone()
            item = self._items[place] = None if row is None else self._memory.decode(key, row[0])
            return item

    def put(self, key: Key, row: bytes) -> None:
        """Write a row in place of what is there."""
        self.connection.execute(PUT, (key.partition, key.sort, row))
        self._items.pop((key.partition, key.sort), None)

    def delete(self, key: Key) -> None:
        """Remove the row, if there is one."""
        self.connection.execute(DELETE, (key.partition, key.sort))
        self._items.pop((key.partition, key.sort), None)

    def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        """Execute one statement for many rows; how many it changed."""
        self._items.clear()
        return self.connection.executemany(statement, rows).rowcount


Job = Callable[[Transaction], R]
"""Reads first and writes then: once it has written, it raises nothing but SQLite's errors, which end the transaction."""


class _Ticket:
    """A job in the line, and what became of it."""

    __slots__ = ("error", "job", "pause", "result")

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.pause = new_pause()
        self.result: Any = None
        self.error: BaseException | None = None

    def work(self, transaction: Transaction) -> None:
        before = transaction.connection.total_changes
        try:
            self.result = self.job(transaction)
        except GravelerError as error:  # of this job alone
            self.error = error
        except (sqlite3.Error, MemoryError):  # nothing is known of the connection then
            raise
        except Exception as error:
            if transaction.connection.total_changes != before:
                raise
            self.error = error

    def fail(self, error: BaseException, *, caused: bool) -> None:
        """Be told of an error that ended the transaction, which this job ``caused`` or another one."""
        if not caused and not isinstance(error, GravelerError):
            self.error = UnavailableError(
                "another write of the same transaction failed; nothing was written, try again"
            )
            self.error.__cause__ = error
            return
        # An exception that several threads raise would gather all their tracebacks.
        if type(error) in (BusyError, UnavailableError, AnswerLostError):
            told = type(error)(str(error))
            told.__cause__ = error
            error = told
        self.error = error


class GroupWriter:
    """The writer of one process. ``begin`` opens a write transaction, commits it at the end of its block, and raises what
    :class:`graveler.storage.sqlite_tables.SqliteTables` says of that."""

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

    def run(self, job: Job[R]) -> R:
        """What the job returns or raises, once it is durable. To be called by any thread but the writer's own. After
        :meth:`close` it is done in a transaction of its own."""
        ticket = _Ticket(job)
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
        """End when the line is empty."""
        self._closing = True
        self._ring()
        self._thread.join()

    def _left_behind(self, ticket: _Ticket) -> bool:
        """Whether a job came when the writer had looked for the last time."""
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
        while True:
            if not self._line:
                if self._closing:
                    self._ended = True
                    if not self._line:  # who came before did not see the end
                        return
                    continue
                self._asleep = True
                if not self._line and not self._closing:  # who came before saw nobody asleep
                    self._bell.acquire()
                self._asleep = False
                continue
            done: list[_Ticket] = []
            try:
                with self._begin() as transaction:
                    while self._line and len(done) < _MOST:
                        ticket = self._line.popleft()
                        done.append(ticket)
                        ticket.work(transaction)
            except BaseException as error:  # noqa: BLE001 - it is told to everybody whose work it was
                if not done:
                    done = [self._line.popleft() for _ in range(len(self._line))]
                for ticket in done:
                    ticket.fail(error, caused=ticket is done[-1])
            for ticket in done:
                ticket.pause.wake()
