"""What a rule has staged since its last commit, and whether a commit is due.

The counts are written in the transaction that stages, so they are exact whoever dies. A commit first takes them aside
(:attr:`Pending.taken`), and only then begins: what is staged meanwhile counts for the next one, and is never forgotten.

Clock windows are counted one by one. What came before its window was over *waits* for that, and is due then. What came later is
*late*: it joins the commit of a window that is waited for, and where there is none it is due at once. A commit takes all that is
staged, so the first window that is due takes the others along. docs/design/0007-windows-of-ingest.md has the reasons.

Processes of before know one window only, and drop the rest of what they write anew: :attr:`Amount.window` is there for them. What
they drop is not lost, but counts to the window in which it was staged: its commit may come earlier or later.
"""

from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError
from graveler.ingest.rules import CommitPolicy
from graveler.ingest.waiting import mark_write
from graveler.ingest.windows import Window
from graveler.model import RepositoryUID
from graveler.storage.tables import Absent, Condition, Item, Key, Matches, Put, Write

NO_WINDOW: Final = -1
"""In :attr:`Amount.window`: there is none."""

MAX_WINDOWS: Final = 100
"""Windows that are counted one by one. Where there are more, late ones are counted as one, and then the youngest of the others,
so that an item stays small: it is written with every transaction that stages."""


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """Changes of one window, and when (Unix seconds) the first of them was staged."""

    objects: int
    deleted: int
    since: float

    def with_more(self, objects: int, deleted: int) -> "Counted":
        """This and what is staged now."""
        return Counted(self.objects + objects, self.deleted + deleted, self.since)

    def waits(self, window: Window, begin: int) -> bool:
        """Was the first of them on time?"""
        return self.since < window.ends(begin)


class Amount(msgspec.Struct, frozen=True):
    """Changes that were staged. ``since`` (Unix seconds) is when the first was, ``marked`` whether a marker came. ``windows`` has
    those of them that belong to clock windows, by the window's beginning. ``window`` is the oldest of these, for processes of
    before, which know no other and none before 1970."""

    objects: int = 0
    deleted: int = 0
    since: float = 0.0
    window: int = NO_WINDOW
    marked: bool = False
    windows: Mapping[int, Counted] = {}

    @property
    def changes(self) -> int:
        """Objects and deletes together."""
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
        """This and what is staged now, of one of the policy's windows (which ``begin`` says) or of none."""
        windows = self.windows
        if window is not None and begin is not None and objects + deleted:
            before = windows.get(begin, Counted(0, 0, now))
            windows = _bounded({**windows, begin: before.with_more(objects, deleted)}, window)
        return Amount(
            self.objects + objects,
            self.deleted + deleted,
            min(self.since, now) if self.changes else now,  # whose clock was ahead delays nothing any more
            max(0, min(windows)) if windows else self.window,
            self.marked or marked,
            windows,
        )

    def due(self, policy: CommitPolicy, now: float) -> str:
        """Why a commit is due, in a word: ``marker``, ``objects``, ``seconds`` or ``window``; empty if none is."""
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
        """When (Unix seconds) the clock makes a commit due, or did; None if it does not."""
        if not self.changes:
            return None
        times = [self.since + policy.seconds] if policy.seconds else []
        if policy.window is not None:
            times.append(self._window_due(policy.window))
        return min(times, default=None)

    def late(self, policy: CommitPolicy, now: float) -> int:
        """For how many seconds a commit has been due by the clock; 0 if none is."""
        due = self.due_at(policy)
        return 0 if due is None else max(0, int(now - due))

    def named(self, window: Window, now: float) -> int:
        """The window that a commit of this is named after: the latest that is over, else the latest."""
        begins = [begin for begin, _ in self._by_window(window)]
        return max(
            (begin for begin in begins if now >= window.ends(begin)), default=max(begins, default=window.at(now))
        )

    def _window_due(self, window: Window) -> float:
        counted = list(self._by_window(window))
        waiting = [window.ends(begin) for begin, found in counted if found.waits(window, begin)]
        return min(waiting or (found.since for _, found in counted))

    def _by_window(self, window: Window) -> Iterator[tuple[int, Counted]]:
        """The changes of each window. What nobody counted to one belongs to that in which it was staged: the policy had no
        windows then, or a process of before has dropped them; that kept the latest window, of objects in the future too."""
        yield from self.windows.items()
        objects = self.objects - sum(found.objects for found in self.windows.values())
        deleted = self.deleted - sum(found.deleted for found in self.windows.values())
        if objects + deleted > 0:
            begin = window.at(self.since)
            if not self.windows and self.window != NO_WINDOW:
                begin = min(begin, self.window)
            yield begin, Counted(objects, deleted, self.since)


class Taken(msgspec.Struct, frozen=True):
    """What a commit is being made of. Commits of one rule are numbered. ``operation`` is the ID of the one that works on it, if
    it was too much for one call. ``window`` is the beginning of the window that it is named after, if any.

    ``request`` is drawn for each, so that no commit is taken for another one, although the number may be one of before: the
    item was deleted, or the table restored. Processes of before have none."""

    number: int
    amount: Amount
    reason: str
    operation: str = ""
    window: int | None = None
    request: str = ""

    def request_id(self, rule_id: str) -> str:
        """What the commit is known by (promise C4)."""
        return f"ingest-{rule_id}-{self.number}" + (f"-{self.request}" if self.request else "")


def take(pending: "Pending", policy: CommitPolicy, now: float) -> Taken | None:
    """What a commit is to be made of now; None if none is due."""
    reason = pending.amount.due(policy, now)
    if not reason:
        return None
    window = None if policy.window is None or not pending.amount.changes else pending.amount.named(policy.window, now)
    return Taken(pending.number + 1, pending.amount, reason, window=window, request=token_hex(8))


class Ahead(msgspec.Struct, frozen=True):
    """An object whose window is too far in the future to be waited for: its key, that window's beginning, and when it came."""

    key: str
    window: int
    at: float


class Pending(msgspec.Struct, frozen=True):
    """The state of one rule. ``number`` is that of the last commit that began, ``ahead`` the last object that was dated too far
    in the future.

    ``reconciled`` (Unix seconds) is when the source was last compared with the branch, and the clocks' skew more; 0: it was not.
    Until then events do not say what the source holds. It is here since whoever stages replaces this item: so a process that has
    read it before the comparing began does not stage behind its back. Processes of before drop it, and ask the source no more
    than they ever did."""

    amount: Amount = Amount()
    taken: Taken | None = None
    number: int = 0
    version: int = 0
    ahead: Ahead | None = None
    reconciled: int = 0

    def wants_commit(self, policy: CommitPolicy, now: float) -> bool:
        """Is there a commit to make, or one that began and is not known to be made?"""
        return self.taken is not None or bool(self.amount.due(policy, now))

    def late(self, policy: CommitPolicy, now: float) -> int:
        """For how many seconds the clock has had a commit due that is not known to be made; 0 if there is none."""
        late = self.amount.late(policy, now)
        return late if self.taken is None else max(late, self.taken.amount.late(policy, now))

    @property
    def is_empty(self) -> bool:
        """Is nothing pending, and no commit being made?"""
        return not self.amount.changes and not self.amount.marked and self.taken is None

    def stage_writes(self, uid: RepositoryUID, rule_id: str, before: "Pending") -> list[Write]:
        """What a transaction that stages writes of the state of a rule: two items at most, none if the state is that of
        ``before``."""
        if self == before:
            return []
        writes: list[Write] = [self.put_write(pending_key(uid, rule_id), before)]
        if before.is_empty and not self.is_empty:
            writes.append(mark_write(uid))
        return writes

    def put_write(self, key: Key, before: "Pending") -> Put:
        """Replace ``before``, on condition that nobody did so meanwhile."""
        stored = msgspec.structs.replace(self, version=before.version + 1)
        condition: Condition = Matches({"version": before.version}) if before.version else Absent()
        return Put(key, {"pending": msgspec.msgpack.encode(stored), "version": stored.version}, condition)


def pending_key(uid: RepositoryUID, rule_id: str) -> Key:
    """Where the state of a rule is."""
    return Key(f"{uid}/ingest/pending", rule_id.encode())


def decode_pending(key: Key, item: Item | None) -> Pending:
    """The state that the item under a key holds. :class:`CorruptError`."""
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
    """The same in so many windows at most. It puts off nothing that waits: late ones are due at no time of their own, and of the
    others the oldest is due first, and takes the youngest along."""
    if len(windows) <= MAX_WINDOWS:
        return windows
    begins = sorted(windows)
    late = [begin for begin in begins if not windows[begin].waits(window, begin)]
    joined = late[:2] if len(late) > 1 else begins[-2:]
    one, other = (windows[begin] for begin in joined)
    since = max(one.since, other.since) if len(late) > 1 else min(one.since, other.since)
    whole = Counted(one.objects + other.objects, one.deleted + other.deleted, since)
    return {**{begin: windows[begin] for begin in begins if begin not in joined}, joined[-1]: whole}
