"""Manifests: those of PyIceberg are read as it reads them, and it reads those written here."""

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.manifest import ManifestEntry as TheirEntry
from pyiceberg.manifest import ManifestFile as TheirFile
from pyiceberg.manifest import write_manifest as write_theirs
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from graveler.errors import CorruptError, InvalidError
from graveler.table_format.live_files import EQUALITY_DELETES, POSITION_DELETES
from graveler.table_format.manifest_lists import DATA, DELETES, ManifestFile
from graveler.table_format.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    ManifestEntry,
    describe,
    entry_from,
    read_manifest,
    record_of,
    write_manifest,
)

_TYPES = [
    LongType(),
    IntegerType(),
    StringType(),
    DoubleType(),
    FloatType(),
    DateType(),
    TimestamptzType(),
    TimeType(),
    DecimalType(9, 2),
    UUIDType(),
    BinaryType(),
    FixedType(3),
    BooleanType(),
]
SCHEMA = Schema(
    *(NestedField(index + 1, f"c{index}", column, required=False) for index, column in enumerate(_TYPES)),
    NestedField(50, "nested", StructType(NestedField(51, "inner", LongType(), required=False)), required=False),
)
_TRANSFORMS: list[Any] = [BucketTransform(8), DayTransform(), YearTransform(), TruncateTransform(2), VoidTransform()]
SPEC = PartitionSpec(
    *(PartitionField(index + 1, 1000 + index, IdentityTransform(), f"c{index}") for index in range(len(_TYPES))),
    *(
        PartitionField(source, 1100 + index, transform, name)
        for index, (source, transform, name) in enumerate(
            zip([51, 7, 7, 3, 1], _TRANSFORMS, ["8 buckets", "tag", "jähr", "c.2", "nothing"], strict=True)
        )
    ),
    spec_id=3,
)
VALUES: list[tuple[Any, ...]] = [
    (
        1,
        2,
        "ä",
        1.5,
        0.25,
        19_000,
        1 << 50,
        7,
        -125,
        bytes(range(16)),
        b"\0\xff",
        b"abc",
        True,
        3,
        19_001,
        54,
        "näm",
        None,
    ),
    (None,) * 18,
    (-1, -2, "", math.nan, math.nan, -1, -1, 0, 0, bytes(16), b"", b"\0\0\0", False, 0, 0, 0, "", None),
]


def _their_value(value: Any, index: int) -> Any:
    if index == 8 and value is not None:
        return Decimal(value).scaleb(-2)
    return UUID(bytes=value) if index == 9 and value is not None else value


def _their_entry(number: int, status: Any, spec_values: Sequence[Any], **fields: Any) -> TheirEntry:
    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=f"s3://bucket/täble/data/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*(_their_value(value, index) for index, value in enumerate(spec_values))),
        record_count=100 + number,
        file_size_in_bytes=5000 + number,
        column_sizes={1: 10, 2: 1 << 40},
        value_counts={1: 100},
        null_value_counts={},
        nan_value_counts=None,
        lower_bounds={1: b"\0" * 8, 3: b"x" * 200},
        upper_bounds={1: b"\1" * 8},
        key_metadata=b"key",
        split_offsets=[4, 1 << 33],
        equality_ids=[],
        sort_order_id=7,
        spec_id=3,
    )
    return TheirEntry.from_args(status=status, snapshot_id=None, data_file=file, **fields)


def _written_by_pyiceberg(folder: Path, version: TableVersion) -> tuple[Path, TheirFile]:
    path = folder / f"v{version}.avro"
    output = PyArrowFileIO().new_output(str(path))
    with write_theirs(version, SPEC, SCHEMA, output, 77, "deflate") as theirs:
        for number, values in enumerate(VALUES):
            theirs.add(_their_entry(number, ADDED, values))
        entry = _their_entry(10, EXISTING, VALUES[0], sequence_number=2, file_sequence_number=1)
        entry.snapshot_id = 55
        theirs.existing(entry)
        theirs.delete(entry)
    return path, theirs.to_manifest_file()


def _described(path: Path | str, **changed: Any) -> ManifestFile:
    return msgspec.structs.replace(ManifestFile(str(path), 1, 3, DATA, 5, 5, 77), **changed)


@pytest.mark.parametrize("version", [1, 2])
def test_manifests_of_pyiceberg(version: TableVersion, tmp_path: Path) -> None:
    path, theirs = _written_by_pyiceberg(tmp_path, version)
    manifest = read_manifest(path.read_bytes(), _described(path))
    assert (manifest.format_version, manifest.spec_id, manifest.content) == (version, 3, DATA)
    assert [entry.status for entry in manifest.entries] == [ADDED, ADDED, ADDED, EXISTING, DELETED]
    assert [entry.snapshot_id for entry in manifest.entries] == [77, 77, 77, 55, 77]
    if version == 2:
        assert [entry.sequence_number for entry in manifest.entries] == [5, 5, 5, 2, 2]
        assert [entry.file_sequence_number for entry in manifest.entries] == [5, 5, 5, 1, 1]
    entry = manifest.entries[0]
    assert entry.path == "s3://bucket/täble/data/0.parquet"
    assert (entry.record_count, entry.size, entry.format, entry.sort_order_id) == (100, 5000, "PARQUET", 7)
    assert [entry.partition for entry in manifest.entries[:2]] == VALUES[:2]
    assert hash(manifest.entries[2].partition) is not None
    again = read_manifest(path.read_bytes(), _described(path))
    assert {entry.partition for entry in manifest.entries} == {entry.partition for entry in again.entries}
    file = record_of(entry)["data_file"]
    assert file["column_sizes"] == [{"key": 1, "value": 10}, {"key": 2, "value": 1 << 40}]
    assert file["lower_bounds"] == [{"key": 1, "value": b"\0" * 8}, {"key": 3, "value": b"x" * 200}]
    assert (file["split_offsets"], file["key_metadata"]) == ([4, 1 << 33], b"key")
    described = describe(manifest.entries, _described(path), manifest.layout.partition_types)
    assert described.added_files == theirs.added_files_count
    assert described.existing_rows == theirs.existing_rows_count
    assert described.deleted_rows == theirs.deleted_rows_count
    assert described.min_sequence_number == (2 if version == 2 else 5)
    assert described.partitions is not None
    assert theirs.partitions is not None
    for index, (ours, summary) in enumerate(zip(described.partitions, theirs.partitions, strict=True)):
        if index not in (9, 17):  # PyIceberg compares UUIDs as signed numbers; for a void it writes no type
            assert (ours.contains_null, ours.lower_bound, ours.upper_bound) == (
                summary.contains_null,
                summary.lower_bound,
                summary.upper_bound,
            ), index
        assert bool(ours.contains_nan) == bool(summary.contains_nan)


def _document(model: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(model.model_dump_json())
    return document


def _their_reading(contents: bytes, manifest: ManifestFile, folder: Path) -> list[TheirEntry]:
    path = folder / "ours.avro"
    path.write_bytes(contents)
    theirs = TheirFile.from_args(
        manifest_path=str(path),
        manifest_length=manifest.length,
        partition_spec_id=manifest.spec_id,
        content=manifest.content,
        sequence_number=manifest.sequence_number,
        min_sequence_number=manifest.min_sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
    )
    return theirs.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_manifests_written_here(version: TableVersion, tmp_path: Path) -> None:
    path, _ = _written_by_pyiceberg(tmp_path, version)
    manifest = read_manifest(path.read_bytes(), _described(path))
    fresh = write_manifest(
        manifest.entries,
        "fresh",
        schema=_document(SCHEMA),
        spec=_document(SPEC),
        format_version=version,
        content=DATA,
        snapshot_id=77,
        sequence_number=5,
    )
    rewritten = manifest.write(manifest.entries, "rewritten", snapshot_id=77, sequence_number=5)
    sequence_number = 5 if version == 2 else 0
    expected = _their_reading(path.read_bytes(), _described(path, sequence_number=sequence_number), tmp_path)
    for contents, described in (fresh, rewritten):
        assert len(contents) == described.length
        theirs = _their_reading(contents, described, tmp_path)
        for entry, other in zip(theirs, expected, strict=True):
            names = [name for name in dir(entry.data_file) if not name.startswith("_")]
            assert len(names) > 10
            for name in ("file_path", "record_count", "column_sizes", "lower_bounds", "split_offsets", "sort_order_id"):
                assert getattr(entry.data_file, name) == getattr(other.data_file, name)
            assert repr(entry.data_file.partition) == repr(other.data_file.partition)
            assert (entry.status, entry.snapshot_id, entry.sequence_number) == (
                other.status,
                other.snapshot_id,
                other.sequence_number,
            )
        header = fastavro.reader(BytesIO(contents)).metadata
        assert header["partition-spec-id"] == "3"
        assert json.loads(header["schema"])["fields"] == _document(SCHEMA)["fields"]


SPEC_3 = {
    "spec-id": 3,
    "fields": [
        {"source-id": 1, "field-id": 1000, "transform": "identity", "name": "a"},
        {"source-id": 2, "field-id": 1001, "transform": "bucket[4]", "name": "b"},
    ],
}
COLUMNS = {
    "type": "struct",
    "schema-id": 1,
    "fields": [
        {"id": 1, "name": "a", "type": "double", "required": False},
        {"id": 2, "name": "b", "type": "uuid", "required": True},
    ],
}
NUMBERS = st.none() | st.integers(0, (1 << 63) - 1)


@st.composite
def entries(draw: st.DrawFn, content: int = DATA) -> ManifestEntry:
    """An entry of version 3."""
    vector = content == DELETES and draw(st.booleans())
    file = {
        "content": draw(st.sampled_from([POSITION_DELETES, EQUALITY_DELETES])) if content else DATA,
        "path": draw(st.text(min_size=1)),
        "format": draw(st.sampled_from(["PARQUET", "avro"])),
        "partition": (draw(st.none() | st.floats(allow_nan=False)), draw(st.none() | st.integers(0, 3))),
        "record_count": draw(st.integers(0, 1 << 40)),
        "size": draw(st.integers(0, 1 << 40)),
        "lower_bounds": draw(
            st.none() | st.lists(st.fixed_dictionaries({"key": st.integers(0, 9), "value": st.binary()}))
        ),
        "split_offsets": draw(st.none() | st.lists(st.integers(0, 1 << 40), max_size=3)),
        "equality_ids": draw(st.none() | st.lists(st.integers(0, 1 << 30), max_size=3).map(tuple)),
        "sort_order_id": draw(st.none() | st.integers(0, 9)),
        "first_row_id": draw(st.integers(0, 1 << 60)),
        "referenced_data_file": "file" if vector else None,
        "content_offset": 4 if vector else None,
        "content_size": 40 if vector else None,
    }
    numbers = {"snapshot_id": draw(st.integers(1, 1 << 62)), "sequence_number": draw(st.integers(1, 1 << 40))}
    record = numbers | {"file_sequence_number": draw(st.integers(1, 9)), "data_file": file}
    return entry_from({"status": draw(st.sampled_from([EXISTING, ADDED, DELETED]))} | record, 3)


def _avro(contents: bytes) -> tuple[Any, list[Any]]:
    """The schema and the records of a file, as another library reads them."""
    reading = fastavro.reader(BytesIO(contents))
    return reading.writer_schema, list(reading)


def _rewritten(schema: Any, records: list[Any], codec: str = "null", **metadata: str) -> bytes:
    stream = BytesIO()
    fastavro.writer(stream, schema, records, codec=codec, metadata={"partition-spec-id": "3"} | metadata)
    return stream.getvalue()


def _values(entry: ManifestEntry) -> tuple[Any, ...]:
    return msgspec.structs.astuple(entry)[:-1]


def _write_3(written: Sequence[ManifestEntry], content: int = DATA) -> tuple[bytes, ManifestFile]:
    return write_manifest(
        written,
        "s3://bucket/m.avro",
        schema=COLUMNS,
        spec=SPEC_3,
        format_version=3,
        content=content,
        snapshot_id=8,
        sequence_number=9,
    )


@settings(max_examples=40)
@given(st.data(), st.sampled_from([DATA, DELETES]))
def test_entries_survive(data: st.DataObject, content: int) -> None:
    written = data.draw(st.lists(entries(content), max_size=4))
    contents, described = _write_3(written, content)
    assert (contents, described) == _write_3(written, content)
    manifest = read_manifest(contents, msgspec.structs.replace(described, first_row_id=0))
    assert [*map(_values, manifest.entries)] == [*map(_values, written)]
    assert [record_of(entry)["data_file"]["lower_bounds"] for entry in manifest.entries] == [
        record_of(entry)["data_file"]["lower_bounds"] for entry in written
    ]
    again, _ = manifest.write(manifest.entries, "s3://bucket/m.avro", snapshot_id=8, sequence_number=9)
    assert again == contents
    assert len(_avro(contents)[1]) == len(written)


def _entry(path: str = "f", status: int = ADDED, **fields: Any) -> ManifestEntry:
    numbers = {name: fields.pop(name, None) for name in ("snapshot_id", "sequence_number", "file_sequence_number")}
    file = {"path": path, "format": "PARQUET", "partition": (1.0, 2), "record_count": 10, "size": 1} | fields
    return entry_from(numbers | {"status": status, "data_file": file}, 3)


def test_numbers_are_inherited() -> None:
    live = {"sequence_number": 3, "file_sequence_number": 2, "snapshot_id": 4}
    contents, described = _write_3(
        [
            _entry("new"),
            _entry("moved", sequence_number=6),
            _entry("numbered", EXISTING, **live, first_row_id=500),
            _entry("removed", DELETED, **live),
            _entry("upgraded", EXISTING, **live),
        ]
    )
    assert described.min_sequence_number == 3
    manifest = read_manifest(contents, msgspec.structs.replace(described, first_row_id=100))
    assert [entry.snapshot_id for entry in manifest.entries] == [8, 8, 4, 4, 4]
    assert [entry.sequence_number for entry in manifest.entries] == [9, 6, 3, 3, 3]
    assert [entry.file_sequence_number for entry in manifest.entries] == [9, 9, 2, 2, 2]
    assert [entry.first_row_id for entry in manifest.entries] == [100, 110, 500, None, 120]
    assert [entry.first_row_id for entry in read_manifest(contents, described).entries] == [None] * 5


def test_fields_of_later_versions_and_other_orders_survive() -> None:
    partition = {
        "type": "record",
        "name": "p",
        "fields": [
            {"name": "x", "type": ["null", "int"], "field-id": 1001},
            {"name": "y", "type": ["null", "double"], "field-id": 1000},
        ],
    }
    extra = {"type": "record", "name": "e", "fields": [{"name": "status", "type": "string", "field-id": 9001}]}
    file = {
        "type": "record",
        "name": "f",
        "fields": [
            {"name": "later", "type": ["null", extra], "field-id": 900},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "row", "type": ["null", "long"], "field-id": 142},
            {"name": "where", "type": "string", "field-id": 100},
            {"name": "partition", "type": partition, "field-id": 102},
            {"name": "file_size_in_bytes", "type": "long"},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "unnumbered", "type": {"type": "map", "values": "long"}},
        ],
    }
    schema = {
        "type": "record",
        "name": "entry",
        "fields": [
            {"name": "file", "type": file, "field-id": 2},
            {"name": "number", "type": ["long", "null"], "field-id": 3},
            {"name": "text", "type": "string", "field-id": 950},
            {"name": "status", "type": "int", "field-id": 0},
            {"name": "snapshot_id", "type": ["null", "long"], "field-id": 1},
        ],
    }
    record_file = {
        "later": {"status": "new"},
        "record_count": 5,
        "row": None,
        "where": "s3://b/f",
        "partition": {"x": 2, "y": 0.5},
        "file_size_in_bytes": 6,
        "file_format": "PARQUET",
        "unnumbered": {"a": 1},
    }
    record = {
        "file": record_file,
        "number": None,
        "text": "as it was",
        "status": 1,
        "snapshot_id": None,
    }
    stream = BytesIO()
    header = {
        "partition-spec": json.dumps(SPEC_3["fields"]),
        "partition-spec-id": "3",
        "format-version": "3",
        "content": "data",
    }
    fastavro.writer(stream, schema, [record, record], metadata=header)
    manifest = read_manifest(stream.getvalue(), _described("m", first_row_id=50))
    assert [(entry.path, entry.partition, entry.first_row_id) for entry in manifest.entries] == [
        ("s3://b/f", (0.5, 2), 50),
        ("s3://b/f", (0.5, 2), 55),
    ]
    assert record_of(manifest.entries[0])["data_file"]["later"] == {"status": "new"}
    changed = msgspec.structs.replace(manifest.entries[1], status=EXISTING, sequence_number=4, snapshot_id=3)
    contents, _ = manifest.write([changed], "m", snapshot_id=1, sequence_number=6)
    assert _avro(contents)[1] == [
        record | {"status": 0, "number": 4, "snapshot_id": 3, "file": record_file | {"row": 55}}
    ]
    fresh, described = _write_3([changed])
    (entry,) = read_manifest(fresh, msgspec.structs.replace(described, first_row_id=0)).entries
    assert _values(entry) == _values(changed)


def test_a_changed_record_is_written() -> None:
    contents, described = _write_3([_entry(lower_bounds=[{"key": 1, "value": b"x"}])])
    manifest = read_manifest(contents, described)
    record = record_of(manifest.entries[0])
    moved = entry_from(record | {"data_file": record["data_file"] | {"path": "other"}}, 3)
    again, _ = manifest.write([moved], "m", snapshot_id=8, sequence_number=9)
    (entry,) = read_manifest(again, msgspec.structs.replace(described, length=0)).entries
    assert (entry.path, record_of(entry)["data_file"]["lower_bounds"]) == ("other", [{"key": 1, "value": b"x"}])


def test_entries_that_cannot_be_written() -> None:
    with pytest.raises(InvalidError, match="partition spec 4"):
        _write_3([entry_from(record_of(_entry()), 4)])
    with pytest.raises(InvalidError, match="status 3"):
        _write_3([_entry(status=3)])
    with pytest.raises(InvalidError, match="content 1"):
        _write_3([_entry(content=1)])
    with pytest.raises(InvalidError, match="missing or invalid"):
        _write_3([_entry(record_count=None)])
    with pytest.raises(InvalidError, match="partition by another column"):
        write_manifest(
            [],
            "m",
            schema=COLUMNS | {"fields": [{"id": 1, "name": "a", "type": "geometry", "required": True}]},
            spec=SPEC_3,
            format_version=3,
            content=DATA,
            snapshot_id=1,
            sequence_number=1,
        )


def test_manifests_that_disagree_with_their_list() -> None:
    contents, described = _write_3([_entry()])
    with pytest.raises(CorruptError, match="partition spec 3, and its list says 2"):
        read_manifest(contents, msgspec.structs.replace(described, spec_id=2))
    with pytest.raises(CorruptError, match="its list says otherwise"):
        read_manifest(contents, msgspec.structs.replace(described, content=DELETES))


@pytest.mark.parametrize(
    ("fields", "file_fields"),
    [({"status": 3}, {}), ({}, {"content": 1}), ({}, {"record_count": -1}), ({}, {"file_size_in_bytes": -1})],
)
def test_entries_that_mean_nothing(fields: dict[str, Any], file_fields: dict[str, Any]) -> None:
    contents, described = _write_3([_entry()])
    schema, (record,) = _avro(contents)
    damaged = _rewritten(schema, [record | fields | {"data_file": record["data_file"] | file_fields}])
    with pytest.raises(CorruptError, match="entry 0 has"):
        read_manifest(damaged, msgspec.structs.replace(described, length=0))


def test_each_truncation() -> None:
    contents, described = _write_3([_entry(lower_bounds=[{"key": 1, "value": b"x"}], split_offsets=[4]), _entry("g")])
    sync = contents[-16:]
    unchecked = msgspec.structs.replace(described, length=0)
    for length in range(len(contents)):
        with pytest.raises(CorruptError):
            read_manifest(contents[:length], described if contents[:length].endswith(sync) else unchecked)


def test_a_bit_of_each_byte() -> None:
    contents, described = _write_3([_entry(lower_bounds=[{"key": 1, "value": b"x"}], split_offsets=[4]), _entry("g")])
    header = contents.index(contents[-16:])
    for position in [*range(0, header, 31), *range(header, len(contents))]:
        damaged = bytearray(contents)
        damaged[position] ^= 1 << position % 8
        try:
            for entry in read_manifest(bytes(damaged), described).entries:
                record_of(entry)
        except CorruptError:
            continue


def test_bits_of_stored_records() -> None:
    contents, described = _write_3([_entry(lower_bounds=[{"key": 1, "value": b"x"}], split_offsets=[4]), _entry("g")])
    stored = _rewritten(*_avro(contents))
    described = msgspec.structs.replace(described, length=len(stored))
    for position in range(stored.index(stored[-16:]), len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[position] ^= 1 << bit
            try:
                for entry in read_manifest(bytes(damaged), described).entries:
                    record_of(entry)
            except CorruptError:
                continue


@pytest.mark.parametrize("drop", [0, 2, 100, 101, 102, 103, 104])
def test_schemas_without_a_field_that_is_required(drop: int) -> None:
    contents, described = _write_3([_entry()])
    schema, _ = _avro(contents)
    for fields in (schema["fields"], schema["fields"][-1]["type"]["fields"]):
        fields[:] = [field for field in fields if field["field-id"] != drop]
    with pytest.raises(CorruptError, match=r"is not a manifest .*have no"):
        read_manifest(_rewritten(schema, []), msgspec.structs.replace(described, length=0))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("content", "x"),
        ("partition-spec", "{}x"),
        ("partition-spec", "[1]"),
        ("partition-spec", '[{"field-id": null}]'),
        ("partition-spec", "7"),
        ("partition-spec-id", "x"),
        ("format-version", ""),
    ],
)
def test_headers_that_mean_nothing(key: str, value: str) -> None:
    contents, described = _write_3([_entry()])
    schema, _ = _avro(contents)
    with pytest.raises(CorruptError, match="is not a manifest"):
        read_manifest(_rewritten(schema, [], **{key: value}), msgspec.structs.replace(described, length=0))
