"""Inputs and results of a merge of two states of a table."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from graveler.model import TableReason
from graveler.table_format.plain_documents import Document

Side = Literal["source", "destination"]

ReasonKind = Literal[
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
metadata changed in two ways, or allows no merge to be written; ``column``: a column that changed in two ways, or that rows of
the other side may not fit; ``file``: both removed it, or it is damaged; ``isolation``: rows removed where the other added some;
the others name the deletes or row IDs in conflict."""

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
    """``folder`` is where the new files go, without a final slash. ``source_commit`` is written into the snapshot's summary, and
    for a merge that ``is_detached`` (it leaves no common commit) what it brought.
    ``attempt`` is another number where a name of the former attempt is another file's: it changes all names and IDs.
    ``isolation`` overrides the levels of the table's properties. With a ``strategy``, a table that has a conflict is taken as it
    is at that side. Without ``read_positions``, positions in Parquet, ORC and Avro files are unknown. ``missing_reader`` is the
    sentence that says which package is needed to read them; empty if none is."""

    folder: str
    source_commit: str = ""
    isolation: Literal["serializable", "snapshot"] | None = None
    strategy: Literal["source-wins", "destination-wins"] | None = None
    read_positions: ReadPositions | None = None
    missing_reader: str = ""
    attempt: int = 0
    is_detached: bool = False


MAX_FILES: Final = 20
"""The number of files that a reason names."""


class TableConflicts(Struct, frozen=True):
    """A table that is not merged, and all reasons that were found: at least one."""

    conflicts: tuple[TableReason, ...]


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
    strategy. The state is None if the table does not exist there. With a ``summary``, both sides changed the table, but the
    source has no change that the destination lacks, except for compactions that were left out."""

    side: Side
    state: TableState | None
    overridden: tuple[TableReason, ...] = ()
    summary: TableSummary | None = None


class MergedTable(Struct, frozen=True):
    """A merged table: its new metadata, the location for it, and the ``files`` to write first, by location. ``reached`` are the
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
