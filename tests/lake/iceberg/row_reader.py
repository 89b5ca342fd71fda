"""A reader of tables of its own: manifests by fastavro, rows by pyarrow, deletes by the rules of the table specification."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from tests.lake.iceberg.stored_files import read_location

Document = dict[str, Any]
Values = dict[int, Any]
"""Values of a row by the IDs of their columns."""

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class TableFile:
    """A live file of a table, as its manifest has it."""

    path: str
    content: int
    sequence: int
    spec_id: int
    partition: tuple[Any, ...]
    record: Document


@dataclass
class Rows:
    """Live rows of a snapshot, by data file: positions with values."""

    files: list[TableFile]
    deletes: list[TableFile]
    live: dict[str, list[tuple[int, Values]]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Values]:
        return (values for rows in self.live.values() for _, values in rows)


def read_rows(document: Document) -> Rows:
    """Return the live rows of a table's current snapshot. Costs about 2 ms for each file."""
    files = list(_files(document))
    rows = Rows([file for file in files if not file.content], [file for file in files if file.content])
    unpartitioned = {spec["spec-id"] for spec in document["partition-specs"] if not spec["fields"]}
    positions = [(file, _positions(file)) for file in rows.deletes if file.content == 1]
    keys = [(file, _keys(file)) for file in rows.deletes if file.content == 2]
    for data_file in rows.files:
        deleted: set[int] = set()
        for file, by_path in positions:
            if file.sequence >= data_file.sequence and _same_partition(file, data_file):
                deleted |= by_path.get(data_file.path, set())
        applied = [
            deleted_keys
            for file, deleted_keys in keys
            if file.sequence > data_file.sequence
            and (file.spec_id in unpartitioned or _same_partition(file, data_file))
        ]
        rows.live[data_file.path] = [
            (position, values)
            for position, values in enumerate(_values(data_file))
            if position not in deleted
            and not any(tuple(map(values.get, ids)) in deleted_keys for ids, deleted_keys in applied)
        ]
    return rows


def multiset(document: Document) -> Counter[tuple[tuple[str, Any], ...]]:
    """Return the rows of a table by the names that its columns have now."""
    return by_columns(read_rows(document), names_of(document))


def by_columns(rows: Rows, names: Mapping[int, str]) -> Counter[tuple[tuple[str, Any], ...]]:
    """Return rows by some columns, null where they have none of one."""
    return Counter(tuple(sorted((name, values.get(number)) for number, name in names.items())) for values in rows)


def names_of(document: Document) -> dict[int, str]:
    """Return the current columns by ID."""
    schema = next(part for part in document["schemas"] if part["schema-id"] == document["current-schema-id"])
    return {column["id"]: column["name"] for column in schema["fields"]}


def _same_partition(file: TableFile, data_file: TableFile) -> bool:
    return (file.spec_id, file.partition) == (data_file.spec_id, data_file.partition)


def _files(document: Document) -> Iterator[TableFile]:
    number = document.get("current-snapshot-id")
    snapshot = next((part for part in document["snapshots"] if part["snapshot-id"] == number), None)
    if snapshot is None:
        return
    for manifest in _records(snapshot["manifest-list"]):
        for entry in _records(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            sequence = entry.get("sequence_number")
            if sequence is None:
                sequence = (manifest.get("sequence_number") or 0) if entry["status"] == 1 else 0
            file = entry["data_file"]
            yield TableFile(
                file["file_path"],
                file.get("content") or 0,
                sequence,
                manifest["partition_spec_id"],
                tuple(file["partition"].values()),
                file,
            )


def _records(location: str) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(read_location(location))))


def _values(file: TableFile) -> list[Values]:
    table = pq.read_table(io.BytesIO(read_location(file.path)))
    ids = [int(column.metadata[_FIELD_ID]) for column in table.schema]
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(ids, values, strict=True)) for values in zip(*columns, strict=True)]


def _positions(file: TableFile) -> dict[str, set[int]]:
    if file.record["file_format"] == "PUFFIN":
        offset, size = file.record["content_offset"], file.record["content_size_in_bytes"]
        puffin = PuffinFile(read_location(file.path))
        assert {(blob.offset, blob.length) for blob in puffin.footer.blobs} >= {(offset, size)}
        vectors = deletion_vectors_from_puffin_file(puffin)
        return {vector.referenced_data_file: set(vector.to_vector().to_pylist()) for vector in vectors}
    table = pq.read_table(io.BytesIO(read_location(file.path)))
    by_path: dict[str, set[int]] = {}
    for path, position in zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True):
        by_path.setdefault(path, set()).add(position)
    return by_path


def _keys(file: TableFile) -> tuple[tuple[int, ...], set[tuple[Any, ...]]]:
    ids = tuple(file.record["equality_ids"])
    return ids, {tuple(map(values.get, ids)) for values in _values(file)}


def arrow_schema(columns: Sequence[Document]) -> pa.Schema:
    """Return the schema of a data file with these columns."""
    return pa.schema(
        [
            pa.field(column["name"], _TYPES[column["type"]](), metadata={_FIELD_ID: str(column["id"]).encode()})
            for column in columns
        ]
    )


_TYPES: dict[str, Callable[[], pa.DataType]] = {"int": pa.int32, "long": pa.int64, "string": pa.string}
