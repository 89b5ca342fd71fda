"""Documents that the tests of tables share: a schema, tables of each version, snapshots, and updates."""

from typing import Any, Final

from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import new_table

UUID: Final = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
TIME: Final = 1_700_000_000_000
LOCATION: Final = "s3://lake/tables/t"


def field(field_id: int, name: str, column_type: Any, required: bool = False, /, **more: Any) -> Document:
    return {"id": field_id, "name": name, "required": required, "type": column_type, **more}


def struct(*fields: Document) -> Document:
    return {"type": "struct", "fields": list(fields)}


def schema(*fields: Document, **more: Any) -> Document:
    return {**struct(*fields), "schema-id": 0, **more}


def nested_schema() -> Document:
    """A schema with all kinds of nested types, and IDs without an order."""
    point = struct(field(31, "x", "double", True), field(32, "y", "double", True))
    return schema(
        field(10, "id", "long", True),
        field(20, "points", {"type": "list", "element-id": 30, "element": point, "element-required": True}),
        field(
            40,
            "names",
            {"type": "map", "key-id": 41, "key": "string", "value-id": 42, "value": "int", "value-required": False},
        ),
        field(50, "at", "timestamp", doc="moment"),
        **{"identifier-field-ids": [10]},
    )


def table(version: int = 2, **more: Any) -> Document:
    """A new table with columns ``id`` (1) and ``name`` (2)."""
    arguments: dict[str, Any] = {
        "schema": schema(field(1, "id", "long", True), field(2, "name", "string")),
        "partition_spec": None,
        "sort_order": None,
        "properties": {"format-version": str(version)},
        "location": LOCATION,
        "uuid": UUID,
        "time_ms": TIME,
    }
    return new_table(**(arguments | more))


def snapshot(snapshot_id: int, sequence_number: int | None = None, /, **more: Any) -> Document:
    return {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id if sequence_number is None else sequence_number,
        "timestamp-ms": TIME + snapshot_id,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }


def add_snapshot(snapshot_id: int, sequence_number: int | None = None, /, **more: Any) -> Document:
    return {"action": "add-snapshot", "snapshot": snapshot(snapshot_id, sequence_number, **more)}


def set_ref(snapshot_id: int, name: str = "main", /, **more: Any) -> Document:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot_id, **more}
