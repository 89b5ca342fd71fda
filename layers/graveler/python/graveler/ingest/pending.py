"""What a rule has staged since its last commit, and whether a commit is due.

The counts are written in the transaction that stages, so they are exact whoever dies. A commit first takes them aside
(:attr:`Pending.taken`), and only then begins: what is staged meanwhile counts for the next one, and is never forgotten.
"""

from typing import Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError
from graveler.ingest.rules import CommitPolicy
from graveler.model import RepositoryUID
from graveler.storage.tables import Absent, Condition, Item, Key, Matches, Put

NO_WINDOW: Final = -1


class Amount(msgspec.Struct, frozen=True):
    """Changes that were staged. ``since`` (Unix seconds) is when the first was, ``window`` the beginning of the latest clock
    window among them, ``marked`` whether a marker came."""

    objects: int = 0
    deleted: int = 0
    since: float = 0.0
    window: int = NO_WINDOW
    marked: bool = False

    @property
    def changes(self) -> int:
        """Objects and deletes together."""
        return self.objects + self.deleted

    def with_more(self, objects: int, deleted: int, now: float, window: int, *, marked: bool) -> "Amount":
        """This and what is staged now."""
        return Amount(
            self.objects + objects,
            self.deleted + deleted,
            self.since if self.changes else now,
            max(self.window, window),
            self.marked or marked,
        )

    def due(self, policy: CommitPolicy, now: float) -> str:
        """Why a commit is due, in a word: ``marker``, ``objects``, ``seconds`` or ``window``; empty if none is."""
        if self.marked:
            return "marker"
        if not self.changes:
            return ""
        if policy.objects and self.changes >= policy.objects:
            return "objects"
        if policy.seconds and now - self.since >= policy.seconds:
            return "seconds"
        if policy.window is not None and self.window != NO_WINDOW and now >= policy.window.ends(self.window):
            return "window"
        return ""


class Taken(msgspec.Struct, frozen=True):
    """What a commit is being made of. Commits of one rule are numbered. ``operation`` is the ID of the one that works on it, if
    it was too much for one call."""

    number: int
    amount: Amount
    reason: str
    operation: str = ""


class Pending(msgspec.Struct, frozen=True):
    """The state of one rule. ``number`` is that of the last commit that began."""

    amount: Amount = Amount()
    taken: Taken | None = None
    number: int = 0
    version: int = 0

    def put_write(self, key: Key, before: "Pending") -> Put:
        """Replace ``before``, on condition that nobody did so meanwhile."""
        stored = msgspec.structs.replace(self, version=before.version + 1)
        condition: Condition = Matches({"version": before.version}) if before.version else Absent()
        return Put(key, {"pending": msgspec.msgpack.encode(stored), "version": stored.version}, condition)


def pending_key(uid: RepositoryUID, rule_id: str) -> Key:
    """Where the state of a rule is."""
    return Key(f"{uid}/ingest/pending", rule_id.encode())


def decode_pending(item: Item | None) -> Pending:
    """The state that an item holds. :class:`CorruptError`."""
    if item is None:
        return Pending()
    packed = item.get("pending")
    try:
        return msgspec.msgpack.decode(packed if isinstance(packed, bytes) else b"", type=Pending)
    except UNREADABLE as error:
        raise CorruptError(
            f"the state of an ingest rule cannot be read: {error}; delete that item, and commit"
        ) from None
