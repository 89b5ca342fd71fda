"""Tables that PyIceberg writes, in a folder, for tests of what reads them."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, NestedField, StringType, TimestampType

from graveler.table_format.plain_documents import Document

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "moment", TimestampType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "day", DateType(), required=False),
    NestedField(6, "price", DecimalType(9, 2), required=False),
)
SPEC = PartitionSpec(
    PartitionField(5, 1000, IdentityTransform(), "a day"),
    PartitionField(6, 1001, IdentityTransform(), "price"),
)


@dataclass(frozen=True)
class History:
    """The states of a table, one for each commit: metadata documents, and their locations."""

    folder: Path
    locations: list[str]
    states: list[Document]


def read_file(location: str) -> bytes:
    """Read a file that a table in a folder names."""
    return Path(location.removeprefix("file://")).read_bytes()


@contextmanager
def write_history(folder: Path) -> Iterator[History]:
    """Write a table by appends, an overwrite, a delete, changes of its schema and its spec, and statistics."""
    catalog = SqlCatalog("test", uri="sqlite://", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    history = History(folder, [], [])

    def record(table: Table) -> None:
        history.locations.append(table.metadata_location)
        history.states.append(json.loads(read_file(table.metadata_location)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=SPEC, properties={"format-version": "2"})
        record(table)
        table.append(rows(0, 6))
        record(table)
        table.append(rows(10, 2))
        record(table)
        table.overwrite(rows(20, 1), "id = 10")
        record(table)
        table.delete("id < 2")
        record(table)
        with table.update_schema() as schema:
            schema.add_column("more", LongType())
        with table.update_spec() as spec:
            spec.add_identity("name")
        record(table)
        table.append(rows(30, 1))
        record(table)
        with table.update_statistics() as statistics:
            statistics.set_statistics(_statistics(table, folder))
        record(table)
    try:
        yield history
    finally:
        catalog.close()


def _statistics(table: Table, folder: Path) -> StatisticsFile:
    path = folder / "ns" / "t" / "metadata" / "statistics.puffin"
    path.write_bytes(b"PFA1")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": f"file://{path}",
            "file-size-in-bytes": 4,
            "file-footer-size-in-bytes": 4,
            "blob-metadata": [],
        }
    )


def rows(first: int, count: int, **changed: Any) -> pa.Table:
    """Rows of ``SCHEMA``, with IDs from a number on."""
    numbers = range(first, first + count)
    day = 86_400_000_000
    columns = {
        "id": pa.array(list(numbers), pa.int64()),
        "name": pa.array([f"näme {number}" if number % 3 else None for number in numbers], pa.string()),
        "moment": pa.array([number % 3 * day for number in numbers], pa.timestamp("us")),
        "amount": pa.array([number / 2 for number in numbers], pa.float64()),
        "day": pa.array([number % 2 for number in numbers], pa.date32()),
        "price": pa.array([Decimal(-number % 2) / 4 if number else None for number in numbers], pa.decimal128(9, 2)),
    } | changed
    return pa.table(columns)
