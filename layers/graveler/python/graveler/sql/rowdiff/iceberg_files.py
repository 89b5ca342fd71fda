"""The data files of an Iceberg table at two commits, each with the deletes that apply to it, and the columns to compare.

Columns are those of the later state, by ID: a renamed column is one, one that was dropped is not compared, and one that was added
is what the table specification says it is in earlier files. So a file that both states have with the same deletes contributes the
same rows to both.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.sql.rowdiff.differences import ColumnDifference
from graveler.sql.rowdiff.tables import Format
from graveler.table_format.column_types import type_text
from graveler.table_format.live_files import DATA, EQUALITY_DELETES, LiveFile, PartitionIndex
from graveler.table_format.manifests import ManifestEntry
from graveler.table_format.merge_reading import MergeReader
from graveler.table_format.merge_results import TableState
from graveler.table_format.partition_specs import source_ids
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import columns_by_id
from graveler.table_format.table_metadata import current_schema

_PARQUET: Final = "PARQUET"
_MAPPING: Final = "schema.name-mapping.default"


class IcebergTable(Protocol):
    """A table at a commit."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def state(self) -> TableState:
        """Its metadata, and their location."""
        ...

    def read_file(self, location: str) -> bytes:
        """Return the bytes of a file of the table."""
        ...

    def path_of(self, location: str) -> str:
        """Return the path in the tree under which a file of the table is linked."""
        ...


class DeleteFile(Struct, frozen=True):
    """A file of deletes: the ``path`` of its link, and the columns by whose values it deletes, by ID; none for positions. A
    deletion vector lies at an ``offset`` of its file."""

    path: str
    location: str
    format: str
    record: Document
    column_ids: tuple[int, ...] = ()
    offset: int = -1
    size: int = 0

    def __hash__(self) -> int:
        return hash((self.path, self.offset))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeleteFile) and (self.path, self.offset) == (other.path, other.offset)


class DataFile(Struct, frozen=True):
    """A data file: its ``location`` as manifests have it, the values of its partition by the IDs of columns (those of the
    transform ``identity``), and the files of deletes that apply to it."""

    location: str
    values: tuple[tuple[int, Any], ...]
    deletes: frozenset[DeleteFile]


class IcebergSides(Struct, frozen=True):
    """A table's data files at two commits, by the paths of their links. ``tables`` are its states, None where it does not
    exist."""

    tables: tuple[IcebergTable | None, IcebergTable | None]
    base: dict[str, DataFile]
    changed: dict[str, DataFile]
    columns: tuple[ColumnDifference, ...] = ()
    format: Format = Format.PARQUET
    partitions: frozenset[str] = frozenset()

    @property
    def schema(self) -> Document:
        """The schema whose columns are compared: the later one."""
        table = self.tables[1] or self.tables[0]
        assert table is not None
        return current_schema(table.state.metadata)

    def differing(self) -> "IcebergSides":
        """Return the files without those that have the same rows on both sides: the same file, with the same deletes."""
        same = {path for path, file in self.base.items() if self.changed.get(path) == file}
        base, changed = (
            {path: file for path, file in side.items() if path not in same} for side in (self.base, self.changed)
        )
        return IcebergSides(self.tables, base, changed, self.columns)


def iceberg_sides(before: IcebergTable | None, after: IcebergTable | None) -> IcebergSides:
    """Return the files of a table at two commits, of which at least one has it. Reads its manifests at both, each once.
    :class:`InvalidError` for files that are no Parquet, and for columns of which names do not say which ones they are."""
    tables = (before, after)
    for table in tables:
        if table is not None:
            _check_nested_names(table)
    sides = [{} if table is None else _data_files(table) for table in tables]
    columns = () if before is None or after is None else tuple(_column_differences(before, after))
    return IcebergSides(tables, sides[0], sides[1], columns)


def _data_files(table: IcebergTable) -> dict[str, DataFile]:
    """Return the live data files of a table, by the paths of their links."""
    state = table.state
    reader = MergeReader(table.read_file, None)
    files = reader.state_files(state)
    live = list(files.live_files(reader.open(manifest) for manifest in files.manifests.values()).values())
    positions = PartitionIndex(file for file in live if file.content not in (DATA, EQUALITY_DELETES))
    unpartitioned = {spec["spec-id"] for spec in state.metadata["partition-specs"] if not spec["fields"]}
    by_values = [file for file in live if file.content == EQUALITY_DELETES]
    of_all = [file for file in by_values if _entry(file).spec_id in unpartitioned]
    of_partition = PartitionIndex(file for file in by_values if _entry(file).spec_id not in unpartitioned)
    identities = {spec["spec-id"]: list(_identities(spec)) for spec in state.metadata["partition-specs"]}
    data_files: dict[str, DataFile] = {}
    for file in live:
        if file.content != DATA:
            continue
        entry = _entry(file)
        if entry.format.upper() != _PARQUET:
            raise InvalidError(
                f"table {table.name} has {entry.format.lower()} files; rows of Parquet files are compared"
            )
        deletes = [delete for delete in positions.overlapping(file.partition) if _deletes_positions(delete, file)]
        vectors = [delete for delete in deletes if delete.is_vector]
        deletes = vectors or deletes  # files of positions do not count where there is a vector
        candidates = [*of_all, *of_partition.overlapping(file.partition)]
        deletes += [delete for delete in candidates if _deletes_values(delete, file, unpartitioned)]
        values = tuple((number, entry.partition[index]) for index, number in identities[entry.spec_id])
        applied = frozenset(_delete_file(table, delete) for delete in deletes)
        data_files[table.path_of(file.path)] = DataFile(file.path, values, applied)
    return data_files


def _entry(file: LiveFile) -> ManifestEntry:
    entry: ManifestEntry = file.entry.entry
    return entry


def _deletes_positions(delete: LiveFile, file: LiveFile) -> bool:
    if not delete.is_vector and not _same_partition(delete, file):
        return False
    return delete.sequence >= file.sequence and delete.may_touch(file)


def _deletes_values(delete: LiveFile, file: LiveFile, unpartitioned: set[int]) -> bool:
    applies = _entry(delete).spec_id in unpartitioned or _same_partition(delete, file)
    return applies and delete.sequence > file.sequence


def _same_partition(file: LiveFile, other: LiveFile) -> bool:
    return (_entry(file).spec_id, _entry(file).partition) == (_entry(other).spec_id, _entry(other).partition)


def _delete_file(table: IcebergTable, file: LiveFile) -> DeleteFile:
    entry = _entry(file)
    record = {"path": entry.path, "format": entry.format, "record_count": entry.record_count}
    ids = entry.equality_ids or () if file.content == EQUALITY_DELETES else ()
    size = entry.content_size or 0
    return DeleteFile(table.path_of(entry.path), entry.path, entry.format.upper(), record, ids, file.offset, size)


def _identities(spec: Document) -> Iterator[tuple[int, int]]:
    """Yield positions of a spec's fields that have a column's value itself, with the column's ID."""
    for index, field in enumerate(spec["fields"]):
        if field["transform"].lower() == "identity":
            yield index, source_ids(field)[0]


def _check_nested_names(table: IcebergTable) -> None:
    """Raise :class:`InvalidError` if names of nested fields do not tell them apart, since files are read by these."""
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for schema in table.state.metadata["schemas"]:
        top = {field["id"] for field in schema["fields"]}
        for number, column in columns_by_id(schema).items():
            if number in top:
                continue
            root = column
            while root.parent is not None:
                root = root.parent
            name = f"{root.id}{column.name.removeprefix(root.name)}"
            if names.setdefault(number, name) != name or ids.setdefault(name, number) != number:
                raise InvalidError(
                    f"the nested field {column.name!r} of table {table.name} was renamed or made anew, so its rows cannot be "
                    "compared; compare the table with the clients that read it"
                )


def _column_differences(before: IcebergTable, after: IcebergTable) -> Iterator[ColumnDifference]:
    older, newer = (
        {field["id"]: field for field in current_schema(table.state.metadata)["fields"]} for table in (before, after)
    )
    for number in {**older, **newer}:
        former, latter = older.get(number), newer.get(number)
        if former is None or latter is None:
            field = latter or former
            assert field is not None
            kind = type_text(field["type"])
            yield ColumnDifference(field["name"], None if former is None else kind, None if latter is None else kind)
        elif (former["name"], former["type"]) != (latter["name"], latter["type"]):
            texts = [f"{field['name']} {type_text(field['type'])}" for field in (former, latter)]
            yield ColumnDifference(latter["name"], *texts)


def mapped_names(metadata: Document) -> Mapping[str, int]:
    """Return the IDs of columns by names that files without IDs have for them: those of the table's name mapping, if any."""
    text = (metadata.get("properties") or {}).get(_MAPPING)
    if text is None:
        return {}
    try:
        return {name: field["field-id"] for field in json.loads(text) for name in field["names"] if "field-id" in field}
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidError(f"the table's property {_MAPPING} is no name mapping: {error!r}; correct it") from None
