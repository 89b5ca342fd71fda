"""The queue of tokens whose items may be removed: late, and twice.

Late, because a reader that took the branch before a commit published still looks under the applied token (promise C3): nothing is
removed before the longest request's time has passed. Twice, because a writer that held the token from long ago may put an item
there even after that; such items are swept the second time, a day later. The queue is in the table, written in the transaction
that takes the token from its branch, so a process that dies forgets nothing (promise C5).
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.model import RepositoryUID, Token
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import shard_count
from graveler.storage.tables.port import Item, Key, Put, Tables
from graveler.storage.tables.walking import items

LONGEST_REQUEST: Final = 15 * 60
"""Seconds after which no reader can still hold an older state of a branch: the longest life of a function."""

SECOND_SWEEP: Final = 86_400
"""Seconds between the first and the second sweep of a token."""

_TOGETHER: Final = 10
"""Number of tokens that one table read looks for."""


class CleanupQueue:
    """Tokens of one repository that wait for their items to be removed, in the order of their time."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._partition = f"{uid}/cleanup"
        self._idle_until = 0.0
        """Nothing is due before this time: tokens queued from now on wait for :data:`LONGEST_REQUEST` at least."""

    def add_write(self, token: Token, now: float) -> Put:
        """Return the write that queues a token; part of the transaction that takes it from its branch."""
        return Put(Key(self._partition, _sort_key(now + LONGEST_REQUEST, token)), {"token": token, "sweep": 1})

    def sweep(self, staged: StagedChanges, now: float, limit: int = 10) -> int:
        """Remove what is due, at most ``limit`` tokens of a thousand items each; return the number of finished ones.

        One table read when nothing is due; none if an earlier look showed that nothing would be. May be repeated and may run
        twice concurrently. Malformed entries are skipped, and stay for fsck to report.
        """
        if now < self._idle_until:
            return 0
        finished = 0
        for entry in self._due(now, limit):
            if staged.remove(entry.token):  # otherwise the rest next time: it stays in the queue
                self._finish(entry, now)
                finished += 1
        return finished

    def sweep_all(self, staged: StagedChanges, now: float, go_on: Callable[[], bool]) -> int:
        """Remove everything that is due, as long as ``go_on`` returns True, which is called before each thousand items of a
        token's shard; return the number of finished tokens. Otherwise as :meth:`sweep`."""
        finished = 0
        while due := self._due(now, _TOGETHER):
            for entry in due:
                if not go_on():
                    return finished
                while not staged.remove(entry.token):
                    if not go_on():
                        return finished
                self._finish(entry, now)
                finished += 1
        return finished

    def _finish(self, entry: "_Entry", now: float) -> None:
        """Finish a token without items: queue its second sweep, after the first."""
        if entry.sweep == 1:
            again = _sort_key(now + SECOND_SWEEP, entry.token)
            self._tables.put(Key(self._partition, again), {"token": entry.token, "sweep": 2})
        self._tables.delete(Key(self._partition, entry.sort))

    def waiting(self) -> Iterator[Token]:
        """Yield all queued tokens, due or not."""
        for sort, item in items(self._tables, self._partition):
            entry = _decode(sort, item)
            if entry is not None:
                yield entry.token

    def _due(self, now: float, limit: int) -> list["_Entry"]:
        """Return the first due entries, at most ``limit``. If none is due, note until when that holds."""
        entries: list[_Entry] = []
        start, end, next_due = b"", _sort_key(now, Token("")), now + LONGEST_REQUEST
        while True:
            page = self._tables.query(self._partition, start=start, limit=limit)
            for sort, item in page.items:
                if sort >= end:
                    next_due = min(next_due, _time(sort))
                    break
                entry = _decode(sort, item)
                if entry is not None and len(entries) < limit:
                    entries.append(entry)
            else:
                if page.more and len(entries) < limit:
                    start = page.items[-1][0] + b"\0"
                    continue
            if not entries:
                self._idle_until = next_due
            return entries


class _Entry(Struct, frozen=True):
    """A token that waits at a ``sort`` of the queue for its first or second ``sweep``."""

    sort: bytes
    token: Token
    sweep: int


def _decode(sort: bytes, item: Item) -> _Entry | None:
    """Return the entry; None if it is malformed."""
    token, sweep = item.get("token"), item.get("sweep")
    if not (isinstance(token, str) and isinstance(sweep, int) and sweep in (1, 2)):
        return None
    try:
        shard_count(Token(token))
    except CorruptError:
        return None
    return _Entry(sort, Token(token), sweep)


def _sort_key(time: float, token: Token) -> bytes:
    return int(time * 1000).to_bytes(8, "big") + token.encode()


def _time(sort: bytes) -> float:
    return int.from_bytes(sort[:8], "big") / 1000
