"""The difference of two states of a table: rows, files and columns, by opening only manifests that differ."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from graveler.errors import NotFoundError
from graveler.table_format.column_types import type_text
from graveler.table_format.live_files import DATA, LiveFile
from graveler.table_format.merge_reading import BaseCollectedError, MergeReader, StateFiles
from graveler.table_format.merge_results import TableState
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.schema_rules import Column, columns_by_id
from graveler.table_format.table_metadata import current_schema


class ColumnDifference(Struct, frozen=True):
    """A column that one state lacks, or that has another name or type there. Each side is ``name type``, empty without it."""

    before: str
    after: str


class FileDifference(Struct, frozen=True):
    """Files that one state has and the other has not, and their rows: of files of deletes, the deletes."""

    added_files: int = 0
    added_rows: int = 0
    removed_files: int = 0
    removed_rows: int = 0
    added_delete_files: int = 0
    added_deletes: int = 0
    removed_delete_files: int = 0
    removed_deletes: int = 0


class TableDifference(Struct, frozen=True):
    """A table that differs between two commits. ``files`` is None if manifests of it do not exist any more; ``properties``
    has the names of those that differ."""

    files: FileDifference | None
    columns: tuple[ColumnDifference, ...] = ()
    properties: tuple[str, ...] = ()


def table_difference(before: TableState | None, after: TableState | None, read_file: ReadFile) -> TableDifference:
    """Return what turns one state of a table into another; None is a table that does not exist there. Two reads, and one for each
    manifest that only one of them has."""
    files = _file_difference(before, after, read_file)
    if before is None or after is None:
        return TableDifference(files)
    return TableDifference(
        files,
        tuple(_columns(before.metadata, after.metadata)),
        tuple(sorted(_property_names(before.metadata, after.metadata))),
    )


def _file_difference(before: TableState | None, after: TableState | None, read_file: ReadFile) -> FileDifference | None:
    reader = MergeReader(read_file, None)
    try:
        sides = [_files(reader, before, after), _files(reader, after, before)]
        added, removed, _ = reader.difference(*sides)
    except (BaseCollectedError, NotFoundError):
        return None
    totals = [*_totals(added.values()), *_totals(removed.values())]
    return FileDifference(*totals[:2], *totals[4:6], *totals[2:4], *totals[6:])


def _files(reader: MergeReader, state: TableState | None, other: TableState | None) -> StateFiles:
    if state is not None:
        return reader.state_files(state)
    assert other is not None
    return StateFiles(other, ())


def _totals(files: Iterable[LiveFile]) -> tuple[int, int, int, int]:
    """Return the numbers of data files, their rows, files of deletes, and deletes."""
    sizes = [(file.content == DATA, file.rows) for file in files]
    data = [rows for is_data, rows in sizes if is_data]
    deletes = [rows for is_data, rows in sizes if not is_data]
    return len(data), sum(data), len(deletes), sum(deletes)


def _columns(before: Document, after: Document) -> Iterator[ColumnDifference]:
    sides = [columns_by_id(current_schema(metadata)) for metadata in (before, after)]
    for number in sorted({*sides[0], *sides[1]}):
        texts = [_text(side.get(number)) for side in sides]
        if texts[0] != texts[1]:
            yield ColumnDifference(*texts)


def _text(column: Column | None) -> str:
    if column is None:
        return ""
    return f"{column.name} {type_text(column.type)}{' required' if column.required else ''}"


def _property_names(before: Document, after: Document) -> set[str]:
    sides = [set((metadata.get("properties") or {}).items()) for metadata in (before, after)]
    return {name for name, _ in sides[0] ^ sides[1]}
