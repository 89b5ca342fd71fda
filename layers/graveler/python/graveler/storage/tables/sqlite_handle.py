"""The connections of a process to a table of SQLite, or to a copy of a table that it may only read."""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final
from weakref import finalize

from graveler.errors import CorruptError, UnavailableError
from graveler.storage.durable_files import make_folder, sync_file, unavailable
from graveler.storage.file_modes import Modes
from graveler.storage.tables.port import ConditionFailedError
from graveler.storage.tables.sqlite_connections import Connection, Connections
from graveler.storage.tables.sqlite_copy import TableCopy, may_write
from graveler.storage.tables.sqlite_errors import explained, not_writable
from graveler.storage.tables.sqlite_files import opening
from graveler.storage.tables.sqlite_schema import prepare
from graveler.system.forks import new_lock

_SMALLEST: Final = 512
"""Bytes: SQLite takes a shorter file for an empty one, and would begin it anew. No page is smaller."""


class TableHandle:
    """The table in the file ``path``, created on first use if ``create``; with waiting for other writers up to ``busy_seconds``.
    May be used after a fork: each process opens its own connections."""

    def __init__(self, path: Path, busy_seconds: float, modes: Modes, *, create: bool) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self._modes = modes
        self._create = create
        self.connections = Connections()
        # Not __del__: in a cycle of garbage the connections might be finalized before it.
        self._close_all = finalize(self, self.connections.close_all)
        self.copy: TableCopy | None = None
        """The copy that is read instead of a table that this process may not write to."""
        self._remove_copy: Callable[[], object] = _nothing
        self._copying = new_lock()

    def close(self) -> None:
        """Close the connections that no thread is using."""
        self.of_this_process().close_idle()
        if self.copy is not None:
            with self._copying:
                self._drop_copy()

    def may_write(self) -> bool:
        """Return whether this process may write to the table; True if the file does not exist yet. A few system calls."""
        return self._size() < 0 or may_write(self.path)

    def _drop_copy(self) -> None:
        """Remove the copy, and the connections to it when their callers return them. The caller holds the lock."""
        copy, self.copy = self.copy, None
        if copy is not None:
            self.of_this_process().retire()
            self._remove_copy()

    def renew_copy(self, copy: TableCopy) -> None:
        """Read the table as it is now: what was committed before this call is seen by it."""
        try:
            if copy.is_current():
                return
        except OSError as error:
            raise unavailable(error, f"reading the table {self.path}") from error
        with self._copying:
            if self.copy is copy:
                self._drop_copy()

    def become_writable(self) -> None:
        """Leave the copy, if the right to write was granted meanwhile. :class:`NotPermittedError`."""
        if not may_write(self.path):
            raise not_writable(self.path)
        with self._copying:
            self._drop_copy()

    def of_this_process(self) -> Connections:
        """Return the connections of this process."""
        connections = self.connections
        if connections.is_retired or connections.process != os.getpid():
            fresh = Connections()
            connections = self.connections = connections.successors.setdefault(os.getpid(), fresh)
            if connections is fresh:  # no other thread was faster
                self._close_all.detach()
                self._close_all = finalize(self, fresh.close_all)
            if self.copy is not None and not self.copy.is_ours():
                self.copy = None
        return connections

    def connect(self, connections: Connections, *, for_writing: bool) -> Connection:
        """Return a new one of these connections. Errors of SQLite as they are."""
        size = self._size()
        if 0 < size < _SMALLEST:
            raise CorruptError(f"the table {self.path} has only {size} bytes: it was truncated; restore it from a copy")
        if size < 0:
            if not self._create:
                raise UnavailableError(f"the table {self.path} does not exist; check that this is the right folder")
            try:
                make_folder(self.path.parent, self._modes)
                os.close(self._modes.open(self.path, os.O_RDWR))
            except OSError as error:
                raise unavailable(error, f"creating the table {self.path}") from error
        if size >= 0 and not may_write(self.path):
            if for_writing:
                raise not_writable(self.path)
            with self._copying:
                if self.copy is None:
                    self.copy = TableCopy(self.path)
                    self._remove_copy = finalize(self, self.copy.remove)
                connection = self._open(connections, self.copy.path)
                connection.execute("PRAGMA query_only = ON")
                return connection
        return self._open(connections, self.path)

    def _open(self, connections: Connections, path: Path) -> Connection:
        try:
            with opening(str(path), connections) as file:
                connection = file.open(str(path), partial(self._prepared, path))
                connection.file, connection.siblings = file, connections
                connections.all.add(connection)
                if len(connections.all) == 1:
                    self._sync_log()
        except OSError as error:
            raise unavailable(error, f"opening the table {self.path}") from error
        return connection

    def _prepared(self, path: Path) -> Connection:
        connection = sqlite3.connect(
            path, timeout=self.busy_seconds, isolation_level=None, check_same_thread=False, factory=Connection
        )
        try:
            self.connections.is_current = prepare(connection, path, self.busy_seconds)
        except BaseException:
            connection.close()
            raise
        return connection

    def _sync_log(self) -> None:
        """Make durable what this process may have recovered from the log: a process that died, or whose disk failed, may not have
        synced it, and a reader that finds a write there takes it for acknowledged. (SQLite holds no locks on this file, which
        closing it would drop.)"""
        try:
            descriptor = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)

    def _size(self) -> int:
        """Return the size of the file in bytes; negative if it is missing."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise unavailable(error, f"opening the table {self.path}") from error


class Borrowed:
    """A connection out of the pool for one call; translates SQLite's errors. (A class, since it is faster than a generator.)"""

    __slots__ = ("_connection", "_connections", "_for_writing", "_handle", "_idle")

    def __init__(self, handle: TableHandle, *, for_writing: bool = False) -> None:
        self._handle = handle
        self._for_writing = for_writing
        self._connection: Connection | None = None

    def __enter__(self) -> Connection:
        handle = self._handle
        copy = handle.copy
        if copy is not None and copy.is_ours():
            handle.renew_copy(copy)
        connections = self._connections = handle.of_this_process()
        self._idle = connections.idle_writers if self._for_writing else connections.idle
        try:
            # A loop, since a signal handler can raise an exception after a call, before its result is assigned.
            for connection in iter(self._idle.pop, None):
                self._connection = connection
                return connection
        except IndexError:
            self._connection = None
        try:
            connection = self._connection = handle.connect(connections, for_writing=self._for_writing)
            if self._for_writing:
                connection.execute("PRAGMA busy_timeout = 0")
                # What a statement of several rows would roll back if it failed is kept in memory, not in a file.
                connection.execute("PRAGMA temp_store = MEMORY")
                # A row that damage turned into text then has a wrong checksum, which only its reader gets an error for.
                connection.text_factory = bytes
        except (sqlite3.Error, UnicodeDecodeError) as error:
            reason = explained(error, handle.path, handle.busy_seconds)
            if reason is None:
                raise
            raise reason from error
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection = self._connection
        if connection is None:
            return
        if (error is None or isinstance(error, ConditionFailedError)) and not self._connections.is_retired:
            self._connection = None
            self._idle.append(connection)
            if self._connections.is_retired:  # meanwhile
                self._connections.close_idle()
            return
        # Closing rolls back. After a failure of the disk, or an interrupt, nothing is assumed about the connection.
        self._connections.discard(connection)
        self._connection = None
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            reason = explained(error, self._handle.path, self._handle.busy_seconds)
            if reason is not None:
                raise reason from error


def _nothing() -> None:
    pass
