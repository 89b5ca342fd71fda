"""Row IDs of a merged table (format version 3): no two rows have one.

A file's rows are numbered from its first row ID, but for those whose ID is in the file itself, because they were rewritten.
Files that the source added get new numbers, so what it rewrote may not hold numbers that it had given itself, unless these lie
apart from all that the destination gave.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from graveler.table_format.live_files import DATA, LiveFile, Renumbered
from graveler.table_format.manifests import record_of
from graveler.table_format.merge_results import MAX_FILES, TableConflict
from graveler.table_format.merge_sides import SideChanges
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import ROW_LINEAGE_VERSION

_ROW_ID: Final = 2147483540
"""ID of the column that has the row IDs of rewritten rows."""


class RowIds(Struct, frozen=True):
    """``keeps_all`` is whether files of the source keep their row IDs; otherwise only those do whose IDs lie below ``floor``. The
    merged snapshot's IDs begin at ``start``."""

    keeps_all: bool
    floor: int
    start: int
    conflicts: tuple[TableConflict, ...] = ()

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
    if versions[1] < ROW_LINEAGE_VERSION:
        return RowIds(True, start, start)
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
    added = list(added)
    foreign_ids = list(_foreign_ids(states, added))
    floor = min(next_ids[0], *renumbered_ids, *foreign_ids, lowest_ids[1]) if versions[2] >= ROW_LINEAGE_VERSION else 0
    starts = [_start(states[0], states[index], min(lowest_ids[index - 1], next_ids[index])) for index in (1, 2)]
    apart = next_ids[1] <= starts[1] or next_ids[2] <= starts[0] or next_ids[2] == starts[1]
    keeps_all = apart and floor >= next_ids[0] and not renumbered_ids
    if keeps_all:
        return RowIds(True, floor, start)
    derived = {file.key: file for file in source.derived()}
    suspicious = [
        file
        for file in added
        if file.content == DATA and file.key in derived and _may_hold(file, floor, next_ids[1] - floor)
    ]
    if not suspicious:
        return RowIds(False, floor, start)
    rows = sum(file.rows for file in suspicious)
    conflict = TableConflict(
        "row-ids",
        f"the source rewrote rows which it had itself added ({len(suspicious):,} files, {rows:,} rows): their row IDs are those "
        f"of rows that the destination added",
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
        if file.content == DATA and file.snapshot_id not in former and (number := _first(file)) is not None:
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


def _may_hold(file: LiveFile, floor: int, numbered_rows: int) -> bool:
    record = record_of(file.entry.entry)["data_file"]
    for bound in record.get("upper_bounds") or ():
        if bound["key"] == _ROW_ID:
            return int.from_bytes(bytes(bound["value"]), "little", signed=True) >= floor
    if any(count["key"] == _ROW_ID for count in record.get("value_counts") or ()) or not record.get("value_counts"):
        return numbered_rows > file.rows
    return False
