"""Inputs and results of a merge of two states of a table."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from graveler.table_format.plain_documents import Document

Side = Literal["source", "destination"]

ConflictKind = Literal[
    "table",
    "base",
    "metadata",
    "column",
    "file",
    "isolation",
    "position-deletes",
    "equality-deletes",
    "row-ids",
]
"""``table``: dropped, or made anew; ``base``: the manifests of the common state are gone; ``metadata``: one thing of the
metadata changed in two ways; ``column``; ``file``: both removed it; ``isolation``: rows removed where the other added some; the
others are named for the rows of the files that they concern."""

SERIALIZABLE: Final = "serializable"


class TableState(Struct, frozen=True):
    """A table at a commit: its metadata, with the fields that :mod:`graveler.table_format.table_metadata` derives, and the
    location of the file that holds it. The location names the contents: two states with one location are one."""

    metadata: Document
    location: str


ReadPositions = Callable[[Document], Mapping[str, frozenset[int]] | None]
"""Returns the positions that a file of position deletes has, by data file, or None if they cannot be read. It gets the
``data_file`` of the manifest's entry. Costs one read of that file."""


class MergeTerms(Struct, frozen=True):
    """``folder`` is where the new files go, without a final slash. ``source_commit`` is written into the snapshot's summary.
    ``isolation`` overrides the levels of the table's properties. With a ``strategy``, a table that has a conflict is taken as it
    is at that side. Without ``read_positions``, positions in Parquet and Avro files of deletes are unknown."""

    folder: str
    source_commit: str = ""
    isolation: Literal["serializable", "snapshot"] | None = None
    strategy: Literal["source-wins", "destination-wins"] | None = None
    read_positions: ReadPositions | None = None
    missing_reader: str = ""


class TableConflict(Struct, frozen=True):
    """One reason for which a table is not merged: a sentence for people, and what it concerns.

    ``partition`` is text as ``day=2026-01-01``, empty for all or none. ``files`` are at most :data:`MAX_FILES` locations.
    ``source_rows`` and ``destination_rows`` are the rows of the files that each side changed there.
    """

    kind: ConflictKind
    sentence: str
    partition: str = ""
    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    source_rows: int = 0
    destination_rows: int = 0


MAX_FILES: Final = 20
"""The number of files that a conflict names."""


class TableConflicts(Struct, frozen=True):
    """A table that is not merged, and all reasons that were found: at least one."""

    conflicts: tuple[TableConflict, ...]


class SideSummary(Struct, frozen=True):
    """Changes of one side since the base. Rows are those of the files, deletes not subtracted."""

    added_files: int = 0
    added_rows: int = 0
    removed_files: int = 0
    removed_rows: int = 0
    added_delete_files: int = 0
    removed_delete_files: int = 0
    metadata: tuple[str, ...] = ()


class OmittedCompaction(Struct, frozen=True):
    """A compaction that the merge leaves out: it changed no row, and the other side changed what it had compacted."""

    side: Side
    snapshot_id: int
    files: int
    rows: int


class TableSummary(Struct, frozen=True):
    """A merge for people: both sides, compactions that were left out, and the operation of the new snapshot (empty if there is
    none)."""

    source: SideSummary
    destination: SideSummary
    omitted: tuple[OmittedCompaction, ...] = ()
    operation: str = ""
    opened_manifests: int = 0


class SideTaken(Struct, frozen=True):
    """A table that is taken as it is at one side: the other did not change it, or ``overridden`` conflicts were decided by the
    strategy. The state is None if the table does not exist there. A ``summary`` says that both sides did change the table, but
    the source nothing that the destination has not: compactions that were left out, or the same."""

    side: Side
    state: TableState | None
    overridden: tuple[TableConflict, ...] = ()
    summary: TableSummary | None = None


class MergedTable(Struct, frozen=True):
    """A merged table: its new metadata, the location for it, and the ``files`` to write before, by location. ``reached`` are the
    locations that the new snapshot reaches and that the destination's state did not: new files, and those of the source."""

    metadata: Document
    location: str
    files: Mapping[str, bytes]
    reached: tuple[str, ...]
    summary: TableSummary


MergeResult = MergedTable | SideTaken | TableConflicts


def canonical(value: Any) -> Any:
    """Return JSON in a form that compares by content: without nulls."""
    if isinstance(value, dict):
        return {name: canonical(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value
