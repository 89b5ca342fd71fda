"""Shapes of metadata documents: the fields that code of this package reads, with their types and bounds.

A document is validated by its shape and used as plain JSON, so fields that no shape has survive. A field that may be absent may
also be null.
"""

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from graveler.errors import UNREADABLE, GravelerError, InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.snapshot_merges import EXPIRED_FIELD

MAX_SCHEMAS: Final = 10_000
"""Schemas of a table or of a view."""

MAX_COLUMNS: Final = 32_768
"""Columns of a schema on one level; :mod:`graveler.table_format.schema_rules` holds nested ones to the same number."""

MAX_SPECS: Final = 10_000
"""Partition specs of a table, and sort orders."""

MAX_SPEC_FIELDS: Final = 1_000
"""Fields of a partition spec or of a sort order."""

MAX_SNAPSHOTS: Final = 200_000
"""Snapshots of a table, and entries of each of its logs."""

MAX_NAMES: Final = 100_000
"""Properties, refs, files of statistics, or encryption keys of a table."""

MAX_NESTING: Final = 256
"""Levels of JSON in a document: enough for the types that a schema may nest."""

Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
PositiveInt = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PositiveLong = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[dict[str, str], Meta(max_length=MAX_NAMES)]
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")]

_Shape = TypeVar("_Shape")


class ListType(Struct, tag="list", tag_field="type", rename="kebab"):
    """A list in a schema."""

    element_id: Int
    element: "ColumnType"
    element_required: bool


class MapType(Struct, tag="map", tag_field="type", rename="kebab"):
    """A map in a schema."""

    key_id: Int
    key: "ColumnType"
    value_id: Int
    value: "ColumnType"
    value_required: bool


class StructType(Struct, tag="struct", tag_field="type", rename="kebab"):
    """A struct in a schema."""

    fields: Annotated[list["SchemaField"], Meta(max_length=MAX_COLUMNS)]


ColumnType = str | StructType | ListType | MapType


class SchemaField(Struct, rename="kebab"):
    """A column, or a field of a struct."""

    id: Int
    name: str
    required: bool
    type: ColumnType
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


class SchemaShape(Struct, tag="struct", tag_field="type", rename="kebab"):
    """A schema of a table or of a view."""

    fields: Annotated[list[SchemaField], Meta(max_length=MAX_COLUMNS)]
    schema_id: Int | None = None
    identifier_field_ids: list[Int] | None = None


class PartitionField(Struct, rename="kebab"):
    """A field of a partition spec."""

    name: str
    transform: Text
    source_id: Int | None = None
    source_ids: Annotated[list[Int], Meta(min_length=1, max_length=MAX_SPEC_FIELDS)] | None = None
    field_id: Int | None = None


PartitionFields = Annotated[list[PartitionField], Meta(max_length=MAX_SPEC_FIELDS)]


class SpecShape(Struct, rename="kebab"):
    """A partition spec."""

    fields: PartitionFields
    spec_id: Int | None = None


class SortField(Struct, rename="kebab"):
    """A field of a sort order."""

    transform: Text
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]
    source_id: Int | None = None
    source_ids: Annotated[list[Int], Meta(min_length=1, max_length=MAX_SPEC_FIELDS)] | None = None


class SortOrderShape(Struct, rename="kebab"):
    """A sort order."""

    fields: Annotated[list[SortField], Meta(max_length=MAX_SPEC_FIELDS)]
    order_id: Int | None = None


class SnapshotShape(Struct, rename="kebab"):
    """A snapshot of a table."""

    snapshot_id: Long
    timestamp_ms: Long
    parent_snapshot_id: Long | None = None
    sequence_number: Count | None = None
    manifest_list: Text | None = None
    manifests: list[Text] | None = None
    summary: Texts | None = None
    schema_id: Int | None = None
    first_row_id: Count | None = None
    added_rows: Count | None = None
    key_id: str | None = None


class ExpiredSnapshotShape(Struct, rename="kebab"):
    """The note of a table's snapshot that expired (:mod:`graveler.table_format.snapshot_merges`)."""

    snapshot_id: Long
    summary: Texts | None = None


class RefShape(Struct, rename="kebab"):
    """A branch or a tag of a table."""

    snapshot_id: Long
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: PositiveInt | None = None
    max_snapshot_age_ms: PositiveLong | None = None
    max_ref_age_ms: PositiveLong | None = None


class SnapshotLogEntry(Struct, rename="kebab"):
    """The time at which a snapshot became the current one."""

    snapshot_id: Long
    timestamp_ms: Long


class MetadataLogEntry(Struct, rename="kebab"):
    """A former metadata file."""

    metadata_file: str
    timestamp_ms: Long


class BlobShape(Struct, rename="kebab"):
    """A blob in a file of statistics."""

    type: str
    snapshot_id: Long
    sequence_number: Long
    fields: list[Int]
    properties: dict[str, str] | None = None


class StatisticsShape(Struct, rename="kebab"):
    """A file of statistics of a snapshot."""

    snapshot_id: Long
    statistics_path: Text
    file_size_in_bytes: Count
    file_footer_size_in_bytes: Count
    blob_metadata: list[BlobShape]
    key_metadata: str | None = None


class PartitionStatisticsShape(Struct, rename="kebab"):
    """A file of statistics of a snapshot's partitions."""

    snapshot_id: Long
    statistics_path: Text
    file_size_in_bytes: Count


class EncryptionKeyShape(Struct, rename="kebab"):
    """An encrypted key of a table."""

    key_id: Text
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


class TableShape(Struct, rename="kebab"):
    """Metadata of a table, of all format versions; :mod:`graveler.table_format.table_metadata` knows the fields that each
    version requires."""

    format_version: Int
    location: Text
    last_updated_ms: Long
    last_column_id: Int
    table_uuid: Uuid | None = None
    last_sequence_number: Count | None = None
    next_row_id: Count | None = None
    schema: SchemaShape | None = None
    schemas: Annotated[list[SchemaShape], Meta(max_length=MAX_SCHEMAS)] | None = None
    current_schema_id: Int | None = None
    partition_spec: PartitionFields | None = None
    partition_specs: Annotated[list[SpecShape], Meta(max_length=MAX_SPECS)] | None = None
    default_spec_id: Int | None = None
    last_partition_id: Int | None = None
    sort_orders: Annotated[list[SortOrderShape], Meta(max_length=MAX_SPECS)] | None = None
    default_sort_order_id: Int | None = None
    properties: Texts | None = None
    current_snapshot_id: Long | None = None
    snapshots: Annotated[list[SnapshotShape], Meta(max_length=MAX_SNAPSHOTS)] | None = None
    refs: Annotated[dict[str, RefShape], Meta(max_length=MAX_NAMES)] | None = None
    snapshot_log: Annotated[list[SnapshotLogEntry], Meta(max_length=MAX_SNAPSHOTS)] | None = None
    metadata_log: Annotated[list[MetadataLogEntry], Meta(max_length=MAX_SNAPSHOTS)] | None = None
    statistics: Annotated[list[StatisticsShape], Meta(max_length=MAX_NAMES)] | None = None
    partition_statistics: Annotated[list[PartitionStatisticsShape], Meta(max_length=MAX_NAMES)] | None = None
    encryption_keys: Annotated[list[EncryptionKeyShape], Meta(max_length=MAX_NAMES)] | None = None
    expired_snapshots: Annotated[list[ExpiredSnapshotShape], Meta(max_length=MAX_SNAPSHOTS)] | None = msgspec.field(
        name=EXPIRED_FIELD, default=None
    )


class RepresentationShape(Struct, rename="kebab"):
    """A representation of a view: a query in a dialect of SQL, or one of a type that this package does not know."""

    type: Text
    sql: str | None = None
    dialect: str | None = None


class ViewVersionShape(Struct, rename="kebab"):
    """A version of a view."""

    version_id: Int
    schema_id: Int
    timestamp_ms: Long
    representations: Annotated[list[RepresentationShape], Meta(max_length=MAX_SPEC_FIELDS)]
    default_namespace: list[str]
    summary: Texts | None = None
    default_catalog: str | None = None


class ViewLogEntry(Struct, rename="kebab"):
    """The time at which a version of a view became the current one."""

    version_id: Int
    timestamp_ms: Long


class ViewShape(Struct, rename="kebab"):
    """Metadata of a view."""

    view_uuid: Uuid
    format_version: Int
    location: Text
    current_version_id: Int
    schemas: Annotated[list[SchemaShape], Meta(max_length=MAX_SCHEMAS)]
    versions: Annotated[list[ViewVersionShape], Meta(max_length=MAX_SNAPSHOTS)]
    version_log: Annotated[list[ViewLogEntry], Meta(max_length=MAX_SNAPSHOTS)]
    properties: Texts | None = None


def check_shape(
    document: object, shape: type[_Shape], subject: str, error_class: type[GravelerError] = InvalidError
) -> _Shape:
    """Return a document as its shape. ``subject`` names it in an error of ``error_class``, which is raised if it has another one.

    Costs about 1 µs for each field of the shape.
    """
    try:
        return msgspec.convert(document, shape)
    except UNREADABLE as error:
        raise error_class(f"{subject} is not valid: {error}; correct it") from error


def check_nesting(document: object, subject: str) -> None:
    """Raise :class:`~graveler.errors.InvalidError` for a document with more than :data:`MAX_NESTING` levels, so that code may
    walk through it, and through the one that it becomes part of, by recursion. Costs about 0.1 µs for each value."""
    level = [document]
    for _ in range(MAX_NESTING):
        level = [
            part
            for item in level
            for part in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise InvalidError(f"{subject} is not valid: it nests more than {MAX_NESTING} levels; flatten it")


def require_document(document: object, subject: str) -> Document:
    """Return a JSON object, or raise :class:`~graveler.errors.InvalidError`."""
    if not isinstance(document, dict):
        raise InvalidError(f"{subject} is not valid: it must be a JSON object; correct it")
    return document
