"""A rule's changes staged since its last commit, and whether a commit is due.

The counts are written in the transaction that stages, so they are exact even if a process dies. A commit first sets them aside
(:attr:`Pending.taken`), and only then begins: what is staged meanwhile counts for the next one, and is never lost.

Clock windows are counted separately. Changes from before the end of their window *wait* for it, and are due then. Later ones are
*late*: they join the commit of a window that is waited for, and are otherwise due at once. A commit includes everything staged,
so the first window that is due takes the others along. docs/design/0007-windows-of-ingest.md has the reasons.

Processes of earlier versions know only one window, and drop the rest from what they rewrite: :attr:`Amount.window` is for them.
What they drop is not lost, but counts to the window in which it was staged: its commit may come earlier or later.
"""

from collections.abc import Callable, Iterator, Mapping
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError
from graveler.ingest.rules import CommitPolicy
from graveler.ingest.waiting_repositories import mark_write
from graveler.ingest.windows import Window
from graveler.lake.clock import Backoff, Clock
from graveler.model import RepositoryUID
from graveler.storage.tables.port import Absent, Condition, ConditionFailedError, Item, Key, Matches, Put, Tables, Write

NO_WINDOW: Final = -1
"""No window, in :attr:`Amount.window`."""

MAX_WINDOWS: Final = 100
"""Windows that are counted separately. Beyond that, late ones are counted as one, and then the youngest of the others, so that an
item stays small: every transaction that stages writes it."""


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Changes of one window, and the time (Unix seconds) when the first of them was staged."""

    objects: int
    deleted: int
    since: float

    def with_more(self, objects: int, deleted: int) -> "Counted":
        """Return the sum of this and the changes staged now."""
        return Counted(self.objects + objects, self.deleted + deleted, self.since)

    def waits(self, window: Window, begin: int) -> bool:
        """Return whether the first of them was on time."""
        return self.since < window.ends(begin)


class Amount(msgspec.Struct, frozen=True):
    """Staged changes. ``since`` (Unix seconds) is the time of the first, ``marked`` whether a marker came. ``windows`` has those
    that belong to clock windows, by the window's beginning. ``window`` is the oldest of these, for processes of earlier versions,
    which know no other and none before 1970."""

    objects: int = 0
    deleted: int = 0
    since: float = 0.0
    window: int = NO_WINDOW
    marked: bool = False
    windows: Mapping[int, Counted] = {}

    @property
    def changes(self) -> int:
        """The number of objects and deletes."""
        return self.objects + self.deleted

    def with_more(
        self,
        objects: int,
        deleted: int,
        now: float,
        begin: int | None = None,
        window: Window | None = None,
        *,
        marked: bool = False,
    ) -> "Amount":
        """Return the sum of this and the changes staged now, in the policy's window that starts at ``begin``, or in none."""
        windows = self.windows
        if window is not None and begin is not None and objects + deleted:
            before = windows.get(begin, Counted(0, 0, now))
            windows = _bounded({**windows, begin: before.with_more(objects, deleted)}, window)
        return Amount(
            self.objects + objects,
            self.deleted + deleted,
            min(self.since, now) if self.changes else now,  # an earlier process with a fast clock must not delay it
            max(0, min(windows)) if windows else self.window,
            self.marked or marked,
            windows,
        )

    def due(self, policy: CommitPolicy, now: float) -> str:
        """Return why a commit is due, in a word: ``marker``, ``objects``, ``seconds`` or ``window``; empty if none is."""
        if self.marked:
            return "marker"
        if not self.changes:
            return ""
        if policy.objects and self.changes >= policy.objects:
            return "objects"
        if policy.seconds and now >= self.since + policy.seconds:
            return "seconds"
        if policy.window is not None and now >= self._window_due(policy.window):
            return "window"
        return ""

    def due_at(self, policy: CommitPolicy) -> float | None:
        """Return the time (Unix seconds) when the clock makes a commit due, or did; None if it does not."""
        if not self.changes:
            return None
        times = [self.since + policy.seconds] if policy.seconds else []
        if policy.window is not None:
            times.append(self._window_due(policy.window))
        return min(times, default=None)

    def late(self, policy: CommitPolicy, now: float) -> int:
        """Return for how many seconds a commit has been due by the clock; 0 if none is."""
        due = self.due_at(policy)
        return 0 if due is None else max(0, int(now - due))

    def named(self, window: Window, now: float) -> int:
        """Return the window after which a commit of this is named: the latest that is over, else the latest."""
        begins = [begin for begin, _ in self._by_window(window)]
        return max(
            (begin for begin in begins if now >= window.ends(begin)), default=max(begins, default=window.at(now))
        )

    def _window_due(self, window: Window) -> float:
        counted = list(self._by_window(window))
        waiting = [window.ends(begin) for begin, changes in counted if changes.waits(window, begin)]
        return min(waiting or (changes.since for _, changes in counted))

    def _by_window(self, window: Window) -> Iterator[tuple[int, Counted]]:
        """Yield the changes of each window. Changes not counted to one belong to that in which they were staged: the policy had
        no windows then, or a process of an earlier version has dropped them; that kept the latest window, even of objects in the
        future."""
        yield from self.windows.items()
        objects = self.objects - sum(changes.objects for changes in self.windows.values())
        deleted = self.deleted - sum(changes.deleted for changes in self.windows.values())
        if objects + deleted > 0:
            begin = window.at(self.since)
            if not self.windows and self.window != NO_WINDOW:
                begin = min(begin, self.window)
            yield begin, Counted(objects, deleted, self.since)


class Taken(msgspec.Struct, frozen=True):
    """The content of a commit in progress. Commits of one rule are numbered. ``operation`` is the ID of the one that works on it,
    if it was too much for one call. ``window`` is the beginning of the window that it is named after, if any.

    ``request`` is drawn for each, so that no commit is confused with another, even if the number repeats: the item was deleted,
    or the table restored. Processes of earlier versions have none.
    """

    number: int
    amount: Amount
    reason: str
    operation: str = ""
    window: int | None = None
    request: str = ""

    def request_id(self, rule_id: str) -> str:
        """Return the ID that identifies the commit (promise C4)."""
        return f"ingest-{rule_id}-{self.number}" + (f"-{self.request}" if self.request else "")


def take(pending: "Pending", policy: CommitPolicy, now: float) -> Taken | None:
    """Return the content of a commit to make now; None if none is due."""
    reason = pending.amount.due(policy, now)
    if not reason:
        return None
    window = None if policy.window is None or not pending.amount.changes else pending.amount.named(policy.window, now)
    return Taken(pending.number + 1, pending.amount, reason, window=window, request=token_hex(8))


class Ahead(msgspec.Struct, frozen=True):
    """An object whose window is too far in the future to wait for: its key, that window's beginning, and the time it came."""

    key: str
    window: int
    at: float


class Pending(msgspec.Struct, frozen=True):
    """The state of one rule. ``number`` is that of the last commit that began, ``ahead`` the last object that was dated too far
    in the future.

    ``reconciled`` (Unix seconds) is the time of the last reconciliation, plus the clocks' skew; 0: none. Until then events do not
    tell what the source holds. It is stored here since staging replaces this item: so a process that read it before the
    reconciliation began cannot stage after it unnoticed. Processes of earlier versions drop it, and then read the source no more
    than they ever did.
    """

    amount: Amount = Amount()
    taken: Taken | None = None
    number: int = 0
    version: int = 0
    ahead: Ahead | None = None
    reconciled: int = 0

    def wants_commit(self, policy: CommitPolicy, now: float) -> bool:
        """Return whether a commit is due, or has begun and is not known to be made."""
        return self.taken is not None or bool(self.amount.due(policy, now))

    def late(self, policy: CommitPolicy, now: float) -> int:
        """Return for how many seconds the clock has had a commit due that is not known to be made; 0 if none is."""
        late = self.amount.late(policy, now)
        return late if self.taken is None else max(late, self.taken.amount.late(policy, now))

    @property
    def is_empty(self) -> bool:
        """True if nothing is pending, and no commit is in progress."""
        return not self.amount.changes and not self.amount.marked and self.taken is None

    def stage_writes(self, uid: RepositoryUID, rule_id: str, before: "Pending") -> list[Write]:
        """Return the writes of a rule's state in a transaction that stages: two items at most, none if the state is that of
        ``before``."""
        if self == before:
            return []
        writes: list[Write] = [self.put_write(pending_key(uid, rule_id), before)]
        if before.is_empty and not self.is_empty:
            writes.append(mark_write(uid))
        return writes

    def put_write(self, key: Key, before: "Pending") -> Put:
        """Return the write that replaces ``before``, on condition that it is unchanged."""
        stored = msgspec.structs.replace(self, version=before.version + 1)
        condition: Condition = Matches({"version": before.version}) if before.version else Absent()
        return Put(key, {"pending": msgspec.msgpack.encode(stored), "version": stored.version}, condition)


def pending_key(uid: RepositoryUID, rule_id: str) -> Key:
    """Return the key of a rule's state."""
    return Key(f"{uid}/ingest/pending", rule_id.encode())


def decode_pending(key: Key, item: Item | None) -> Pending:
    """Return the state that the item under a key holds. :class:`CorruptError`."""
    if item is None:
        return Pending()
    packed = item.get("pending")
    try:
        return msgspec.msgpack.decode(packed if isinstance(packed, bytes) else b"", type=Pending)
    except UNREADABLE as error:
        raise CorruptError(
            f"the state of an ingest rule cannot be read: {error}; delete its item from the table (partition "
            f"{key.partition}, sort key {key.sort.decode()}), and commit the rule's branch"
        ) from None


def _bounded(windows: Mapping[int, Counted], window: Window) -> Mapping[int, Counted]:
    """Return the same with at most the allowed number of windows. It delays nothing that waits: late ones have no due time of
    their own, and of the others the oldest is due first, and takes the youngest along."""
    if len(windows) <= MAX_WINDOWS:
        return windows
    begins = sorted(windows)
    late = [begin for begin in begins if not windows[begin].waits(window, begin)]
    joined = late[:2] if len(late) > 1 else begins[-2:]
    older, younger = (windows[begin] for begin in joined)
    since = max(older.since, younger.since) if len(late) > 1 else min(older.since, younger.since)
    whole = Counted(older.objects + younger.objects, older.deleted + younger.deleted, since)
    return {**{begin: windows[begin] for begin in begins if begin not in joined}, joined[-1]: whole}


def change_pending(tables: Tables, clock: Clock, key: Key, change: Callable[[Pending], Pending | None]) -> bool:
    """Replace a rule's state by the result of ``change``, unless that is None; return False under too much contention. One table
    read and one write, again after losing a race. :class:`CorruptError`."""
    backoff = Backoff(clock)
    while True:
        before = decode_pending(key, tables.get(key))
        after = change(before)
        if after is None:
            return True
        write = after.put_write(key, before)
        try:
            tables.put(write.key, write.item, write.condition)
        except ConditionFailedError:
            if not backoff.wait():
                return False
        else:
            return True
