"""Updates of a table's snapshots, refs and statistics, and the log of current snapshots."""

from typing import Final

from graveler.errors import InvalidError
from graveler.table_format.drafts import TableDraft
from graveler.table_format.plain_documents import Document
from graveler.table_format.snapshot_merges import EXPIRED_FIELD, expired_snapshots, with_expired
from graveler.table_format.table_metadata import MAIN, ROW_LINEAGE_VERSION, current_snapshot_id, no_snapshot
from graveler.table_format.table_requirements import RequirementError

MAX_CLOCK_SKEW_MS: Final = 24 * 60 * 60 * 1_000
"""The time by which a snapshot may be ahead of its commit. All later changes of the table have at least its time."""

_OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
_MAX_STEP: Final = 1 << 32
"""The most by which a sequence number may rise: a writer that used them up would end all commits of the table."""

_REF_FIELDS_OF_BRANCHES: Final = ("min-snapshots-to-keep", "max-snapshot-age-ms")


def add_snapshot(draft: TableDraft, update: Document) -> None:
    """Add a snapshot. Raises :class:`RequirementError` for one whose sequence number or first row ID is old, so that the client
    builds it again from the present table, and :class:`~graveler.errors.InvalidError` for one that is not valid."""
    snapshot: Document = update["snapshot"]
    fields = draft.fields
    for name, words in (
        ("schemas", "a schema"),
        ("partition-specs", "a partition spec"),
        ("sort-orders", "a sort order"),
    ):
        if not fields[name]:
            raise InvalidError(f"Attempting to add a snapshot before {words} is added; add it first")
    snapshot_id = snapshot["snapshot-id"]
    if snapshot_id in draft.by_snapshot("snapshots"):
        raise InvalidError(f"Snapshot already exists for id: {snapshot_id}; use another ID")
    if snapshot.get("manifest-list") is None and (draft.version > 1 or snapshot.get("manifests") is None):
        raise InvalidError(f"Snapshot {snapshot_id} has no manifest-list; add it")
    if snapshot["timestamp-ms"] > draft.time_ms + MAX_CLOCK_SKEW_MS:
        raise InvalidError(
            f"Invalid snapshot timestamp {snapshot['timestamp-ms']}: over a day after {draft.time_ms}; correct the writer's clock"
        )
    operation = (snapshot.get("summary") or {}).get("operation", "append")
    if operation not in _OPERATIONS:
        raise InvalidError(
            f"Invalid operation of snapshot {snapshot_id}: {operation[:40]!r}; use one of {', '.join(_OPERATIONS)}"
        )
    if draft.version == 1:
        if snapshot.get("sequence-number"):
            raise InvalidError(
                f"Sequence number must be 0 in v1: {snapshot['sequence-number']}; upgrade the table first"
            )
        snapshot = {name: value for name, value in snapshot.items() if name != "sequence-number"}
    else:
        _check_sequence_number(draft, snapshot)
        fields["last-sequence-number"] = max(fields["last-sequence-number"], snapshot.get("sequence-number") or 0)
    if snapshot.get("first-row-id") is not None and snapshot.get("added-rows") is None:
        raise InvalidError("Invalid added-rows (required when first-row-id is set): null; add it")
    if draft.version >= ROW_LINEAGE_VERSION:
        _check_row_ids(draft, snapshot)
        fields["next-row-id"] = _row_id_after(draft, snapshot)
    draft.change_by_snapshot("snapshots")[snapshot_id] = snapshot
    draft.added_snapshots[snapshot_id] = snapshot
    draft.note_time(snapshot["timestamp-ms"])


def _check_sequence_number(draft: TableDraft, snapshot: Document) -> None:
    number, last = snapshot.get("sequence-number") or 0, draft.fields["last-sequence-number"]
    if number - last > _MAX_STEP:
        raise InvalidError(f"Sequence number {number} is far above the table's last, {last}; use {last + 1}")
    # A table that is replaced gets a snapshot without a parent: another one that was built on the same state may have its number.
    if number > last or (number == last and snapshot.get("parent-snapshot-id") is None):
        return
    raise RequirementError(
        f"Validation failed, please retry: Cannot add snapshot with sequence number {number} older than last sequence number "
        f"{last}"
    )


def _check_row_ids(draft: TableDraft, snapshot: Document) -> None:
    row_id, following = snapshot.get("first-row-id"), draft.fields["next-row-id"]
    if row_id is None:
        raise InvalidError("Cannot add a snapshot: first-row-id is null; it must be set from format version 3 on")
    if row_id < following:
        raise RequirementError(
            f"Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table next-row-id: {row_id} < "
            f"{following}"
        )


def _row_id_after(draft: TableDraft, snapshot: Document) -> int:
    following: int = max(draft.fields["next-row-id"], snapshot["first-row-id"]) + snapshot["added-rows"]
    if following >= 2**63:
        raise InvalidError(f"Cannot add a snapshot: its rows end at ID {following}, above 2^63; correct first-row-id")
    return following


def set_snapshot_ref(draft: TableDraft, update: Document) -> None:
    """Set a branch or a tag; ``main`` also sets the current snapshot.

    Raises :class:`~graveler.errors.InvalidError` for an unknown snapshot, and for a tag that is named ``main`` or has fields of
    branches.
    """
    name, snapshot_id = update["ref-name"], update["snapshot-id"]
    ref = {key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None}
    if snapshot_id not in draft.by_snapshot("snapshots"):
        raise InvalidError(f"Cannot set {name} to unknown snapshot: {snapshot_id}; add the snapshot first")
    if draft.fields["refs"].get(name) == ref:
        return
    if ref["type"] == "tag":
        if name == MAIN:
            raise InvalidError(f"{MAIN} must be a branch; choose another name for the tag")
        surplus = [key for key in _REF_FIELDS_OF_BRANCHES if key in ref]
        if surplus:
            raise InvalidError(f"Tags do not support setting {surplus[0]}; leave it out")
    if snapshot_id in draft.added_snapshots:
        draft.note_time(draft.added_snapshots[snapshot_id]["timestamp-ms"])
    if name == MAIN:
        draft.put("current-snapshot-id", snapshot_id)
        draft.main_snapshots.append(snapshot_id)
        if draft.updated_ms is None:
            draft.note_time(draft.time_ms)
        entry = {"timestamp-ms": draft.commit_time_ms(), "snapshot-id": snapshot_id}
        draft.change_list("snapshot-log").append(entry)
    draft.change_map("refs")[name] = ref


def remove_snapshot_ref(draft: TableDraft, update: Document) -> None:
    """Remove a branch or a tag, if it exists. Without ``main`` a table has no current snapshot."""
    _remove_refs(draft, [update["ref-name"]])


def _remove_refs(draft: TableDraft, names: list[str]) -> None:
    present = [name for name in names if name in draft.fields["refs"]]
    for name in present:
        del draft.change_map("refs")[name]
    if MAIN in present:
        draft.put("current-snapshot-id", no_snapshot(draft.version))


def remove_snapshots(draft: TableDraft, update: Document) -> None:
    """Remove snapshots, with their refs and statistics. Unknown IDs are ignored."""
    for snapshot_id in set(update["snapshot-ids"]) & draft.by_snapshot("snapshots").keys():
        draft.removed_snapshots.append(draft.change_by_snapshot("snapshots").pop(snapshot_id))
        for name in ("statistics", "partition-statistics"):
            _remove_file(draft, name, snapshot_id)


def set_statistics(draft: TableDraft, update: Document) -> None:
    """Set the file of statistics of a snapshot."""
    _set_file(draft, "statistics", update["statistics"])


def set_partition_statistics(draft: TableDraft, update: Document) -> None:
    """Set the file of a snapshot's statistics of partitions."""
    _set_file(draft, "partition-statistics", update["partition-statistics"])


def _set_file(draft: TableDraft, name: str, file: Document) -> None:
    snapshot_id = file["snapshot-id"]
    if draft.by_snapshot(name).get(snapshot_id) != file:
        draft.change_by_snapshot(name).pop(snapshot_id, None)
        draft.change_by_snapshot(name)[snapshot_id] = file


def remove_statistics(draft: TableDraft, update: Document) -> None:
    """Remove the file of statistics of a snapshot, if it has one."""
    _remove_file(draft, "statistics", update["snapshot-id"])


def remove_partition_statistics(draft: TableDraft, update: Document) -> None:
    """Remove the file of a snapshot's statistics of partitions, if it has one."""
    _remove_file(draft, "partition-statistics", update["snapshot-id"])


def _remove_file(draft: TableDraft, name: str, snapshot_id: int) -> None:
    if snapshot_id in draft.by_snapshot(name):
        del draft.change_by_snapshot(name)[snapshot_id]


def finish_snapshots(draft: TableDraft) -> None:
    """Write what changed by snapshot, note removed snapshots and remove their refs, and correct the log of current ones."""
    if draft.removed_snapshots:
        snapshots = draft.by_snapshot("snapshots")
        draft.replace_list(EXPIRED_FIELD, with_expired(expired_snapshots(draft.fields), draft.removed_snapshots))
        _remove_refs(draft, [name for name, ref in draft.fields["refs"].items() if ref["snapshot-id"] not in snapshots])
    draft.write_indexes()
    _finish_log(draft, current_snapshot_id(draft.fields))


def _finish_log(draft: TableDraft, current: int | None) -> None:
    """Remove from the log of current snapshots those that were current only within the commit, and all that is before a snapshot
    that does not exist any more: otherwise an earlier one would seem to have been current for its time, too."""
    between = {snapshot_id for snapshot_id in draft.main_snapshots if snapshot_id != current}
    between &= draft.added_snapshots.keys()
    if not between and not draft.removed_snapshots:
        return
    ids = draft.by_snapshot("snapshots")
    log: list[Document] = []
    for entry in draft.fields["snapshot-log"]:
        if entry["snapshot-id"] not in ids:
            if draft.removed_snapshots:
                log.clear()
        elif entry["snapshot-id"] not in between:
            log.append(entry)
    if log != draft.fields["snapshot-log"]:
        draft.replace_list("snapshot-log", log)
