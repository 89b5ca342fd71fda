"""Metadata documents of tables: reading and checking one, a new table's, and what each format version has in it."""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError, GravelerError, InvalidError
from graveler.table_format.document_shapes import (
    SchemaShape,
    SortOrderShape,
    SpecShape,
    TableShape,
    Text,
    Texts,
    Uuid,
    check_nesting,
    check_shape,
)
from graveler.table_format.partition_specs import (
    FIELD_IDS_BEFORE,
    INITIAL_SPEC_ID,
    UNSORTED_ORDER_ID,
    check_sort_order,
    check_spec,
    fresh_sort_order,
    fresh_spec,
    highest_partition_id,
)
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import assign_fresh_ids, check_schema, columns_by_id, highest_field_id

MAX_BYTES: Final = 64 * 1024 * 1024
"""The size of a metadata file, in bytes, also when it is decompressed."""

MAX_VALUES: Final = 8_000_000
"""JSON values of a metadata file, which bound the memory that it needs: about 100 bytes each."""

DEFAULT_VERSION: Final = 2
LATEST_VERSION: Final = 3
ROW_LINEAGE_VERSION: Final = 3
"""The first format version whose rows have IDs."""

MAIN: Final = "main"
"""The branch of a table whose snapshot is the current one."""

NO_SNAPSHOT: Final = -1
"""``current-snapshot-id`` of a table without a snapshot, in versions 1 and 2."""

FORMAT_VERSION_PROPERTY: Final = "format-version"

RESERVED_PROPERTIES: Final = frozenset(
    (
        FORMAT_VERSION_PROPERTY,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    )
)
"""Properties that a table's metadata never has: their values are fields of it."""

_GZIP: Final = b"\x1f\x8b"

_REQUIRED: Final[dict[int, tuple[str, ...]]] = {
    1: (),
    2: (
        "table-uuid",
        "last-sequence-number",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    ),
}
_REQUIRED[3] = (*_REQUIRED[2], "next-row-id")


def read_table(data: bytes, subject: str, *, stored: bool = False) -> Document:
    """Return a table's metadata, as a client or another catalog wrote it: JSON, also compressed by gzip.

    It has the fields of its version, and those that readers derive from them in older files: ``schemas``, ``partition-specs``,
    ``sort-orders``, ``last-partition-id``, ``refs`` with ``main``. ``subject`` names it in errors. Raises
    :class:`~graveler.errors.InvalidError` if it is none, contradicts itself, or is over a bound. ``stored`` metadata, which this
    package wrote, are checked less, and are :class:`~graveler.errors.CorruptError` if they are none. Costs about 7 µs for each
    KiB, and if not stored as much again, and 3 µs for each column of each schema.
    """
    if stored:
        return _read(data, subject, CorruptError)
    document = _read(data, subject, InvalidError)
    check_nesting(document, subject)
    _check_foreign(document, subject)
    return document


def encode_metadata(document: Document) -> bytes:
    """Return the bytes of a metadata document: JSON without spaces, about 1 µs for each KiB.

    Raises :class:`~graveler.errors.InvalidError` if they are more than :data:`MAX_BYTES`, or cannot be written.
    """
    try:
        data = msgspec.json.encode(document)
    except (*UNREADABLE, OverflowError, TypeError) as error:
        raise InvalidError(
            f"metadata cannot be written as JSON: {error}; correct the values that were added"
        ) from error
    if len(data) > MAX_BYTES:
        raise InvalidError(
            f"metadata would have {len(data):,} bytes, but at most {MAX_BYTES:,} are read; expire snapshots"
        )
    return data


def decode_metadata(data: bytes, subject: str, error_class: type[GravelerError]) -> Document:
    """Return the JSON object of a metadata file, also of a compressed one, of which nothing else is checked.

    Raises ``error_class`` if it is none, or larger than :data:`MAX_BYTES` or :data:`MAX_VALUES`. Costs about 5 µs for each KiB.
    """
    if data.startswith(_GZIP):
        data = _decompressed(data, subject, error_class)
    if len(data) > MAX_BYTES:
        raise error_class(f"{subject} is larger than {MAX_BYTES:,} bytes; shorten it")
    if len(data) > MAX_VALUES and data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise error_class(f"{subject} has more than {MAX_VALUES:,} values; shorten it")
    try:
        document = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise error_class(f"{subject} is not valid JSON: {error}; correct it") from error
    if not isinstance(document, dict):
        raise error_class(f"{subject} is not valid metadata: it must be a JSON object; correct it")
    return document


def _decompressed(data: bytes, subject: str, error_class: type[GravelerError]) -> bytes:
    decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = decompressor.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise error_class(f"{subject} is not valid gzip: {error}; write it again") from error
    if len(text) <= MAX_BYTES and (not decompressor.eof or decompressor.unused_data):
        raise error_class(f"{subject} is not valid gzip: it must be one whole member; write it again")
    return text


def _read(data: bytes, subject: str, error_class: type[GravelerError]) -> Document:
    document = decode_metadata(data, subject, error_class)
    version = document.get("format-version")
    if isinstance(version, int) and version not in _REQUIRED:
        raise error_class(f"{subject}: Cannot read unsupported version {version}; use versions 1 to {LATEST_VERSION}")
    check_shape(document, TableShape, subject, error_class)
    missing = [name for name in _REQUIRED[document["format-version"]] if document.get(name) is None]
    if missing:
        raise error_class(f"{subject}: {missing[0]} must exist in format v{version}; add it")
    _derive(document, subject, error_class)
    _check_references(document, subject, error_class)
    return document


def _derive(document: Document, subject: str, error_class: type[GravelerError]) -> None:
    """Add the fields that readers derive in files of older writers."""
    if not document.get("schemas"):
        schema = document.get("schema")
        if schema is None:
            raise error_class(f"{subject} has no schema; add schemas")
        document["schemas"] = [schema]
        document["current-schema-id"] = schema.get("schema-id") or 0
    for schema in document["schemas"]:
        if schema.get("schema-id") is None:
            schema["schema-id"] = 0
    if not document.get("partition-specs"):
        fields = document.get("partition-spec")
        if fields is None:
            raise error_class(f"{subject} has no partition spec; add partition-specs")
        document["partition-specs"] = [{"spec-id": INITIAL_SPEC_ID, "fields": fields}]
        document["default-spec-id"] = INITIAL_SPEC_ID
    for spec in document["partition-specs"]:
        if spec.get("spec-id") is None:
            spec["spec-id"] = INITIAL_SPEC_ID
        for position, field in enumerate(spec["fields"]):
            if field.get("field-id") is None:
                field["field-id"] = FIELD_IDS_BEFORE + 1 + position
    if document.get("last-partition-id") is None:
        document["last-partition-id"] = max(map(highest_partition_id, document["partition-specs"]))
    if not document.get("sort-orders"):
        document["sort-orders"] = [{"order-id": UNSORTED_ORDER_ID, "fields": []}]
    for order in document["sort-orders"]:
        if order.get("order-id") is None:
            order["order-id"] = UNSORTED_ORDER_ID
    for name in ("current-schema-id", "default-spec-id", "default-sort-order-id"):
        if document.get(name) is None:
            document[name] = 0
    for name in ("snapshots", "snapshot-log", "metadata-log"):
        if document.get(name) is None:
            document[name] = []
    for name in ("properties", "refs"):
        if document.get(name) is None:
            document[name] = {}
    current = current_snapshot_id(document)
    if current is not None and MAIN not in document["refs"]:
        document["refs"][MAIN] = {"snapshot-id": current, "type": "branch"}


def _check_references(document: Document, subject: str, error_class: type[GravelerError]) -> None:
    """Check the IDs by which parts of a document name others."""
    for name, parts, part_id in (
        ("current-schema-id", "schemas", "schema-id"),
        ("default-spec-id", "partition-specs", "spec-id"),
        ("default-sort-order-id", "sort-orders", "order-id"),
        (None, "snapshots", "snapshot-id"),
    ):
        ids = [part[part_id] for part in document[parts]]
        unique = set(ids)
        if len(unique) < len(ids):
            raise error_class(f"{subject}: {parts} have one {part_id} more than once; number them anew")
        if name and document[name] not in unique:
            raise error_class(f"{subject}: Cannot find {part_id} {document[name]} ({name}) in {parts}; correct it")
    for name, ref in document["refs"].items():
        if ref["snapshot-id"] not in unique:
            raise error_class(
                f"{subject}: Snapshot for reference {name} does not exist in the existing snapshots list: "
                f"{ref['snapshot-id']}; remove the reference"
            )
    current = current_snapshot_id(document)
    main = document["refs"].get(MAIN)
    if (main["snapshot-id"] if main else None) != current:
        raise error_class(
            f"{subject}: Current snapshot ID does not match main branch ({current} != {main and main['snapshot-id']}); "
            f"correct current-snapshot-id or refs"
        )


def _check_foreign(document: Document, subject: str) -> None:
    version, last = document["format-version"], document.get("last-sequence-number") or 0
    if version == 1 and last:
        raise InvalidError(f"{subject}: Sequence number must be 0 in v1: {last}; correct last-sequence-number")
    for snapshot in document["snapshots"]:
        if (snapshot.get("sequence-number") or 0) > last:
            raise InvalidError(
                f"{subject}: Invalid snapshot with sequence number {snapshot['sequence-number']} greater than last sequence "
                f"number {last}; correct last-sequence-number"
            )
        if snapshot.get("manifest-list") is None and snapshot.get("manifests") is None:
            raise InvalidError(f"{subject}: snapshot {snapshot['snapshot-id']} has no manifest-list; add it")
    for schema in document["schemas"]:
        name = f"schema {schema['schema-id']} of {subject}"
        check_schema(schema, LATEST_VERSION, name)
        if highest_field_id(schema) > document["last-column-id"]:
            raise InvalidError(f"{name} has a column above last-column-id {document['last-column-id']}; correct that")
    highest = max(map(highest_partition_id, document["partition-specs"]))
    if highest > max(document["last-partition-id"], FIELD_IDS_BEFORE):
        raise InvalidError(
            f"{subject}: field {highest} of a partition spec is above last-partition-id {document['last-partition-id']}; "
            f"correct that"
        )
    if any(order["fields"] and order["order-id"] == UNSORTED_ORDER_ID for order in document["sort-orders"]):
        raise InvalidError(f"{subject}: Sort order ID 0 is reserved for unsorted order; number the sort order anew")
    encode_metadata(document)


def new_table(
    *,
    schema: Document,
    partition_spec: Document | None,
    sort_order: Document | None,
    properties: Mapping[str, str],
    location: str,
    uuid: str,
    time_ms: int,
) -> Document:
    """Return the metadata of a new table without a snapshot.

    Columns, partition fields and the sort order have fresh IDs, whichever the client gave them. Property ``format-version`` (1 to
    3) becomes the format version; other reserved properties are left out. ``location`` is where the table's files lie,
    ``time_ms`` the time in milliseconds since 1970. Raises :class:`~graveler.errors.InvalidError` for a schema, spec or order
    that is not valid, or does not fit the others. Costs about 10 µs for each column.
    """
    check_shape(schema, SchemaShape, "schema")
    check_shape(location, Text, "location")
    check_shape(uuid, Uuid, "table UUID")
    check_shape(properties, Texts, "properties")
    version = _new_version(properties)
    check_schema(schema, version, "schema")
    check_nesting([schema, partition_spec, sort_order], "schema, partition-spec or sort order")
    for part, shape, name in (
        (partition_spec, SpecShape, "partition-spec"),
        (sort_order, SortOrderShape, "sort order"),
    ):
        if part is not None:
            check_shape(part, shape, name)
    fresh, new_ids = assign_fresh_ids(schema)
    fresh = {**fresh, "schema-id": 0}
    spec, order = fresh_spec(partition_spec, new_ids), fresh_sort_order(sort_order, new_ids)
    columns = columns_by_id(fresh)
    check_spec(spec, columns)
    check_sort_order(order, columns)
    document = empty_table(version, uuid) | {
        "location": location.rstrip("/") or location,
        "last-updated-ms": time_ms,
        "last-column-id": max(new_ids.values(), default=0),
        "schemas": [fresh],
        "partition-specs": [spec],
        "last-partition-id": highest_partition_id(spec),
        "sort-orders": [order],
        "default-sort-order-id": order["order-id"],
        "properties": {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES},
    }
    return with_current_parts(document)


def _new_version(properties: Mapping[str, str]) -> int:
    text = properties.get(FORMAT_VERSION_PROPERTY, str(DEFAULT_VERSION))
    if text not in ("1", "2", "3"):
        raise InvalidError(f"Unsupported format version: v{text} (supported: v{LATEST_VERSION}); use 1, 2 or 3")
    return int(text)


def empty_table(format_version: int, uuid: str | None) -> Document:
    """Return the metadata of a table that has no schema yet: all fields of its version, in the order of files, those that are
    not decided as null."""
    document: Document = {
        "format-version": format_version,
        "table-uuid": uuid,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": None,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": INITIAL_SPEC_ID,
        "partition-specs": [],
        "last-partition-id": FIELD_IDS_BEFORE,
        "default-sort-order-id": UNSORTED_ORDER_ID,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": no_snapshot(format_version),
        "next-row-id": 0,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if format_version < 2:
        del document["last-sequence-number"]
    if format_version < ROW_LINEAGE_VERSION:
        del document["next-row-id"]
    return document


def no_snapshot(format_version: int) -> int | None:
    """Return ``current-snapshot-id`` of a table without a snapshot: versions 1 and 2 write -1, later ones null."""
    return NO_SNAPSHOT if format_version < 3 else None


def with_current_parts(document: Document) -> Document:
    """Return a document of format version 1 with its current schema and spec also in ``schema`` and ``partition-spec``, where
    older readers look for them; one of a later version without these fields, and with those that the version requires."""
    version = document["format-version"]
    document = dict(document)
    if version == 1:
        document["schema"] = current_schema(document)
        document["partition-spec"] = default_spec(document)["fields"]
        return document
    document.pop("schema", None)
    document.pop("partition-spec", None)
    if document.get("last-sequence-number") is None:
        document["last-sequence-number"] = 0
    if version >= ROW_LINEAGE_VERSION and document.get("next-row-id") is None:
        document["next-row-id"] = 0
    return document


def current_snapshot_id(document: Document) -> int | None:
    """Return the ID of a table's current snapshot, or None if it has none."""
    snapshot_id: int | None = document.get("current-snapshot-id")
    return None if snapshot_id == NO_SNAPSHOT else snapshot_id


def snapshot_by_id(document: Document, snapshot_id: int) -> Document | None:
    """Return a snapshot of a table, or None. Looks through all snapshots."""
    return _part(document["snapshots"], "snapshot-id", snapshot_id)


def current_schema(document: Document) -> Document:
    """Return a table's current schema."""
    schema = _part(document["schemas"], "schema-id", document["current-schema-id"])
    assert schema is not None
    return schema


def default_spec(document: Document) -> Document:
    """Return a table's default partition spec."""
    spec = _part(document["partition-specs"], "spec-id", document["default-spec-id"])
    assert spec is not None
    return spec


def default_sort_order(document: Document) -> Document:
    """Return a table's default sort order."""
    order = _part(document["sort-orders"], "order-id", document["default-sort-order-id"])
    assert order is not None
    return order


def _part(parts: list[Any], name: str, part_id: int) -> Document | None:
    return next((part for part in parts if part[name] == part_id), None)
