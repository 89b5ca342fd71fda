"""Merges of branches, as the snapshots that they made in a table tell them, and as the table notes those that have expired."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from graveler.table_format.plain_documents import Document

SOURCE_FIELD: Final = "graveler.source-snapshot-id"
BASE_FIELD: Final = "graveler.base-snapshot-id"
DETACHED_FIELD: Final = "graveler.detached"
WORK_FIELD: Final = "graveler.source-snapshot-ids"
EXPIRED_FIELD: Final = "graveler.expired-snapshots"
"""A field of a table's metadata: notes of snapshots that expired, oldest first. Each has the ID, and a summary if the snapshot
did not only append: its operation, and what a merge without a common commit brought."""
MAX_EXPIRED: Final = 1_000
"""The number of expired snapshots that a table notes: those that expired last."""


class SnapshotMerge(NamedTuple):
    """The merge that made a snapshot: the current snapshots of its base and its source, those of the source since the base
    (oldest first), and whether it left no common commit."""

    base: str
    source: str
    work: Sequence[str]
    is_detached: bool


def merge_of(snapshot: Document) -> SnapshotMerge | None:
    """Return the merge that made a snapshot; None for any other snapshot."""
    fields = snapshot.get("summary") or {}
    if BASE_FIELD not in fields:
        return None
    work = [part for part in str(fields.get(WORK_FIELD, "")).split(",") if part]
    return SnapshotMerge(fields[BASE_FIELD], fields.get(SOURCE_FIELD, ""), work, DETACHED_FIELD in fields)


def is_detached(snapshot: Document) -> bool:
    """Return whether a merge made a snapshot that left no common commit: a squash merge, a cherry-pick or a revert."""
    merge = merge_of(snapshot)
    return merge is not None and merge.is_detached


def removes_files(snapshot: Document) -> bool:
    """Return whether a snapshot may have removed files, or rows by deletes."""
    return bool((snapshot.get("summary") or {}).get("operation", "append") != "append")


def expired_snapshots(metadata: Document) -> list[Document]:
    """Return the notes of a table's expired snapshots, oldest first."""
    return list(metadata.get(EXPIRED_FIELD) or ())


def with_expired(notes: Sequence[Document], snapshots: Iterable[Document]) -> list[Document]:
    """Return the notes of a table with those of snapshots that expire now."""
    ordered = sorted(
        snapshots, key=lambda part: (part.get("sequence-number") or 0, part["timestamp-ms"], part["snapshot-id"])
    )
    return with_notes(notes, map(_note, ordered))


def with_notes(notes: Sequence[Document], added: Iterable[Document]) -> list[Document]:
    """Return the notes of a table with those that are added, each snapshot once."""
    noted = {note["snapshot-id"] for note in notes}
    return [*notes, *(note for note in added if note["snapshot-id"] not in noted)][-MAX_EXPIRED:]


def _note(snapshot: Document) -> Document:
    names = ["operation"] if removes_files(snapshot) else []
    if is_detached(snapshot):
        names += [BASE_FIELD, SOURCE_FIELD, WORK_FIELD, DETACHED_FIELD]
    fields = snapshot.get("summary") or {}
    summary = {name: fields[name] for name in names if name in fields}
    return {"snapshot-id": snapshot["snapshot-id"], **({"summary": summary} if summary else {})}
