"""The merge of two states of a table with a common one: rows of both, in one new snapshot, or a conflict.

A merge compares *states*: it replays no snapshot, so expired, rolled back and rewritten histories merge alike. With states
``b`` (base), ``s`` (source) and ``d`` (destination), the live files become ``d − (b − s) + (s − b)``: the result of doing the
source's work after the destination's. Only manifests that differ are opened. Everything that is written is a function of the
three states and the terms, so a repeated merge writes the same bytes. The new files are named by these and by their contents.

A revert is the same function: the base is the commit that is reverted, the source its parent. Where the sides have work in common
since the base, the files are those since then (:mod:`graveler.table_format.merge_bases`).
"""

from hashlib import sha256
from typing import Any

from graveler.errors import CorruptError, InvalidError
from graveler.model import TableReason
from graveler.table_format.live_files import DATA, POSITION_DELETES, LiveFile, Partition, Renumbered
from graveler.table_format.merge_bases import base_of_new_table, common_state, conflicts_of_earlier_merges, merge_fields
from graveler.table_format.merge_circumstances import Circumstances
from graveler.table_format.merge_decisions import Decision, decide, is_isolated, without_compactions
from graveler.table_format.merge_files import MergedFiles, SequenceNumbers, merged_files, sequence_numbers
from graveler.table_format.merge_metadata import MetadataMerge, merge_metadata
from graveler.table_format.merge_reading import BaseCollectedError, MergeReader, StateFiles
from graveler.table_format.merge_results import (
    MAX_FILES,
    SERIALIZABLE,
    MergedTable,
    MergeResult,
    MergeTerms,
    OmittedCompaction,
    Side,
    SideSummary,
    SideTaken,
    TableConflicts,
    TableState,
    TableSummary,
    canonical,
)
from graveler.table_format.merge_row_ids import REWRITTEN_ROWS, RowIds, merge_row_ids
from graveler.table_format.merge_sides import SideChanges
from graveler.table_format.merge_writing import (
    MAX_NUMBER,
    RowIDLimitError,
    SnapshotNumbers,
    SnapshotWriter,
    WrittenSnapshot,
    snapshot_summary,
)
from graveler.table_format.metadata_log import extend_metadata_log
from graveler.table_format.partition_specs import source_ids
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.reached_files import added_files
from graveler.table_format.snapshot_merges import SOURCE_FIELD
from graveler.table_format.table_metadata import (
    MAIN,
    ROW_LINEAGE_VERSION,
    current_snapshot_id,
    encode_metadata,
    snapshot_by_id,
)

_NEW_TABLE = "choose a side, or copy the table's rows into a new table"


def merge_tables(
    base: TableState | None,
    source: TableState | None,
    destination: TableState | None,
    read_file: ReadFile,
    terms: MergeTerms,
) -> MergeResult:
    """Merge the states of a table at two commits; None is a table that does not exist there.

    Reads the manifest lists of the three, and the manifests that are not in all of them; for each compaction two more manifest
    lists, and the manifests that differ between them; and the files of position deletes whose positions are compared. Without a
    base, :func:`~graveler.table_format.merge_bases.base_of_new_table`. Writes nothing: the result has the files.

    Raises :class:`~graveler.errors.NotFoundError` for a missing file of source or destination. A missing one of the base, a
    damaged one, and one that cannot be written or a property that must be a number and is none are conflicts.
    """
    if base is None and source is not None and destination is not None:
        base = base_of_new_table(source, destination, read_file)
    if _location(source) in (_location(base), _location(destination)):
        return SideTaken("destination", destination)
    if _location(destination) == _location(base):
        return SideTaken("source", source)
    conflict = _whole_table_conflict(base, source, destination)
    if conflict is not None or base is None or source is None or destination is None:
        assert conflict is not None
        result: MergeResult = TableConflicts((conflict,))
    else:
        try:
            result = _Merge(base, source, destination, read_file, terms).run()
        except BaseCollectedError as error:
            sentence = (
                f"{error.location} of the common state {base.location} does not exist any more (it was collected, or expired), "
                f"so what each side changed is unknown; choose a side"
            )
            result = TableConflicts((TableReason("base", sentence, files=(error.location,)),))
        except (CorruptError, InvalidError) as error:
            sentence = f"the table can only be taken as it is at one side, because it cannot be merged: {error}"
            result = TableConflicts((TableReason("file" if isinstance(error, CorruptError) else "metadata", sentence),))
    if isinstance(result, TableConflicts) and terms.strategy is not None:
        if terms.strategy == "source-wins":
            return SideTaken("source", source, result.conflicts)
        return SideTaken("destination", destination, result.conflicts)
    return result


def _location(state: TableState | None) -> str | None:
    return None if state is None else state.location


def _whole_table_conflict(
    base: TableState | None, source: TableState | None, destination: TableState | None
) -> TableReason | None:
    if source is None or destination is None:
        dropper, changer = ("source", "destination") if source is None else ("destination", "source")
        return TableReason("table", f"the {dropper} dropped the table, and the {changer} changed it")
    uuids = [None if state is None else state.metadata.get("table-uuid") for state in (base, source, destination)]
    if base is None and uuids[1] == uuids[2]:
        sentence = "an earlier squash merge or cherry-pick brought the new table from one side to the other, and one of them has"
        return TableReason("table", f"{sentence} changed its metadata since; choose a side")
    if base is None:
        return TableReason("table", "both sides made a table of this name")
    if uuids[1] == uuids[2] == uuids[0]:
        return None
    if uuids[1] == uuids[2]:
        return TableReason("table", "both sides dropped the table and have another one of this name")
    maker, changer = ("source", "destination") if uuids[1] != uuids[0] else ("destination", "source")
    if uuids[2] != uuids[0] and uuids[1] != uuids[0]:
        return TableReason("table", "both sides dropped the table and made it anew")
    return TableReason("table", f"the {maker} dropped the table and made it anew, and the {changer} changed it")


class _Merge:
    """One merge of three states."""

    def __init__(
        self, base: TableState, source: TableState, destination: TableState, read_file: ReadFile, terms: MergeTerms
    ) -> None:
        self._states = base, source, destination
        self._terms = terms
        self._read_file = read_file
        self._reader = MergeReader(read_file, terms.read_positions)
        inputs = (
            *(state.location for state in self._states),
            terms.source_commit,
            terms.isolation or "",
            str(terms.is_detached),
            str(terms.attempt),
        )
        self._digest = sha256("\n".join(inputs).encode()).hexdigest()
        self._common = common_state(*self._states)
        self._sequences: SequenceNumbers

    def run(self) -> MergeResult:
        base, source, destination = (state.metadata for state in self._states)
        common, reader = self._common.metadata, self._reader
        base_files = reader.base_files(self._common)
        sides = [reader.state_files(state) for state in self._states[1:]]
        source_difference, destination_difference = (reader.difference(base_files, side) for side in sides)
        changes = (
            reader.changes(base_files, sides[0], sides[1], *source_difference[:2]),
            reader.changes(base_files, sides[1], sides[0], *destination_difference[:2]),
        )
        renumbered = source_difference[2], destination_difference[2]
        merge = merge_metadata(
            base,
            source,
            destination,
            source_adds_rows=bool(changes[0].data_added()),
            destination_adds_rows=bool(changes[1].data_added()),
        )
        copied = self._copied_snapshots(merge.metadata)
        self._sequences = sequence_numbers((common, source, destination), changes[0], copied)
        common_deletes = reader.common_deletes(base_files, sides[0], renumbered[0])
        decision = decide(*changes, self._circumstances(changes[0], *renumbered, common_deletes))
        files = MergedFiles((), (), (), ()) if decision.conflicts else merged_files(*changes, decision)
        row_ids = merge_row_ids((common, source, destination), *changes, files.added, *renumbered)
        while row_ids.compactions:
            decision = without_compactions(decision, changes[0], row_ids.compactions)
            files = merged_files(*changes, decision)
            row_ids = merge_row_ids((common, source, destination), *changes, files.added, *renumbered)
        added = source_difference[0], destination_difference[0]
        earlier = conflicts_of_earlier_merges(reader, self._common, self._states[1:], added, changes)
        conflicts = (
            *merge.conflicts,
            *decision.conflicts,
            *row_ids.conflicts,
            *self._format_conflicts(files),
            *earlier,
        )
        if conflicts:
            return TableConflicts(conflicts)
        return self._result(merge, changes, decision, files, row_ids, sides[1])

    def _format_conflicts(self, files: MergedFiles) -> list[TableReason]:
        """Return the conflicts of numbers and files that the format of the merged table has no place for."""
        if self._sequences.merged() > MAX_NUMBER:
            sentence = "the merged snapshot would have a sequence number above 2^63"
            return [TableReason("metadata", f"{sentence}; {_NEW_TABLE}")]
        return self._vector_conflicts(files)

    def _vector_conflicts(self, files: MergedFiles) -> list[TableReason]:
        """Version 3 has deletion vectors: no new file of position deletes may be added to it."""
        versions = [state.metadata["format-version"] for state in self._states[1:]]
        old = [file for file in files.added if file.content == POSITION_DELETES and not file.is_vector]
        if not old or versions[0] >= ROW_LINEAGE_VERSION or versions[1] < ROW_LINEAGE_VERSION:
            return []
        sentence = (
            "the source added position deletes of format version 2, and the destination upgraded the table to version 3, which "
            "has deletion vectors instead; upgrade the source, too, and rewrite its position deletes"
        )
        paths = tuple(file.path for file in old[:MAX_FILES])
        rows = sum(file.rows for file in old)
        return [TableReason("position-deletes", sentence, files=paths, source_rows=rows)]

    def _circumstances(
        self,
        source: SideChanges,
        by_source: tuple[Renumbered, ...],
        by_destination: tuple[Renumbered, ...],
        common_deletes: tuple[LiveFile, ...],
    ) -> Circumstances:
        isolated = (
            self._terms.isolation == SERIALIZABLE
            if self._terms.isolation
            else is_isolated(self._states[2].metadata["properties"], source)
        )
        names = {
            (tuple(source_ids(field)), field["transform"].lower()): field["name"]
            for field in (
                field
                for state in self._states
                for spec in state.metadata["partition-specs"]
                for field in spec["fields"]
            )
        }

        def text(partition: Partition) -> str:
            return "/".join(f"{names.get(field, field)}={_value_text(value)}" for field, value in partition)

        return Circumstances(
            isolated,
            self._sequences.base,
            self._sequences.of_added,
            self._reader.positions,
            text,
            by_source,
            by_destination,
            common_deletes,
            frozenset(
                snapshot["snapshot-id"]
                for state in self._states[1:]
                for snapshot in state.metadata["snapshots"]
                if SOURCE_FIELD in (snapshot.get("summary") or {})
            ),
            self._terms.missing_reader,
        )

    def _result(
        self,
        merge: MetadataMerge,
        changes: tuple[SideChanges, SideChanges],
        decision: Decision,
        files: MergedFiles,
        row_ids: RowIds,
        destination: StateFiles,
    ) -> MergeResult:
        metadata = dict(merge.metadata)
        written: WrittenSnapshot | None = None
        operation = ""
        copied = self._copied_snapshots(metadata)
        time_ms = min(MAX_NUMBER, 1 + max(state.metadata["last-updated-ms"] for state in self._states))
        if files:
            operation = _operation(files, changes[0])
            numbers = self._numbers(metadata)
            writer = SnapshotWriter(merge, numbers, self._sequences, row_ids, self._location)
            try:
                written = writer.write(files, destination, self._reader, self._reader.positions)
            except RowIDLimitError:
                sentence = f"the merged rows would have row IDs above 2^63; {_NEW_TABLE}"
                return TableConflicts((TableReason("row-ids", sentence),))
            self._add_snapshot(metadata, written, numbers, operation, row_ids, time_ms)
        elif copied and metadata["format-version"] > 1:
            metadata["last-sequence-number"] = self._sequences.merged()
        if metadata["format-version"] >= ROW_LINEAGE_VERSION:
            next_row_ids = [written.next_row_id if written else 0, metadata.get("next-row-id") or 0]
            if copied:
                next_row_ids.append(self._states[1].metadata.get("next-row-id") or 0)
            metadata["next-row-id"] = max(next_row_ids)
        summary = TableSummary(
            _side_summary(changes[0], merge.changes[0]),
            _side_summary(changes[1], merge.changes[1]),
            _omitted_compactions(changes, decision),
            operation,
            self._reader.opened,
        )
        if canonical(metadata) == canonical(self._states[2].metadata):
            return SideTaken("destination", self._states[2], summary=summary)
        self._log(metadata, time_ms)
        reached = [entry.path for entry in written.added] if written else []
        if copied:
            before = self._states[2].metadata
            with_copied = {**before, "snapshots": [*before["snapshots"], *copied]}
            reached += added_files(before, with_copied, self._read_file)
        reached += _statistics(metadata) - _statistics(self._states[2].metadata)
        contents = dict(written.files) if written else {}
        location = self._location(encode_metadata(metadata), ".metadata.json")
        return MergedTable(metadata, location, contents, tuple(sorted({*reached, *contents})), summary)

    def _copied_snapshots(self, metadata: Document) -> list[Document]:
        """Return the snapshots of merged metadata that the source has and the destination has not."""
        former = {snapshot["snapshot-id"] for snapshot in self._states[2].metadata["snapshots"]}
        return [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] not in former]

    def _location(self, contents: bytes, suffix: str) -> str:
        """Return the location of a new file: a function of this merge's inputs and of what the file has."""
        return f"{self._terms.folder}/{sha256(self._digest.encode() + contents).hexdigest()[:32]}{suffix}"

    def _numbers(self, metadata: Document) -> SnapshotNumbers:
        used = {snapshot["snapshot-id"] for state in self._states for snapshot in state.metadata["snapshots"]}
        count = 0
        while True:
            digest = sha256(f"{self._digest}\n{count}".encode()).digest()
            snapshot_id = int.from_bytes(digest[:8], "big") >> 1
            if snapshot_id not in used and snapshot_id:
                break
            count += 1
        sequence = self._sequences.merged() if metadata["format-version"] > 1 else 0
        return SnapshotNumbers(snapshot_id, current_snapshot_id(self._states[2].metadata), sequence)

    def _add_snapshot(
        self,
        metadata: Document,
        written: WrittenSnapshot,
        numbers: SnapshotNumbers,
        operation: str,
        row_ids: RowIds,
        time_ms: int,
    ) -> None:
        extra = {}
        if self._terms.source_commit:
            extra["graveler.source-commit"] = self._terms.source_commit
        extra |= merge_fields(self._common.metadata, self._states[1].metadata, detaches=self._terms.is_detached)
        if row_ids.is_rewritten:
            extra[REWRITTEN_ROWS] = "true"
        parent = None if numbers.parent_id is None else snapshot_by_id(self._states[2].metadata, numbers.parent_id)
        snapshot: Document = {"snapshot-id": numbers.snapshot_id}
        if numbers.parent_id is not None:
            snapshot["parent-snapshot-id"] = numbers.parent_id
        if metadata["format-version"] > 1:
            snapshot["sequence-number"] = metadata["last-sequence-number"] = numbers.sequence
        snapshot |= {
            "timestamp-ms": time_ms,
            "summary": snapshot_summary(written, parent, operation, extra),
            "manifest-list": written.manifest_list,
            "schema-id": metadata["current-schema-id"],
        }
        if metadata["format-version"] >= ROW_LINEAGE_VERSION:
            snapshot |= {"first-row-id": row_ids.start, "added-rows": written.next_row_id - row_ids.start}
        metadata["snapshots"] = [*metadata["snapshots"], snapshot]
        metadata["current-snapshot-id"] = numbers.snapshot_id
        main = metadata["refs"].get(MAIN) or {"type": "branch"}
        metadata["refs"] = {**metadata["refs"], MAIN: {**main, "snapshot-id": numbers.snapshot_id}}
        entry = {"snapshot-id": numbers.snapshot_id, "timestamp-ms": time_ms}
        metadata["snapshot-log"] = [*metadata["snapshot-log"], entry]

    def _log(self, metadata: Document, time_ms: int) -> None:
        former = self._states[2]
        entry = {"metadata-file": former.location, "timestamp-ms": former.metadata["last-updated-ms"]}
        metadata["metadata-log"] = extend_metadata_log(metadata["metadata-log"], entry, metadata["properties"])
        metadata["last-updated-ms"] = time_ms


def _value_text(value: Any) -> str:
    return "null" if value is None else value.hex() if isinstance(value, bytes) else str(value)


def _operation(files: MergedFiles, source: SideChanges) -> str:
    """Return the operation of the merged snapshot."""
    if not (source.added or source.removed):
        return "replace"
    adds_data = any(file.content == DATA for file in files.added)
    if files.removed or files.vectors or files.restored or any(file.content != DATA for file in files.added):
        return "overwrite" if adds_data else "delete"
    return "append"


def _side_summary(changes: SideChanges, metadata: tuple[str, ...]) -> SideSummary:
    added, removed = changes.data_added(), changes.data_removed()
    return SideSummary(
        len(added),
        sum(file.rows for file in added),
        len(removed),
        sum(file.rows for file in removed),
        len(changes.added) - len(added),
        len(changes.removed) - len(removed),
        metadata,
    )


def _omitted_compactions(changes: tuple[SideChanges, SideChanges], decision: Decision) -> tuple[OmittedCompaction, ...]:
    omitted = []
    sides: tuple[tuple[Side, SideChanges, Any], ...] = (
        ("source", changes[0], decision.source_compactions),
        ("destination", changes[1], decision.destination_compactions),
    )
    for side, side_changes, chosen in sides:
        for compaction in side_changes.compactions:
            if compaction not in chosen:
                files = compaction.removed.values()
                rows = sum(file.rows for file in files if file.content == DATA)
                omitted.append(OmittedCompaction(side, compaction.snapshot_id, len(files), rows))
    return tuple(omitted)


def _statistics(metadata: Document) -> set[str]:
    return {
        part["statistics-path"] for name in ("statistics", "partition-statistics") for part in metadata.get(name) or ()
    }
