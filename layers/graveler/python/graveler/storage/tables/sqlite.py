"""The tables port on SQLite: one file, any number of threads and processes.

WAL mode with ``synchronous=FULL``: a write is durable when its call returns, readers never wait for a writer, and writers take
turns. Conditions are evaluated inside the write transaction, which holds the file's one write lock.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import uniform
from types import TracebackType
from typing import Final, TypeVar
from weakref import finalize

from graveler.errors import (
    AnswerLostError,
    BusyError,
    CorruptError,
    GravelerError,
    InvalidError,
    UnavailableError,
)
from graveler.storage.durable_files import make_folder, sync_file, unavailable
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.limits import (
    check_batch,
    check_key,
    check_query,
    encode_item,
    encode_transaction,
    holds,
)
from graveler.storage.objects.port import NotPermittedError
from graveler.storage.tables.port import (
    Check,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Put,
    Query,
    QueryPage,
    Write,
    has_expired,
    query_in_turn,
)
from graveler.storage.tables.rows import RowMemory, decode_row, decode_rows, encode_row, encode_rows
from graveler.storage.tables.sqlite_connections import Connection, Connections
from graveler.storage.tables.sqlite_copy import TableCopy, may_write
from graveler.storage.tables.sqlite_files import opening
from graveler.storage.tables.sqlite_writer import (
    DELETE,
    PUT,
    TOGETHER,
    GroupWriter,
    Job,
    RowKey,
    Transaction,
    read_rows,
)
from graveler.system.forks import new_lock

R = TypeVar("R")

APPLICATION_ID: Final = 0x67726176
"""``grav``: marks the file as ours, also for file(1)."""
FORMAT_VERSION: Final = 2
"""Since 2, rows have checksums (:mod:`graveler.storage.tables.rows`)."""

_CREATE = (
    "CREATE TABLE items (partition TEXT NOT NULL, sort BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (partition, sort)) \
WITHOUT ROWID"
)
_DELETE_SOME = (
    "DELETE FROM items WHERE (partition, sort) IN "
    "(SELECT partition, sort FROM items WHERE partition >= ? AND partition < ? LIMIT ?)"
)
_EXPIRING = (
    "SELECT CAST(partition AS BLOB), sort, body FROM items WHERE (partition, sort) > (?, ?) AND instr(body, x'65787069726573') "
    "ORDER BY partition, sort LIMIT ?"
)
"""Items that may have an attribute ``expires``."""
_SMALLEST = 512
"""Bytes: SQLite takes a shorter file for an empty one, and would begin it anew. No page is smaller."""
_BATCH = 10_000
_PAGE_BYTES = 8192
"""Commit items of 1.5 KB would spill to overflow pages of 4,096 bytes: the same history then takes twice the space."""
_WAL_BYTES = 64 << 20
_WAL_PAGES = 4_000
"""The number of log pages at which the log is copied into the file: four times SQLite's default, since bulk writes hit the same
pages again."""
_SMALL_BYTES: Final = 4096
"""The most bytes of rows read together that it remembers."""
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
_DAMAGED = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT))
"""Our statements are always the same ones: an error that SQLite finds in one (no such column, unsupported file format) comes from
the file."""
_REFUSED = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then try again",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; grant this user write permission",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and that this user can write there",
    sqlite3.SQLITE_PERM: "no permission; grant it to this user",
    sqlite3.SQLITE_IOERR: "the disk reports an input/output error, or is full; check it",
}


class SqliteTables:
    """Tables in the SQLite file ``path``, created on first use (``create=False``: it must exist).

    Waits up to ``busy_seconds`` for other writers, then BusyError. May be pickled, and used after a fork: each process opens its
    own connections (:mod:`graveler.storage.tables.sqlite_files`). :meth:`close` closes them; later calls open new ones.
    ``modes`` are the permissions of a new file and of its folder; SQLite gives its log and index those of the file.

    Where this user may only read, it reads a private copy, made again after each change of the table; writes are refused.
    """

    def __init__(self, path: Path, *, create: bool = True, busy_seconds: float = 30.0, modes: Modes = PRIVATE) -> None:
        self._path = Path(path).absolute()
        self._create = create
        self._busy_seconds = busy_seconds
        self._modes = modes
        self._connections = Connections()
        # Not __del__: in a cycle of garbage the connections might be finalized before it.
        self._close_all = finalize(self, self._connections.close_all)
        self._writer: GroupWriter | None = None
        self._memory = RowMemory()
        self._copy: TableCopy | None = None
        """What is read instead of a table that this process may not write to."""
        self._remove_copy: Callable[[], object] = _nothing
        self._copying = new_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self._path, self._create, self._busy_seconds, self._modes)

    def __repr__(self) -> str:
        return f"SqliteTables({str(self._path)!r})"

    def __enter__(self) -> "SqliteTables":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def write_together(self) -> None:
        """Start a thread of this process that writes for all others, many of their writes in one transaction with one sync of the
        disk (:mod:`graveler.storage.tables.sqlite_writer`): for a process with many concurrent writers. It ends with
        :meth:`close`."""
        if self._writer is None:
            self._writer = GroupWriter(self._writing)

    def close(self) -> None:
        """Close the connections that no thread is using."""
        writer, self._writer = self._writer, None
        if writer is not None and writer.process == os.getpid():
            writer.close()
        self._of_this_process().close_idle()
        with self._copying:
            self._drop_copy()

    def may_write(self) -> bool:
        """Return whether this process may write to the table; True if the file does not exist yet. A few system calls."""
        return self._size() < 0 or may_write(self._path)

    def _drop_copy(self) -> None:
        """Remove the copy, and the connections to it when their callers return them. The caller holds the lock."""
        copy, self._copy = self._copy, None
        if copy is not None:
            self._of_this_process().retire()
            self._remove_copy()

    def _renew_copy(self, copy: TableCopy) -> None:
        """Read the table as it is now: what was committed before this call is seen by it."""
        try:
            if copy.is_current():
                return
        except OSError as error:
            raise unavailable(error, f"reading the table {self._path}") from error
        with self._copying:
            if self._copy is copy:
                self._drop_copy()

    def _become_writable(self) -> None:
        """Leave the copy, if the right to write was granted meanwhile. :class:`NotPermittedError`."""
        if not may_write(self._path):
            raise self._not_writable()
        with self._copying:
            self._drop_copy()

    def _not_writable(self) -> NotPermittedError:
        return NotPermittedError(
            f"the table {self._path} can only be read: its disk is read-only, or this user may not write there; nothing was "
            "written. Mount the disk writable, or grant this user the right (`graveler init --shared group` makes a lake for a "
            "group)"
        )

    def get(self, key: Key) -> Item | None:
        """Return the item, or None. Cost: one look-up in the file."""
        check_key(key)
        with _Borrowed(self) as connection:
            (row,) = read_rows(connection, [(key.partition, key.sort)])
        return None if row is None else self._memory.decode(key, row)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, in the order of ``keys``, all from one moment. Callers must not change them. Cost: one look-up each;
        up to 16 that were all read lately cost one question whether anything was committed since (:class:`Connection`)."""
        few = 0 < len(keys) <= TOGETHER
        with _Borrowed(self) as connection:
            recalled = connection.recall(keys) if few else None
            if recalled is not None:
                return recalled
            for key in keys:
                check_key(key)
            row_keys = [(key.partition, key.sort) for key in keys]
            if len(row_keys) <= TOGETHER:  # one statement sees one moment
                rows = read_rows(connection, row_keys)
            else:
                connection.execute("BEGIN")
                rows = read_rows(connection, row_keys)
                connection.execute("COMMIT")
            decode = self._memory.decode
            items = [None if row is None else decode(key, row) for key, row in zip(keys, rows, strict=True)]
            if few and sum(len(row) for row in rows if isinstance(row, bytes)) <= _SMALL_BYTES:
                connection.remember(keys, items)
        return items

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        """Return items of one partition with ``start <= sort key < end``, all from one moment."""
        check_query(partition, limit)
        arguments: list[str | bytes | int] = [partition, start]
        statement = "SELECT sort, body FROM items WHERE partition = ? AND sort >= ?"
        if end is not None:
            statement += " AND sort < ?"
            arguments.append(end)
        statement += " ORDER BY sort DESC LIMIT ?" if descending else " ORDER BY sort LIMIT ?"
        arguments.append(limit + 1)
        with _Borrowed(self) as connection:
            rows = connection.execute(statement, arguments).fetchall()
        return QueryPage(decode_rows(partition, rows[:limit]), len(rows) > limit)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        """Return the pages of several queries, one after the other."""
        return query_in_turn(self, queries)

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        """Replace or create one item, durably. Cost: one transaction, one sync of the disk."""
        self.transact([Put(key, item, condition)])

    def replace(self, key: Key, item: Item) -> Item | None:
        """Replace or create one item, durably; return the previous one. Cost: one transaction, one sync, one look-up."""
        return self.replace_and_get(key, item, ())[0]

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        """Replace or create one item, durably; return the previous one, and the items under ``keys`` at the same moment. Cost:
        one transaction, one sync, a look-up each."""
        check_key(key)
        row = encode_row(key.partition, key.sort, encode_item(key, item))

        def replace(transaction: Transaction) -> tuple[Item | None, list[Item | None]]:
            replaced, items = transaction.get(key), [transaction.get(other) for other in keys]
            transaction.put(key, row)
            return replaced, items

        return self._write(replace, [(row_key.partition, row_key.sort) for row_key in (key, *keys)])

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        """Remove one item, durably. Cost: one transaction, one sync of the disk."""
        self.transact([Delete(key, condition)])

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        """Make many unconditional writes of distinct keys. Cost: one transaction, one sync, for each 10,000."""
        check_batch(writes)
        # Everything is encoded before the first is written: one bad item refuses the whole call. Sorted, neighbours share pages
        # of the file: less is written.
        bodies = [(w.key.partition, w.key.sort, encode_item(w.key, w.item)) for w in writes if isinstance(w, Put)]
        bodies.sort()
        puts = encode_rows(bodies)
        deletes = sorted((w.key.partition, w.key.sort) for w in writes if isinstance(w, Delete))
        done = 0
        for statement, rows in ((PUT, puts), (DELETE, deletes)):
            for begin in range(0, len(rows), _BATCH):
                batch = rows[begin : begin + _BATCH]
                try:
                    self._write(partial(_execute_many, statement, batch))
                except (BusyError, UnavailableError) as error:
                    if not done:
                        raise
                    raise AnswerLostError(
                        f"{done:,} of {len(writes):,} items were written to the table {self._path}, the others may not have "
                        f"been: {error}"
                    ) from error
                done += len(batch)

    def transact(self, writes: Sequence[Write]) -> None:
        """Make all of the writes or none, durably. Cost: one transaction, one sync of the disk, one look-up for each
        condition."""
        bodies = encode_transaction(writes)
        if not writes:
            return
        rows = [
            (write.key, encode_row(write.key.partition, write.key.sort, body) if isinstance(write, Put) else b"")
            for write, body in zip(writes, bodies, strict=True)
            if not isinstance(write, Check)
        ]

        def transact(transaction: Transaction) -> None:
            failures: dict[int, Item | None] = {}
            for position, write in enumerate(writes):
                if write.condition is not None:
                    item = transaction.get(write.key)
                    if not holds(write.condition, item):
                        failures[position] = item
            if failures:
                raise ConditionFailedError(failures)
            for key, row in rows:
                if row:
                    transaction.put(key, row)
                else:
                    transaction.delete(key)

        self._write(transact, [(w.key.partition, w.key.sort) for w in writes if w.condition is not None])

    def remove_expired(self, now: float) -> int:
        """Remove items whose ``expires`` lies before ``now``. Cost: reads the file once; a transaction for each 10,000."""
        removed = 0
        partition, sort = "", b""
        while True:
            with _Borrowed(self) as connection:
                rows = connection.execute(_EXPIRING, (partition, sort, _BATCH)).fetchall()
            candidates = [(self._text(partition), sort, row) for partition, sort, row in rows]
            dead = [
                candidate
                for candidate in candidates
                if has_expired(decode_row(Key(candidate[0], candidate[1]), candidate[2]), now)
            ]
            if dead:
                # Items that were written again meanwhile stay.
                removed += self._write(partial(_execute_many, f"{DELETE} AND body = ?", dead))
            if len(rows) < _BATCH:
                return removed
            partition, sort, _ = candidates[-1]

    def remove_partitions(self, prefix: str) -> int:
        """Remove all items of the partitions whose key begins with ``prefix``. Cost: a transaction for each 10,000."""
        removed, end = 0, prefix[:-1] + chr(ord(prefix[-1]) + 1)
        while True:
            some = self._write(partial(_execute_many, _DELETE_SOME, [(prefix, end, _BATCH)]))
            removed += some
            if some < _BATCH:
                return removed

    def integrity_errors(self) -> list[str]:
        """Return what SQLite's integrity check says of the file, up to 100 messages; an empty list if it is sound. It finds pages
        that are damaged, lost or out of order, which reading some rows need not touch. Cost: reads the whole file."""
        with _Borrowed(self) as connection:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
        messages = [str(message) for (message,) in rows]
        return [] if messages == ["ok"] else messages

    def _text(self, partition: bytes) -> str:
        try:
            return partition.decode()
        except UnicodeDecodeError:
            raise CorruptError(
                f"the table {self._path} has an item under {partition!r}, which is not a partition key; restore it from a copy"
            ) from None

    def _write(self, job: Job[R], row_keys: Sequence[RowKey] = ()) -> R:
        """Return the job's result once it is durable: in a transaction of its own, or by the group's writer. The job reads
        ``row_keys``."""
        writer = self._writer
        if writer is not None and writer.process == os.getpid():
            return writer.run(job, row_keys)
        with self._writing() as transaction:
            transaction.read(row_keys)
            return job(transaction)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """Enter a transaction with the write lock; committed at the end, rolled back by an exception."""
        if self._copy is not None:
            self._become_writable()
        connections = self._of_this_process()
        # A signal handler can raise an exception after any call. So what was acquired is asked for at the end.
        try:
            # Threads of one process queue here, and wake up at once. Processes have to poll.
            if not connections.writing.acquire(timeout=self._busy_seconds):
                raise self._busy()
            while True:
                with suppress(_RetiredError), _Borrowed(self, for_writing=True) as connection:
                    try:
                        self._begin(connection)
                        if not connection.file.is_in_place():
                            raise connection.file.lose()
                        if not connections.is_current:
                            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
                        transaction = Transaction(connection, self._memory)
                        yield transaction
                        transaction.flush()
                        self._commit(connection)
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

    def _commit(self, connection: sqlite3.Connection) -> None:
        """End a transaction. A failure before this has written nothing: frames in the log count only with a commit frame behind
        them. If this fails, the outcome is unknown: the commit frame may be in the log although it was not synced, and a
        recovery, which takes the log up to its last whole commit frame, then restores the transaction. Rolling back does not
        remove the frame (https://sqlite.org/walformat.html, "Recovery"). Only a busy COMMIT has had no effect
        (https://sqlite.org/lang_transaction.html)."""
        try:
            connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
            if code in _BUSY:
                raise
            reason = _REFUSED.get(code, "SQLite gave up; check its disk")
            raise AnswerLostError(
                f"the table {self._path} was written, but may not be safe on the disk: {reason} ({error!r}). "
                "The change may or may not be there: check, then try again"
            ) from error

    def _begin(self, connection: Connection) -> None:
        """Get the write lock. SQLite's own waiting backs off to 100 ms, so that newcomers overtake the longest waiter; this polls
        evenly (four busy writers: longest wait 0.2 s instead of 1.3 s). ``_RetiredError`` if another thread waits for the
        connection to be closed, to fork the process."""
        deadline = time.monotonic() + self._busy_seconds
        file, connections = connection.file, connection.siblings
        while True:
            if file.lock_writes(connection):
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except BaseException as error:
                    file.unlock_writes(connection)
                    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
                    if code not in _BUSY or time.monotonic() > deadline:
                        raise
            elif time.monotonic() > deadline:
                raise self._busy()
            if connections.is_retired:
                raise _RetiredError
            time.sleep(uniform(0.0005, 0.003))

    def _of_this_process(self) -> Connections:
        connections = self._connections
        if connections.is_retired or connections.process != os.getpid():
            fresh = Connections()
            connections = self._connections = connections.successors.setdefault(os.getpid(), fresh)
            if connections is fresh:  # no other thread was faster
                self._close_all.detach()
                self._close_all = finalize(self, fresh.close_all)
            if self._copy is not None and not self._copy.is_ours():
                self._copy = None
        return connections

    def _connect(self, connections: Connections, *, for_writing: bool) -> Connection:
        size = self._size()
        if 0 < size < _SMALLEST:
            raise CorruptError(
                f"the table {self._path} has only {size} bytes: it was truncated; restore it from a copy"
            )
        if size < 0:
            if not self._create:
                raise UnavailableError(f"the table {self._path} does not exist; check that this is the right folder")
            try:
                make_folder(self._path.parent, self._modes)
                os.close(self._modes.open(self._path, os.O_RDWR))
            except OSError as error:
                raise unavailable(error, f"creating the table {self._path}") from error
        if size >= 0 and not may_write(self._path):
            if for_writing:
                raise self._not_writable()
            with self._copying:
                if self._copy is None:
                    self._copy = TableCopy(self._path)
                    self._remove_copy = finalize(self, self._copy.remove)
                connection = self._open(connections, self._copy.path)
                connection.execute("PRAGMA query_only = ON")
                return connection
        return self._open(connections, self._path)

    def _open(self, connections: Connections, path: Path) -> Connection:
        try:
            with opening(str(path), connections) as file:
                connection = file.open(str(path), partial(self._prepared, path))
                connection.file, connection.siblings = file, connections
                connections.all.add(connection)
                if len(connections.all) == 1:
                    self._sync_log()
        except OSError as error:
            raise unavailable(error, f"opening the table {self._path}") from error
        return connection

    def _prepared(self, path: Path) -> Connection:
        connection = sqlite3.connect(
            path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, factory=Connection
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _sync_log(self) -> None:
        """Make durable what this process may have recovered from the log: a process that died, or whose disk failed, may not have
        synced it, and a reader that finds a write there takes it for acknowledged. (SQLite holds no locks on this file, which
        closing it would drop.)"""
        try:
            descriptor = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)

    def _size(self) -> int:
        """Return the size of the file in bytes; negative if it is missing."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise unavailable(error, f"opening the table {self._path}") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the table if the file is new; refuse a file that is not ours, or of a newer version."""
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new file; an old one keeps its own
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # F_FULLFSYNC, on macOS; nothing elsewhere
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA secure_delete = FAST")  # a secret that was replaced does not stay in its page
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # it is _checkpoint's
        if not self._is_ours(connection):
            self._enter_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_ours(connection):  # no other process made it meanwhile
                connection.execute(_CREATE)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute("COMMIT")
        self._enter_wal(connection)

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file holds our table; False if it is empty. InvalidError if it holds something else."""
        # One statement, hence one moment: another process may be making the table.
        application, version, tables = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if application == 0 and version == 0 and tables == 0:
            return False
        self._connections.is_current = version == FORMAT_VERSION
        if application != APPLICATION_ID:
            raise InvalidError(f"{self._path} is an SQLite file of another program; choose another file for the table")
        if version > FORMAT_VERSION:
            raise InvalidError(
                f"the table {self._path} has format version {version}, but this graveler reads at most {FORMAT_VERSION}; "
                "use a newer graveler"
            )
        return True

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        # Changing the mode does not wait for others as other statements do.
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise UnavailableError(
                    f"the table {self._path} is on a file system without shared memory; use a local disk"
                )
            return

    def _explained(self, error: sqlite3.Error | UnicodeDecodeError) -> GravelerError | None:
        """Return the error to raise for an error of SQLite; None for one that is a mistake of ours."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        if code in _BUSY:
            return self._busy()
        # Invalid UTF-8 in a column that damage turned into text is an error of Python's, without a code.
        if code in _DAMAGED or isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
            return CorruptError(
                f"the table {self._path} is damaged, or is not a table ({error}); restore it from a copy"
            )
        if code in _REFUSED:
            return UnavailableError(f"the table {self._path} cannot be used now: {_REFUSED[code]} ({error})")
        return None

    def _busy(self) -> BusyError:
        return BusyError(
            f"the table {self._path} was busy for {self._busy_seconds:g} s with other writes; nothing was written; "
            "try again"
        )


class _RetiredError(Exception):
    """The connection has to be returned."""


class _Borrowed:
    """A connection out of the pool for one call; translates SQLite's errors. (A class, since it is faster than a generator.)"""

    __slots__ = ("_connection", "_connections", "_for_writing", "_idle", "_tables")

    def __init__(self, tables: SqliteTables, *, for_writing: bool = False) -> None:
        self._tables = tables
        self._for_writing = for_writing
        self._connection: Connection | None = None

    def __enter__(self) -> Connection:
        tables = self._tables
        copy = tables._copy
        if copy is not None and copy.is_ours():
            tables._renew_copy(copy)
        connections = self._connections = tables._of_this_process()
        self._idle = connections.idle_writers if self._for_writing else connections.idle
        try:
            # A loop, since a signal handler can raise an exception after a call, before its result is assigned.
            for connection in iter(self._idle.pop, None):
                self._connection = connection
                return connection
        except IndexError:
            self._connection = None
        try:
            connection = self._connection = tables._connect(connections, for_writing=self._for_writing)
            if self._for_writing:
                connection.execute("PRAGMA busy_timeout = 0")
                # What a statement of several rows would roll back if it failed is kept in memory, not in a file.
                connection.execute("PRAGMA temp_store = MEMORY")
                # A row that damage turned into text then has a wrong checksum, which only its reader gets an error for.
                connection.text_factory = bytes
        except (sqlite3.Error, UnicodeDecodeError) as error:
            explained = tables._explained(error)
            if explained is None:
                raise
            raise explained from error
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
            explained = self._tables._explained(error)
            if explained is not None:
                raise explained from error


def _execute_many(statement: str, rows: Sequence[tuple[object, ...]], transaction: Transaction) -> int:
    return transaction.execute_many(statement, rows)


def _nothing() -> None:
    pass


def _restore(path: Path, create: bool, busy_seconds: float, modes: Modes) -> SqliteTables:
    return SqliteTables(path, create=create, busy_seconds=busy_seconds, modes=modes)
