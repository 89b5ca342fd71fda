"""Writes to a table of SQLite: each in a transaction of its own, or many together by one thread."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import uniform
from typing import Final, TypeVar

from graveler.errors import AnswerLostError
from graveler.storage.tables.port import ConditionFailedError
from graveler.storage.tables.sqlite_connections import Connection
from graveler.storage.tables.sqlite_errors import BUSY, REFUSED, busy, code_of
from graveler.storage.tables.sqlite_handle import Borrowed, TableHandle
from graveler.storage.tables.sqlite_schema import FORMAT_VERSION
from graveler.storage.tables.sqlite_writer import GroupWriter, Job, RowKey, Transaction

R = TypeVar("R")

_WAL_PAGES: Final = 4_000
"""The number of log pages at which the log is copied into the file: four times SQLite's default, since bulk writes hit the same
pages again."""


class RetiredError(Exception):
    """The connection has to be returned."""


class TableWrites:
    """The writes of one handle."""

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle
        self.group: GroupWriter | None = None
        """The thread that writes for all others, if it was started."""

    def begin_together(self) -> None:
        """Start the thread that writes for all others."""
        if self.group is None:
            self.group = GroupWriter(self.transaction)

    def close(self) -> None:
        """End that thread, once it has written everything."""
        group, self.group = self.group, None
        if group is not None and group.process == os.getpid():
            group.close()

    def run(self, job: Job[R], row_keys: Sequence[RowKey] = ()) -> R:
        """Return the job's result once it is durable: in a transaction of its own, or by the group's writer. The job reads
        ``row_keys``."""
        group = self.group
        if group is not None and group.process == os.getpid():
            return group.run(job, row_keys)
        with self.transaction() as transaction:
            transaction.read(row_keys)
            return job(transaction)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Enter a transaction with the write lock; committed at the end, rolled back by an exception."""
        if self._handle.copy is not None:
            self._handle.become_writable()
        connections = self._handle.of_this_process()
        # A signal handler can raise an exception after any call. So what was acquired is asked for at the end.
        try:
            # Threads of one process queue here, and wake up at once. Processes have to poll.
            if not connections.writing.acquire(timeout=self._handle.busy_seconds):
                raise busy(self._handle.path, self._handle.busy_seconds)
            while True:
                with suppress(RetiredError), Borrowed(self._handle, for_writing=True) as connection:
                    try:
                        self.begin(connection)
                        if not connection.file.is_in_place():
                            raise connection.file.lose()
                        if not connections.is_current:
                            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
                        transaction = Transaction(connection)
                        yield transaction
                        transaction.flush()
                        self.commit(connection)
                    except ConditionFailedError:
                        connection.execute("ROLLBACK")
                        raise
                    except BaseException:
                        with suppress(sqlite3.Error):  # it is closed, which rolls back, too
                            connection.rollback()
                        raise
                    finally:
                        connection.file.unlock_writes(connection)
                    connections.is_current = True
                    self._checkpoint(connection)
                    return
        finally:
            try:  # noqa: SIM105 - a call of suppress could be interrupted, too
                connections.writing.release()
            except RuntimeError:  # it was not acquired
                pass

    def _checkpoint(self, connection: Connection) -> None:
        """Copy a long log into the file. SQLite would do it within COMMIT, while others wait for the lock of the write. As there,
        a failure is not one of the write, which is durable: the log grows until another one succeeds."""
        with suppress(sqlite3.Error, OSError):
            if connection.file.frames() >= _WAL_PAGES:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def commit(self, connection: sqlite3.Connection) -> None:
        """End a transaction. A failure before this has written nothing: frames in the log count only with a commit frame behind
        them. If this fails, the outcome is unknown: the commit frame may be in the log although it was not synced, and a
        recovery, which takes the log up to its last whole commit frame, then restores the transaction. Rolling back does not
        remove the frame (https://sqlite.org/walformat.html, "Recovery"). Only a busy COMMIT has had no effect
        (https://sqlite.org/lang_transaction.html)."""
        try:
            connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            code = code_of(error)
            if code in BUSY:
                raise
            reason = REFUSED.get(code, "SQLite gave up; check its disk")
            raise AnswerLostError(
                f"the table {self._handle.path} was written, but may not be safe on the disk: {reason} ({error!r}). "
                "The change may or may not be there: check, then try again"
            ) from error

    def begin(self, connection: Connection) -> None:
        """Get the write lock. SQLite's own waiting backs off to 100 ms, so that newcomers overtake the longest waiter; this polls
        evenly (four busy writers: longest wait 0.2 s instead of 1.3 s). :class:`RetiredError` if another thread waits for the
        connection to be closed, to fork the process."""
        deadline = time.monotonic() + self._handle.busy_seconds
        file, connections = connection.file, connection.siblings
        while True:
            if file.lock_writes(connection):
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except BaseException as error:
                    file.unlock_writes(connection)
                    code = code_of(error)
                    if code not in BUSY or time.monotonic() > deadline:
                        raise
            elif time.monotonic() > deadline:
                raise busy(self._handle.path, self._handle.busy_seconds)
            if connections.is_retired:
                raise RetiredError
            time.sleep(uniform(0.0005, 0.003))
