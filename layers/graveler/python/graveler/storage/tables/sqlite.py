"""The tables port on SQLite: one file, any number of threads and processes.

WAL mode with ``synchronous=FULL``: a write is durable when its call returns, readers never wait for a writer, and writers take
turns. Conditions are evaluated inside the write transaction, which holds the file's one write lock.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from graveler.errors import AnswerLostError, BusyError, CorruptError, UnavailableError
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.limits import check_batch, check_key, check_query, encode_item, encode_transaction, holds
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
from graveler.storage.tables.rows import decode_row, decode_rows, encode_row, encode_rows
from graveler.storage.tables.sqlite_handle import Borrowed, TableHandle
from graveler.storage.tables.sqlite_transactions import TableWrites
from graveler.storage.tables.sqlite_writer import DELETE, PUT, TOGETHER, Transaction, read_rows

_DELETE_SOME: Final = (
    "DELETE FROM items WHERE (partition, sort) IN "
    "(SELECT partition, sort FROM items WHERE partition >= ? AND partition < ? LIMIT ?)"
)
_EXPIRING: Final = (
    "SELECT CAST(partition AS BLOB), sort, body FROM items WHERE (partition, sort) > (?, ?) AND instr(body, x'65787069726573') "
    "ORDER BY partition, sort LIMIT ?"
)
"""Items that may have an attribute ``expires``."""
_BATCH: Final = 10_000


class SqliteTables:
    """Tables in the SQLite file ``path``, created on first use (``create=False``: it must exist).

    Waits up to ``busy_seconds`` for other writers, then BusyError. May be pickled, and used after a fork: each process opens its
    own connections (:mod:`graveler.storage.tables.sqlite_files`). :meth:`close` closes them; later calls open new ones.
    ``modes`` are the permissions of a new file and of its folder; SQLite gives its log and index those of the file.

    Where this user may only read, it reads a private copy, made again after each change of the table; writes are refused.
    """

    is_local: Final = True
    """See :class:`graveler.storage.tables.port.LocalTables`."""

    def __init__(self, path: Path, *, create: bool = True, busy_seconds: float = 30.0, modes: Modes = PRIVATE) -> None:
        self.handle = TableHandle(Path(path).absolute(), busy_seconds, modes, create=create)
        """The connections of this process."""
        self.writes = TableWrites(self.handle)
        """The writes of this process."""
        self._restore = partial(SqliteTables, create=create, busy_seconds=busy_seconds, modes=modes)

    def __reduce__(self) -> tuple[object, ...]:
        return self._restore, (self.handle.path,)

    def __repr__(self) -> str:
        return f"SqliteTables({str(self.handle.path)!r})"

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
        self.writes.begin_together()

    def close(self) -> None:
        """Close the connections that no thread is using."""
        self.writes.close()
        self.handle.close()

    def may_write(self) -> bool:
        """Return whether this process may write to the table; True if the file does not exist yet. A few system calls."""
        return self.handle.may_write()

    def get(self, key: Key) -> Item | None:
        """Return the item, or None. The caller must not change it. Cost: as :meth:`get_many`."""
        [item] = self.get_many([key])
        return item

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, in the order of ``keys``, all from one moment. Callers must not change them. Cost: one look-up each;
        up to 16 that were all read lately cost one question whether anything was committed since (:class:`Connection`)."""
        with Borrowed(self.handle) as connection:
            if 0 < len(keys) <= TOGETHER and (recalled := connection.recall(keys)) is not None:
                return recalled
            for key in keys:
                check_key(key)
            row_keys = [(key.partition, key.sort) for key in keys]
            if len(row_keys) <= TOGETHER:  # one statement sees one moment
                rows = read_rows(connection, row_keys)
                items = [connection.decode(key, row) for key, row in zip(keys, rows, strict=True)]
                connection.note_missing(keys, items)
                return items
            connection.execute("BEGIN")
            rows = read_rows(connection, row_keys)
            connection.execute("COMMIT")
        return [None if row is None else decode_row(key, row) for key, row in zip(keys, rows, strict=True)]

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
        with Borrowed(self.handle) as connection:
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

        return self.writes.run(replace, [(row_key.partition, row_key.sort) for row_key in (key, *keys)])

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
                    self.writes.run(partial(_execute_many, statement, batch))
                except (BusyError, UnavailableError) as error:
                    if not done:
                        raise
                    raise AnswerLostError(
                        f"{done:,} of {len(writes):,} items were written to the table {self.handle.path}, the others may not "
                        f"have been: {error}"
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

        self.writes.run(transact, [(w.key.partition, w.key.sort) for w in writes if w.condition is not None])

    def remove_expired(self, now: float) -> int:
        """Remove items whose ``expires`` lies before ``now``. Cost: reads the file once; a transaction for each 10,000."""
        removed = 0
        partition, sort = "", b""
        while True:
            with Borrowed(self.handle) as connection:
                rows = connection.execute(_EXPIRING, (partition, sort, _BATCH)).fetchall()
            candidates = [(self._text(partition), sort, row) for partition, sort, row in rows]
            dead = [
                candidate
                for candidate in candidates
                if has_expired(decode_row(Key(candidate[0], candidate[1]), candidate[2]), now)
            ]
            if dead:
                # Items that were written again meanwhile stay.
                removed += self.writes.run(partial(_execute_many, f"{DELETE} AND body = ?", dead))
            if len(rows) < _BATCH:
                return removed
            partition, sort, _ = candidates[-1]

    def remove_partitions(self, prefix: str) -> int:
        """Remove all items of the partitions whose key begins with ``prefix``. Cost: a transaction for each 10,000."""
        removed, end = 0, prefix[:-1] + chr(ord(prefix[-1]) + 1)
        while True:
            some = self.writes.run(partial(_execute_many, _DELETE_SOME, [(prefix, end, _BATCH)]))
            removed += some
            if some < _BATCH:
                return removed

    def integrity_errors(self) -> list[str]:
        """Return what SQLite's integrity check says of the file, up to 100 messages; an empty list if it is sound. It finds pages
        that are damaged, lost or out of order, which reading some rows need not touch. Cost: reads the whole file."""
        with Borrowed(self.handle) as connection:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
        messages = [str(message) for (message,) in rows]
        return [] if messages == ["ok"] else messages

    def _text(self, partition: bytes) -> str:
        try:
            return partition.decode()
        except UnicodeDecodeError:
            raise CorruptError(
                f"the table {self.handle.path} has an item under {partition!r}, which is not a partition key; restore it "
                "from a copy"
            ) from None


def _execute_many(statement: str, rows: Sequence[tuple[object, ...]], transaction: Transaction) -> int:
    return transaction.execute_many(statement, rows)
