"""Metadata of tables: new ones of each version, and those that a client or another catalog wrote."""

import gzip
import zlib
from typing import Any

import msgspec
import pytest

from graveler.errors import CorruptError, InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import (
    current_schema,
    current_snapshot_id,
    encode_metadata,
    read_table,
)
from tests.table_format.documents import LOCATION, TIME, UUID, field, nested_schema, schema, snapshot, struct, table

SUBJECT = "v1.metadata.json"


def read(document: Document) -> Document:
    return read_table(msgspec.json.encode(document), SUBJECT)


def test_columns_of_a_new_table_are_numbered_level_by_level() -> None:
    spec = {"spec-id": 7, "fields": [{"source-id": 50, "field-id": 1, "name": "day", "transform": "day", "x": 1}]}
    order = {
        "order-id": 4,
        "fields": [{"source-id": 10, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}],
    }
    document = table(schema=nested_schema(), partition_spec=spec, sort_order=order)
    fresh = current_schema(document)
    assert [column["id"] for column in fresh["fields"]] == [1, 2, 3, 4]
    points, names = fresh["fields"][1]["type"], fresh["fields"][2]["type"]
    assert (points["element-id"], [part["id"] for part in points["element"]["fields"]]) == (5, [6, 7])
    assert (names["key-id"], names["value-id"]) == (8, 9)
    assert (fresh["identifier-field-ids"], document["last-column-id"]) == ([1], 9)
    assert document["partition-specs"] == [
        {"spec-id": 0, "fields": [{"source-id": 4, "field-id": 1000, "name": "day", "transform": "day", "x": 1}]}
    ]
    assert document["sort-orders"][0]["order-id"] == document["default-sort-order-id"] == 1
    assert document["sort-orders"][0]["fields"][0]["source-id"] == 1
    assert read(document) == document


@pytest.mark.parametrize(("version", "current"), [(1, -1), (2, -1), (3, None)])
def test_a_new_table_has_the_fields_of_its_version(version: int, current: int | None) -> None:
    document = table(
        version, properties={"format-version": str(version), "uuid": "x", "owner": "me"}, location=LOCATION + "/"
    )
    assert document["format-version"] == version
    assert (document["properties"], document["location"]) == ({"owner": "me"}, LOCATION)
    assert (document["table-uuid"], document["last-updated-ms"]) == (UUID, TIME)
    assert document["current-snapshot-id"] == current
    assert ("schema" in document, "partition-spec" in document) == (version == 1, version == 1)
    assert ("last-sequence-number" in document, "next-row-id" in document) == (version > 1, version > 2)
    assert read(document) == read_table(encode_metadata(document), SUBJECT, stored=True) == document


@pytest.mark.parametrize("version", ["0", "4", "two", "٢"])
def test_a_new_table_of_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidError, match="Unsupported format version"):
        table(properties={"format-version": version})


def first_version() -> Document:
    """Metadata as the first writers wrote them."""
    return {
        "format-version": 1,
        "location": LOCATION,
        "last-updated-ms": TIME,
        "last-column-id": 2,
        "schema": {"type": "struct", "fields": [field(1, "x", "long", True), field(2, "day", "date")], "new": 1},
        "partition-spec": [{"name": "day", "transform": "identity", "source-id": 2, "new": 2}],
        "properties": {},
        "current-snapshot-id": 5,
        "snapshots": [{"snapshot-id": 5, "timestamp-ms": TIME, "manifests": ["s3://lake/m.avro"], "new": 3}],
        "new": [{"deep": {"er": 1}}],
    }


def test_metadata_of_the_first_version_get_what_readers_derive() -> None:
    document = read(first_version())
    assert document["schemas"] == [{**first_version()["schema"], "schema-id": 0}]
    assert document["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [{"name": "day", "transform": "identity", "source-id": 2, "new": 2, "field-id": 1000}],
        }
    ]
    assert (document["current-schema-id"], document["default-spec-id"], document["last-partition-id"]) == (0, 0, 1000)
    assert (document["sort-orders"], document["default-sort-order-id"]) == ([{"order-id": 0, "fields": []}], 0)
    assert document["refs"] == {"main": {"snapshot-id": 5, "type": "branch"}}
    assert (document["snapshots"], document["new"]) == (first_version()["snapshots"], first_version()["new"])


def test_metadata_may_be_compressed() -> None:
    data = gzip.compress(msgspec.json.encode(first_version()))
    assert read_table(data, SUBJECT) == read(first_version())
    for damaged in (data[:-4], data + data, data[:30], b"\x1f\x8b" + b"?" * 20):
        with pytest.raises(InvalidError, match="gzip"):
            read_table(damaged, SUBJECT)
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    gzip_header = b"\x1f\x8b\x08" + bytes(7)
    with pytest.raises(InvalidError, match="larger than"):
        read_table(gzip_header + block * 65, SUBJECT)


def test_no_current_snapshot_has_three_spellings() -> None:
    spellings: list[Any] = [-1, None, ...]
    for spelling in spellings:
        document = {
            name: value for name, value in table().items() if name != "current-snapshot-id" or spelling is not ...
        }
        if spelling is not ...:
            document["current-snapshot-id"] = spelling
        assert current_snapshot_id(read(document)) is None


def changed(**changes: Any) -> Document:
    return table(3) | {name.replace("_", "-"): value for name, value in changes.items()}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(format_version=4), "Cannot read unsupported version 4"),
        (changed(format_version=4, schemas=1), "Cannot read unsupported version 4"),
        (changed(format_version=True), "Expected `int`, got `bool`"),
        (changed(table_uuid=None), "table-uuid must exist in format v3"),
        (changed(next_row_id=None), "next-row-id must exist in format v3"),
        (changed(schemas=[]), "has no schema"),
        (changed(partition_specs=[]), "has no partition spec"),
        (changed(current_schema_id=1), "Cannot find schema-id 1"),
        (changed(default_spec_id=1), "Cannot find spec-id 1"),
        (changed(default_sort_order_id=1), "Cannot find order-id 1"),
        (changed(last_column_id=1), "above last-column-id 1"),
        (changed(last_column_id=2**31), "<= 2147483647"),
        (changed(schemas=table()["schemas"] * 2), "more than once"),
        (changed(snapshots=[snapshot(1), snapshot(1)]), "more than once"),
        (changed(snapshots=[snapshot(1)]), "greater than last sequence number 0"),
        (changed(current_snapshot_id=7), "Snapshot for reference main does not exist"),
        (changed(refs={"main": {"snapshot-id": 7, "type": "branch"}}), "Snapshot for reference main does not exist"),
        (
            changed(refs={"main": {"snapshot-id": 1, "type": "branch"}}, snapshots=[snapshot(1, 0)]),
            "does not match main branch",
        ),
        (changed(snapshots=[snapshot(1, 0) | {"manifest-list": None}]), "has no manifest-list"),
        (changed(properties={"a": 1}), "Expected `str`, got `int`"),
        (changed() | {"graveler.expired-snapshots": [{"snapshot-id": "1"}]}, "Expected `int`, got `str`"),
        (changed(location=""), "location"),
        (changed(last_sequence_number=1, format_version=1), "Sequence number must be 0 in v1"),
        (
            changed(
                sort_orders=[
                    {
                        "order-id": 0,
                        "fields": [
                            {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
                        ],
                    }
                ]
            ),
            "reserved for unsorted order",
        ),
    ],
)
def test_metadata_that_contradict_themselves_are_refused(document: Document, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        read(document)


def test_stored_metadata_that_are_damaged_are_corrupt() -> None:
    data = encode_metadata(table())
    for damaged in (data[:-1], data.replace(b'"schemas"', b'"schemes"'), b"", b"[]", b"\xff"):
        with pytest.raises(CorruptError, match=SUBJECT):
            read_table(damaged, SUBJECT, stored=True)


LONG_LIST: Any = "int"
for level in range(70):
    LONG_LIST = {"type": "list", "element-id": 100 + level, "element": LONG_LIST, "element-required": True}


@pytest.mark.parametrize(
    ("version", "columns", "words"),
    [
        (2, [field(1, "a", "int"), field(1, "b", "int")], "same field ID 1: a and b"),
        (2, [field(1, "a", "int"), field(2, "a", "int")], "multiple fields for name a"),
        (2, [field(1, "a.b", "int"), field(2, "a", struct(field(3, "b", "int")))], "multiple fields for name a.b"),
        (2, [field(1, "a", "blob")], "Cannot parse type string to primitive: blob"),
        (2, [field(1, "a", "decimal(39,1)")], "Cannot parse type"),
        (2, [field(1, "a", "timestamp_ns")], "timestamp_ns is not supported until v3"),
        (
            1,
            [field(1, "a", struct(field(2, "b", "variant")))],
            "Invalid type for a.b: variant is not supported until v3",
        ),
        (2, [field(1, "a", "geometry(OGC:CRS84)")], "is not supported until v3"),
        (2, [field(1, "a", "int", **{"initial-default": 1})], r"non-null default \(1\) is not supported until v3"),
        (3, [field(1, "a", "unknown", True)], "must be optional"),
        (3, [field(1, "a", "variant", **{"write-default": "x"})], "no default of type variant"),
        (3, [field(1, "a", "int", **{"initial-default": 2**31})], "no default of type int"),
        (3, [field(1, "a", "boolean", **{"initial-default": 1})], "no default of type boolean"),
        (3, [field(1, "a", "date", **{"write-default": 7})], "no default of type date"),
        (2, [field(2**31 - 1, "a", "int")], "reserved for metadata columns"),
        (2, [field(1, "a", LONG_LIST)], "more than 64 levels"),
    ],
)
def test_schemas_that_their_version_does_not_have_are_refused(
    version: int, columns: list[Document], words: str
) -> None:
    with pytest.raises(InvalidError, match=words):
        table(version, schema=schema(*columns))


def test_the_third_version_has_more_types_and_defaults() -> None:
    columns = [
        field(1, "a", "geography(EPSG:4326, karney)"),
        field(2, "b", "unknown"),
        field(3, "c", "timestamptz_ns", **{"initial-default": "2025-01-01T00:00:00.000000001+00:00"}),
        field(4, "d", "Decimal( 9 , 2 )", **{"write-default": "1.20"}),
        field(5, "e", struct(field(6, "f", "long", **{"initial-default": 2**62})), **{"initial-default": {}}),
        field(7, "g", "fixed[16]"),
    ]
    assert read(table(3, schema=schema(*columns)))["last-column-id"] == 7


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        (9, "field does not exist"),
        (20, "not a primitive type field"),
        (50, "not a required field"),
        (31, "must not be float or double"),
        (41, "must not be nested in names, which is not a struct"),
    ],
)
def test_identifier_fields_are_required_and_primitive(identifier: int, words: str) -> None:
    with pytest.raises(InvalidError, match=f"Cannot add fieldId {identifier} as an identifier field: {words}"):
        table(schema=nested_schema() | {"identifier-field-ids": [identifier]})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([(9, "a", "identity")], "Cannot find source column for partition field: 9"),
        ([(1, "", "identity")], "empty partition name"),
        ([(1, "a", "bucket[4]"), (2, "a", "identity")], "more than once: a"),
        ([(1, "a", "identity"), (1, "b", "identity")], "redundant partition"),
        ([(1, "name", "identity")], "name that exists in schema: name"),
        ([(2, "a", "day")], "Invalid source type string for transform: day"),
        ([(2, "a", "zorder[2]")], "Unknown transform"),
        ([(2, "a", "bucket[0]")], "Unknown transform"),
    ],
)
def test_partition_specs_fit_their_schema(fields: list[tuple[int, str, str]], words: str) -> None:
    parts = [{"source-id": source, "name": name, "transform": transform} for source, name, transform in fields]
    with pytest.raises(InvalidError, match=words):
        table(partition_spec={"fields": parts})
