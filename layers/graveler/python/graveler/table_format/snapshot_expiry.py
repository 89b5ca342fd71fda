"""Snapshots of a table that have expired, by Iceberg's rules
(https://iceberg.apache.org/spec/#snapshot-retention-policy)."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from graveler.table_format.common_updates import number_property
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import MAIN

EXPIRE_PROPERTY: Final = "graveler-expire-snapshots"
"""A property of a table: ``true`` removes what has expired at each commit."""

_MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
_MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
_MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
_FIVE_DAYS_MS: Final = 5 * 24 * 60 * 60 * 1_000
_FOREVER_MS: Final = 2**63 - 1


class ExpiredSnapshots(Struct, frozen=True):
    """The snapshots of a table that have expired, by ID in ascending order, and its branches and tags that have, by name."""

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...] = ()

    @property
    def updates(self) -> list[Document]:
        """The updates that remove them; none if nothing has expired."""
        updates: list[Document] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in self.refs]
        if self.snapshot_ids:
            updates.append({"action": "remove-snapshots", "snapshot-ids": list(self.snapshot_ids)})
        return updates


def expired_snapshots(
    metadata: Document, now_ms: int, *, older_than_ms: int | None = None, keep_last: int | None = None
) -> ExpiredSnapshots:
    """Return what has expired in a table at a time (milliseconds since 1970).

    A branch keeps its snapshots from its last one back, until one was made before ``older_than_ms`` and at least ``keep_last``
    are kept; a tag keeps its snapshot; a snapshot of neither is kept while it is younger than that. A branch or tag with limits
    of its own has those. What is None is as the table's properties ``history.expire.*`` say: five days, and one snapshot. A
    branch or tag, but never ``main``, expires with the age of its last snapshot. :class:`~graveler.errors.InvalidError` for a
    property that is no number.
    """
    properties = metadata.get("properties") or {}
    if older_than_ms is None:
        older_than_ms = now_ms - number_property(properties, _MAX_AGE, _FIVE_DAYS_MS)
    if keep_last is None:
        keep_last = number_property(properties, _MIN_SNAPSHOTS, 1)
    longest = number_property(properties, _MAX_REF_AGE, _FOREVER_MS)
    by_id: dict[int, Document] = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    retained: set[int] = set()
    referenced: set[int] = set()
    expired: list[str] = []
    for name, ref in metadata.get("refs", {}).items():
        snapshot = by_id.get(ref["snapshot-id"])
        age = 0 if snapshot is None else now_ms - snapshot["timestamp-ms"]
        if name != MAIN and age > ref.get("max-ref-age-ms", longest):
            expired.append(name)
            continue
        if ref["type"] == "tag":
            retained.add(ref["snapshot-id"])
            referenced.add(ref["snapshot-id"])
            continue
        limit_ms = now_ms - ref["max-snapshot-age-ms"] if "max-snapshot-age-ms" in ref else older_than_ms
        history = list(_history(by_id, ref["snapshot-id"]))
        referenced.update(snapshot["snapshot-id"] for snapshot in history)
        retained.update(_retained_ids(history, limit_ms, ref.get("min-snapshots-to-keep", keep_last)))
    retained |= {
        number
        for number, snapshot in by_id.items()
        if number not in referenced and snapshot["timestamp-ms"] >= older_than_ms
    }
    return ExpiredSnapshots(tuple(sorted(by_id.keys() - retained)), tuple(sorted(expired)))


def _history(by_id: dict[int, Document], number: int | None) -> Iterator[Document]:
    """Yield a snapshot and those before it, the newest first, as far as the table has them."""
    passed: set[int] = set()
    while number in by_id and number not in passed:
        passed.add(number)
        yield by_id[number]
        number = by_id[number].get("parent-snapshot-id")


def _retained_ids(history: list[Document], limit_ms: int, least: int) -> Iterator[int]:
    """Yield the IDs of the snapshots that a branch keeps, at least that of its last one."""
    for position, snapshot in enumerate(history):
        if position >= max(1, least) and snapshot["timestamp-ms"] < limit_ms:
            return
        yield snapshot["snapshot-id"]
