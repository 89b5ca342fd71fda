"""The last ingested event of each object. By it a repeated event changes nothing, and an older one does no harm.

An item per rule and key holds the sequencer of the newest applied event. It is written in one transaction with the change itself,
on condition that it is unchanged since it was read. So no concurrent process applies an event over a newer one, and one that dies
in between has done both or neither.

Items expire after :data:`KEEP`: queues keep no message that long. Replaying older records could then undo newer events; reconcile
instead.
"""

from typing import Final

import msgspec
from msgspec import Struct
from xxhash import xxh64_intdigest

from graveler.errors import CorruptError
from graveler.model import RepositoryUID
from graveler.storage.tables.port import Absent, Item, Key, Matches, Put, Value

KEEP: Final = 60 * 86_400
"""Seconds for which the last event of an object is kept; queues keep messages for 14 days, twice at most."""

BEFORE_ALL: Final = "-"
"""A sequencer less than any event's: for what reconciliation found without an event."""

_SHARDS: Final = 16


class Seen(Struct, frozen=True):
    """The newest event of a key: its sequencer in canonical form, whether the object existed after it, and its ETag.

    Times are Unix seconds. ``modified`` is that of the object which reconciliation has found since; None if it has not.
    ``marked`` is that of the newest marker of this key that was counted, 0 if none was; None for other keys, and in items of
    earlier versions.
    """

    sequencer: str
    present: bool
    etag: str = ""
    modified: int | None = None
    marked: int | None = None


class Ledger:
    """The location of one rule's last events. Makes no requests: the caller reads and writes these with the rest."""

    def __init__(self, uid: RepositoryUID, rule_id: str) -> None:
        self._partition = f"{uid}/ingest/seen/{rule_id}"

    def key(self, key: str) -> Key:
        """Return the key of an object's last event."""
        raw = key.encode()
        return Key(f"{self._partition}/{xxh64_intdigest(raw) % _SHARDS}", raw)

    def partitions(self) -> list[str]:
        """Return the partitions of all of them."""
        return [f"{self._partition}/{shard}" for shard in range(_SHARDS)]

    def put_write(self, key: str, event: Seen, before: Seen | None, now: float, *, for_good: bool) -> Put:
        """Return the write that records an event, on condition that the last one is still ``before``. ``for_good``: it never
        expires."""
        item: dict[str, Value] = {"sequencer": event.sequencer, "present": event.present, "etag": event.etag}
        if event.modified is not None:
            item["modified"] = event.modified
        if event.marked is not None:
            item["marked"] = event.marked
        if not for_good:
            item["expires"] = int(now) + KEEP
        condition = Absent() if before is None else Matches({"sequencer": before.sequencer})
        return Put(self.key(key), item, condition)


def decode_seen(item: Item | None) -> Seen | None:
    """Return the last event that an item holds. :class:`CorruptError`."""
    if item is None:
        return None
    try:
        return msgspec.convert({name: value for name, value in item.items() if name in _FIELDS}, Seen)
    except msgspec.ValidationError as error:
        raise CorruptError(
            f"an item of the ingest ledger contains {dict(item)!r}: {error}; delete it, and reconcile the rule"
        ) from None


_FIELDS: Final = frozenset(Seen.__struct_fields__)
