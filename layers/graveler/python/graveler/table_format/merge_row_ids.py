"""Row IDs of a merged table (format version 3), which are unique among its rows.

A file's rows are numbered from its first row ID, but for those whose ID is in the file itself, because they were rewritten.
Files that the source added get new numbers, so what it rewrote may not hold numbers that it had given itself, unless these lie
apart from all that the destination has. A compaction that may hold such numbers is left out, as it changed no row.
"""

from collections.abc import Iterable, Iterator, Set
from typing import Final

from msgspec import Struct

from graveler.model import TableReason
from graveler.table_format.live_files import DATA, LiveFile, Renumbered
from graveler.table_format.manifests import record_of
from graveler.table_format.merge_reading import snapshot_ids, snapshots_since, written_schema
from graveler.table_format.merge_results import MAX_FILES
from graveler.table_format.merge_sides import SideChanges
from graveler.table_format.plain_documents import Document
from graveler.table_format.reserved_columns import ROW_ID
from graveler.table_format.schema_rules import columns
from graveler.table_format.snapshot_merges import SOURCE_FIELD
from graveler.table_format.table_metadata import ROW_LINEAGE_VERSION, current_snapshot_id, snapshot_by_id

REWRITTEN_ROWS: Final = "graveler.rewritten-rows"
"""The field in the summary of a merged snapshot whose added files may have row IDs in themselves, although it is an append."""

_ALL: Final = 0, 1 << 63
"""The range of all row IDs."""
_METRICS_PROPERTY: Final = "write.metadata.metrics.default"
_UNCOUNTED: Final = "unknown", "variant", "geometry", "geography"
"""Types whose values not every writer counts."""


class RowIds(Struct, frozen=True):
    """``keeps_all`` is whether files of the source keep their row IDs; otherwise only those do whose IDs lie below ``floor``. The
    merged snapshot's IDs begin at ``start``. ``compactions`` are those of the source, by snapshot, that cannot stay.
    ``is_rewritten`` is whether files that come from the source may have row IDs in themselves."""

    keeps_all: bool
    floor: int
    start: int
    conflicts: tuple[TableReason, ...] = ()
    compactions: frozenset[int] = frozenset()
    is_rewritten: bool = False

    def of_added(self, file: LiveFile) -> int | None:
        """Return the first row ID of a file that comes from the source, or None if the merge gives it one."""
        number: int | None = file.entry.entry.first_row_id
        if number is None or file.content != DATA:
            return None
        return number if self.keeps_all or number + file.rows <= self.floor else None


def merge_row_ids(
    states: tuple[Document, Document, Document],
    source: SideChanges,
    destination: SideChanges,
    added: Iterable[LiveFile],
    by_source: Iterable[Renumbered],
    by_destination: Iterable[Renumbered],
) -> RowIds:
    """Return how a merge numbers rows. ``states`` are the metadata of base, source and destination; ``added`` the files that come
    from the source; the others those of the base that have other IDs at a side, after an earlier merge.

    Reads no file: row IDs in a file are derived by the bounds in its manifest. Without bounds, rewritten rows may have any.
    """
    next_ids = [state.get("next-row-id") or 0 for state in states]
    versions = [state["format-version"] for state in states]
    start = max(next_ids)
    if max(versions[1:]) < ROW_LINEAGE_VERSION:
        return RowIds(True, 0, 0)
    added = [file for file in added if file.content == DATA]
    contents = _FileContents(states, (source, destination))
    rewritten = [
        (file, row_ids)
        for file in added
        if versions[1] >= ROW_LINEAGE_VERSION
        and not contents.is_new(file)
        and (row_ids := contents.row_ids(file)) is not None
    ]
    is_rewritten = bool(rewritten)
    if (
        versions[1] < ROW_LINEAGE_VERSION or max(versions[0], versions[2]) < ROW_LINEAGE_VERSION
    ):  # only one side gave row IDs
        return RowIds(True, start, start, is_rewritten=is_rewritten)
    lowest_ids = [
        min([number for file in side.data_added() if (number := _first(file)) is not None], default=next_ids[index])
        for index, side in ((1, source), (2, destination))
    ]
    renumbered_ids = [
        number
        for pair in (*by_source, *by_destination)
        for file in (pair.before, pair.after)
        if _first(pair.before) != _first(pair.after) and (number := _first(file)) is not None
    ]
    foreign_ids = list(_foreign_ids(states, added))
    floor = min(next_ids[0], *renumbered_ids, *foreign_ids, lowest_ids[1]) if versions[2] >= ROW_LINEAGE_VERSION else 0
    starts = [
        min(
            _start(states[0], states[index], min(lowest_ids[index - 1], next_ids[index])),
            _lowest_in_files(states[0], states[index], side, contents),
        )
        for index, side in ((1, source), (2, destination))
    ]
    apart = next_ids[1] <= starts[1] or next_ids[2] <= starts[0] or next_ids[2] == starts[1]
    keeps_all = apart and floor >= next_ids[0] and not renumbered_ids
    if keeps_all:
        return RowIds(True, floor, start, is_rewritten=is_rewritten)
    compactions = {key: compaction.snapshot_id for compaction in source.compactions for key in compaction.added}
    occupied = (
        _occupied(source, destination, by_source, by_destination, contents) if _is_numbered(states[0]) else [_ALL]
    )
    suspicious = [
        file
        for file, row_ids in rewritten
        if (
            next_ids[1] - floor > file.rows if row_ids == _ALL else _meets(max(row_ids[0], floor), row_ids[1], occupied)
        )
    ]
    left_out = frozenset(compactions[file.key] for file in suspicious if file.key in compactions)
    if left_out or not suspicious:
        return RowIds(False, floor, start, compactions=left_out, is_rewritten=is_rewritten)
    rows = sum(file.rows for file in suspicious)
    conflict = TableReason(
        "row-ids",
        f"the source rewrote rows that it had added itself (files: {len(suspicious):,}, rows: {rows:,}), and their row IDs may "
        f"be those of other rows of the destination",
        files=tuple(sorted(file.path for file in suspicious)[:MAX_FILES]),
        source_rows=rows,
    )
    return RowIds(False, floor, start, (conflict,))


def _foreign_ids(states: tuple[Document, Document, Document], added: Iterable[LiveFile]) -> Iterator[int]:
    """Yield the first row IDs that snapshots of a side, or of the files that come from the source, gave. After an earlier merge a
    side may not have grown from the base, so it may have given IDs that the base has given to other rows, even if compactions
    have replaced the files that show it."""
    former = {snapshot["snapshot-id"] for snapshot in states[0]["snapshots"]}
    for state in states[1:]:
        for snapshot in state["snapshots"]:
            row_id = snapshot.get("first-row-id")
            if snapshot["snapshot-id"] not in former and row_id is not None and snapshot.get("added-rows"):
                yield row_id
    for file in added:
        if file.snapshot_id not in former and (number := _first(file)) is not None:
            yield number


def _first(file: LiveFile) -> int | None:
    number: int | None = file.entry.entry.first_row_id
    return number


def _start(base: Document, state: Document, lowest: int) -> int:
    """Return the lowest row ID that a side gave: its first snapshot's, if its history is whole, which may begin a block."""
    former = {snapshot["snapshot-id"] for snapshot in base["snapshots"]}
    snapshots = [snapshot for snapshot in state["snapshots"] if snapshot["snapshot-id"] not in former]
    firsts = [
        snapshot["first-row-id"]
        for snapshot in snapshots
        if snapshot.get("first-row-id") is not None and snapshot.get("added-rows")
    ]
    assigned = sum(snapshot.get("added-rows") or 0 for snapshot in snapshots)
    next_id = state.get("next-row-id") or 0
    if firsts and min(firsts) + assigned == next_id:
        return int(min(*firsts, lowest))
    return min(int(base.get("next-row-id") or 0), lowest)


def _is_numbered(base: Document) -> bool:
    """Return whether the rows of a base have row IDs. Otherwise, after an upgrade, each side has numbered them."""
    number = current_snapshot_id(base)
    snapshot = None if number is None else snapshot_by_id(base, number)
    return snapshot is None or snapshot.get("first-row-id") is not None


def _data_files(side: SideChanges) -> list[LiveFile]:
    """Return all data files that a side wrote, also by compactions."""
    added = [side.added, *(compaction.added for compaction in side.compactions)]
    return [file for files in added for file in files.values() if file.content == DATA]


def _lowest_in_files(base: Document, state: Document, side: SideChanges, contents: "_FileContents") -> int:
    """Return the lowest row ID that is in files that a side wrote, and not one of the base's. It may be none of those that the
    side's snapshots gave: one of an expired snapshot, or, after an earlier merge, of a third branch."""
    start = int(base.get("next-row-id") or 0)
    is_whole = _has_whole_history(base, state, contents.rewritten)
    lowest = _ALL[1]
    for file in _data_files(side):
        row_ids = None if contents.is_new(file) else contents.row_ids(file)
        if row_ids == _ALL and not is_whole:
            return start
        if row_ids is not None and row_ids != _ALL and row_ids[0] >= start:
            lowest = min(lowest, row_ids[0])
    return lowest


def _has_whole_history(base: Document, state: Document, rewritten: Set[int]) -> bool:
    """Return whether all snapshots of a side since the base are known, and none is a merge that brought rewritten rows."""
    former = snapshot_ids(base)
    line = snapshots_since(former, state)
    root = line[0].get("parent-snapshot-id") if line else current_snapshot_id(state)
    is_known = root in former or root == current_snapshot_id(base)
    return is_known and rewritten.isdisjoint(snapshot["snapshot-id"] for snapshot in line)


def _occupied(
    source: SideChanges,
    destination: SideChanges,
    by_source: Iterable[Renumbered],
    by_destination: Iterable[Renumbered],
    contents: "_FileContents",
) -> list[tuple[int, int]]:
    """Return ranges with all row IDs that the result can have, and the source's state has not for the same rows: those of files
    that the destination added, and the numbers of files of the base that the source compacted or numbered anew, or that the
    destination did."""
    new_files = _data_files(destination)
    source_files = set(source.added).union(*(compaction.added for compaction in source.compactions))
    numbered = [
        file
        for compaction in source.compactions
        for key, file in compaction.removed.items()
        if file.content == DATA and key not in source_files
    ]
    numbered += [pair.before for pair in by_source if _first(pair.before) != _first(pair.after)]
    numbered += [pair.after for pair in by_destination if _first(pair.before) != _first(pair.after)]
    ranges = [row_ids for file in new_files if (row_ids := contents.row_ids(file)) is not None]
    for file in (*new_files, *numbered):
        number = _first(file)
        if number is not None:
            ranges.append((number, number + file.rows))
    return ranges


class _FileContents:
    """The row IDs in files themselves, as far as the metrics of their columns and the snapshots that added them tell."""

    def __init__(self, states: tuple[Document, Document, Document], sides: Iterable[SideChanges]) -> None:
        self._schemas: dict[int, Document] = {}
        self.rewritten: set[int] = set()
        for state in states:
            schemas = {schema["schema-id"]: schema for schema in state["schemas"]}
            for snapshot in state["snapshots"]:
                schema = schemas.get(snapshot.get("schema-id"))
                summary = snapshot.get("summary") or {}
                if REWRITTEN_ROWS in summary:
                    self.rewritten.add(snapshot["snapshot-id"])
                if schema is not None and SOURCE_FIELD not in summary:
                    self._schemas[snapshot["snapshot-id"]] = schema
        self._appends = frozenset[int]().union(*(side.appends for side in sides)) - self.rewritten
        self._has_metrics = not any(
            str(state["properties"].get(_METRICS_PROPERTY, "")).lower() == "none" for state in states
        )
        self._columns: dict[int | str, frozenset[int]] = {}

    def is_new(self, file: LiveFile) -> bool:
        """Return whether all rows of a file are known to be new ones, which no file had before."""
        return file.snapshot_id in self._appends

    def row_ids(self, file: LiveFile) -> tuple[int, int] | None:
        """Return a range of all row IDs that are in a file itself; None if none are.

        None are in files of new rows, and in those without a column for them: of such a column there would be metrics where
        there are some of all others. Iceberg's writers may omit those of columns beyond the first hundred.
        """
        record = record_of(file.entry.entry)["data_file"]
        bounds = [
            int.from_bytes(bytes(bound["value"]), "little", signed=True)
            for name in ("lower_bounds", "upper_bounds")
            for bound in record.get(name) or ()
            if bound["key"] == ROW_ID
        ]
        if len(bounds) == 2:
            return bounds[0], bounds[1] + 1
        values, nulls = (
            {count["key"]: count["value"] for count in record.get(name) or ()}
            for name in ("value_counts", "null_value_counts")
        )
        if ROW_ID in values:
            return None if values[ROW_ID] == nulls.get(ROW_ID) else _ALL
        if self.is_new(file):
            return None
        return None if values and self._has_metrics and self._columns_of(file) <= values.keys() else _ALL

    def _columns_of(self, file: LiveFile) -> frozenset[int]:
        """Return the columns that have metrics in a file that has some of all columns."""
        schema = self._schemas.get(file.snapshot_id)
        key = file.entry.manifest.location if schema is None else file.snapshot_id
        counted = self._columns.get(key)
        if counted is None:
            schema = schema or written_schema(file.entry.manifest)
            counted = frozenset((ROW_ID,)) if schema is None else _counted_columns(schema)
            self._columns[key] = counted
        return counted


def _counted_columns(schema: Document) -> frozenset[int]:
    """Return the columns whose values all writers count: those of a primitive type, outside of lists and maps."""
    parts = {column.id for column in columns(schema) if column.field is None}
    counted = set()
    for column in columns(schema):
        if column.parent is not None and column.parent.id in parts:
            parts.add(column.id)
        elif column.id not in parts and isinstance(column.type, str) and not column.type.startswith(_UNCOUNTED):
            counted.add(column.id)
    return frozenset(counted)


def _meets(start: int, end: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in ranges) and start < end
