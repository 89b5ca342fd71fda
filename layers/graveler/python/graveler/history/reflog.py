"""The reference log: who moved which branch or tag from where to where, and by which operation.

Each ref has a partition of its own, ``<repository uid>/reflog/<kind>/<name>``. A row is written in the same transaction that
changes the ref, so the log has no gaps and records nothing that did not happen. Rows expire (attribute ``expires``, Unix seconds)
some time after they were written; a table that removes expired items may take its time.

Rows of a branch are numbered, by a counter that the branch's item holds and that each such transaction raises: so they are in the
order of events, whatever the writers' clocks say. A numbered row's key is 2**63 plus the number, in 8 bytes, big endian, and the
time is its attribute ``time_ns``. Rows of tags, and those that earlier versions wrote, are in order of time, before all numbered
ones: their key is the time (8 bytes, big endian) and 8 bytes of the SHA-256 of the row, so that two operations at the same
nanosecond do not overwrite each other.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from graveler.errors import CorruptError, InvalidError
from graveler.model import CommitID, RepositoryUID
from graveler.storage.tables.port import Item, Key, Put, Tables

RefKind: TypeAlias = Literal["branch", "tag"]

KEEP_SECONDS: Final = 90 * 24 * 3600
"""Default number of seconds for which a row is kept."""

_PAGE: Final = 1000
_NUMBERED: Final = 1 << 63
"""Greater than all times."""


class Event(Struct, frozen=True):
    """A change of a ref. ``time_ns`` is Unix time in nanoseconds, ``operation`` a verb (``commit``, ``merge``, …),
    ``operation_id`` names the one run of it, ``by`` is the user."""

    time_ns: int
    operation: str
    operation_id: str
    by: str


class LogEntry(Struct, frozen=True):
    """One row: ``event`` moved the ref from ``old`` (None: it was created) to ``new`` (None: it was deleted). If both are equal,
    only uncommitted changes were dropped."""

    event: Event
    old: CommitID | None
    new: CommitID | None


class RefLog:
    """The reference log of one repository. Rows stay for ``keep_seconds``."""

    def __init__(self, tables: Tables, uid: RepositoryUID, keep_seconds: int = KEEP_SECONDS) -> None:
        self._tables, self._uid, self.keep_seconds = tables, uid, keep_seconds

    def put_write(self, kind: RefKind, name: str, entry: LogEntry, number: int = 0) -> Put:
        """Return the write that adds ``entry`` to the log of a ref. No request. :class:`InvalidError` for a time before 1970.

        With a ``number``, from 1, the row is the newest unless a greater one exists. Without one the row is in order of time, and
        a transaction that is repeated writes it once.
        """
        event = entry.event
        if not 0 <= event.time_ns < 1 << 63:
            raise InvalidError(f"time {event.time_ns} ns of {event.operation} is not between 1970 and 2262")
        item: dict[str, str | int] = {
            "operation": event.operation,
            "operation_id": event.operation_id,
            "by": event.by,
            "expires": event.time_ns // 1_000_000_000 + self.keep_seconds,
        }
        if entry.old is not None:
            item["old"] = entry.old
        if entry.new is not None:
            item["new"] = entry.new
        if number:
            item["time_ns"] = event.time_ns
            return Put(Key(self._partition(kind, name), (_NUMBERED | number).to_bytes(8)), item)
        identity = "\0".join([event.operation_id, event.operation, event.by, entry.old or "", entry.new or ""])
        sort = event.time_ns.to_bytes(8, "big") + sha256(identity.encode("utf-8", "surrogatepass")).digest()[:8]
        return Put(Key(self._partition(kind, name), sort), item)

    def entries(self, kind: RefKind, name: str, limit: int = 100) -> list[LogEntry]:
        """Return the newest ``limit`` rows of a ref, newest first; also of a ref that does not exist any more. One request for
        each 1,000 rows. Raises :class:`CorruptError` for a row that cannot be read."""
        return [*islice(self.rows(kind, name, min(limit, _PAGE)), limit)]

    def rows(self, kind: RefKind, name: str, page_size: int) -> Iterator[LogEntry]:
        """Yield all the rows of :meth:`entries`. One request for each ``page_size`` rows, made lazily."""
        end: bytes | None = None
        while True:
            page = self._tables.query(self._partition(kind, name), end=end, limit=page_size, descending=True)
            for sort, item in page.items:
                yield _decode(kind, name, sort, item)
            if not page.more or not page.items:
                return
            end = page.items[-1][0]

    def last_number(self, kind: RefKind, name: str) -> int:
        """Return the number of the newest row of a ref, also of one that does not exist any more; 0 if it has none. One
        request."""
        page = self._tables.query(self._partition(kind, name), limit=1, descending=True)
        return number_of_row(page.items[0][0]) if page.items else 0

    def _partition(self, kind: RefKind, name: str) -> str:
        return f"{self._uid}/reflog/{kind}/{name}"


def number_of_row(sort: bytes) -> int:
    """Return the number of the row with this key; 0 if it has none."""
    return max(0, int.from_bytes(sort) - _NUMBERED) if len(sort) == 8 else 0


def time_of_row(sort: bytes, item: Item) -> int | None:
    """Return a row's recorded time, in Unix nanoseconds; None if it has none."""
    time_ns = item.get("time_ns") if number_of_row(sort) else int.from_bytes(sort[:8]) if len(sort) == 16 else None
    return time_ns if isinstance(time_ns, int) else None


def _decode(kind: RefKind, name: str, sort: bytes, item: Item) -> LogEntry:
    time_ns = time_of_row(sort, item)
    operation, operation_id, by = item.get("operation"), item.get("operation_id"), item.get("by")
    old, new = item.get("old"), item.get("new")
    if not (
        time_ns is not None
        and isinstance(operation, str)
        and isinstance(operation_id, str)
        and isinstance(by, str)
        and isinstance(old, str | None)
        and isinstance(new, str | None)
    ):
        raise CorruptError(f"row {sort.hex()} in the reference log of {kind} {name!r} cannot be read")
    event = Event(time_ns, operation, operation_id, by)
    return LogEntry(event, None if old is None else CommitID(old), None if new is None else CommitID(new))
