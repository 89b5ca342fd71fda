"""Schemas of manifests that are written anew, for a partition spec and a format version."""

import json
import re
from functools import lru_cache
from typing import Any, Final

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import columns_by_id

_LIST_ID: Final = {132: 133, 135: 136}
_METRICS: Final = (
    (108, "column_sizes", 117, 118, "long"),
    (109, "value_counts", 119, 120, "long"),
    (110, "null_value_counts", 121, 122, "long"),
    (137, "nan_value_counts", 138, 139, "long"),
    (125, "lower_bounds", 126, 127, "bytes"),
    (128, "upper_bounds", 129, 130, "bytes"),
)


def manifest_schema(schema: Document, spec: Document, format_version: int) -> str:
    """Return the Avro schema, as JSON, of the entries of a manifest.

    ``schema`` is a schema of the table that has the columns of the partition spec ``spec``, both as in the table's metadata.
    :class:`InvalidError` for a column that a spec cannot have.
    """
    return _manifest_schema(json.dumps(spec.get("fields", [])), json.dumps(schema.get("fields", [])), format_version)


@lru_cache(maxsize=16)
def _manifest_schema(spec_fields: str, columns: str, format_version: int) -> str:
    types = {number: column.type for number, column in columns_by_id({"fields": json.loads(columns)}).items()}
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [_partition_field(field, types) for field in partition_fields(json.loads(spec_fields))],
    }
    entry = [
        _field("status", 0, "int"),
        _field("snapshot_id", 1, "long", required=format_version < 2),
        *(
            [
                _field("sequence_number", 3, "long", required=False),
                _field("file_sequence_number", 4, "long", required=False),
            ]
            if format_version >= 2
            else []
        ),
        _field("data_file", 2, {"type": "record", "name": "r2", "fields": _file_fields(partition, format_version)}),
    ]
    return json.dumps({"type": "record", "name": "manifest_entry", "fields": entry})


def _file_fields(partition: Document, format_version: int) -> list[Document]:
    later = format_version >= 2
    return [
        *([_field("content", 134, "int")] if later else []),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, partition),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        *([] if later else [_field("block_size_in_bytes", 105, "long")]),
        *(_metrics_field(*metrics) for metrics in _METRICS),
        _field("key_metadata", 131, "bytes", required=False),
        _field("split_offsets", 132, _list(132, "long"), required=False),
        *([_field("equality_ids", 135, _list(135, "int"), required=False)] if later else []),
        _field("sort_order_id", 140, "int", required=False),
        *([_field("first_row_id", 142, "long", required=False)] if format_version >= 3 else []),
        *([_field("referenced_data_file", 143, "string", required=False)] if later else []),
        *(
            [
                _field("content_offset", 144, "long", required=False),
                _field("content_size_in_bytes", 145, "long", required=False),
            ]
            if format_version >= 3
            else []
        ),
    ]


def _field(name: str, number: int, avro_type: Any, *, required: bool = True) -> Document:
    if required:
        return {"name": name, "type": avro_type, "field-id": number}
    return {"name": name, "type": ["null", avro_type], "default": None, "field-id": number}


def _list(number: int, items: str) -> Document:
    return {"type": "array", "items": items, "element-id": _LIST_ID[number]}


def _metrics_field(number: int, name: str, key_id: int, value_id: int, kind: str) -> Document:
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field("key", key_id, "int"), _field("value", value_id, kind)],
    }
    return _field(name, number, {"type": "array", "items": pair, "logicalType": "map"}, required=False)


def partition_fields(fields: list[Document]) -> list[Document]:
    """Return the fields of a spec with their IDs, which old specs of version 1 lack: they count from 1000."""
    return [{"field-id": 1000 + index} | field for index, field in enumerate(fields)]


def _partition_field(field: Document, types: dict[int, Any]) -> Document:
    transform = str(field.get("transform", "identity"))
    avro_type: Any
    if transform.startswith("bucket") or transform in ("year", "month", "hour"):
        avro_type = "int"
    elif transform == "day":
        avro_type = {"type": "int", "logicalType": "date"}
    elif transform in ("identity", "void") or transform.startswith("truncate"):
        source = types.get(field.get("source-id", -1))
        avro_type = (
            avro_type_of(source, str(field["field-id"])) if source is not None or transform != "void" else "string"
        )
    else:
        avro_type = "string"  # as the reference implementation has unknown transforms
    name = str(field.get("name"))
    avro_name = avro_field_name(name)
    avro_field = _field(avro_name, field["field-id"], avro_type, required=False)
    return avro_field if avro_name == name else avro_field | {"iceberg-field-name": name}


_PRIMITIVES: Final[dict[str, Any]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED: Final = re.compile(r"fixed\[\s*(\d{1,7})\s*\]")


def avro_type_of(column_type: Any, suffix: str) -> Any:
    """Return Avro's type for a primitive type of Iceberg. ``suffix`` makes the names of types unique in a schema.
    :class:`InvalidError` for a type that a partition field cannot have."""
    if simple := _PRIMITIVES.get(column_type) if isinstance(column_type, str) else None:
        return simple
    text = str(column_type)
    if text == "uuid":
        return {"type": "fixed", "size": 16, "logicalType": "uuid", "name": f"uuid_fixed_{suffix}"}
    if match := _FIXED.fullmatch(text):
        return {"type": "fixed", "size": int(match[1]), "name": f"fixed_{suffix}"}
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        return {
            "type": "fixed",
            "size": decimal_size(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
            "name": f"decimal_{suffix}",
        }
    raise InvalidError(f"a partition field cannot have values of type {text[:60]!r}; partition by another column")


def decimal_size(precision: int) -> int:
    """Return the number of bytes that hold each decimal of a precision."""
    unscaled: int = 10**precision - 1
    return (unscaled.bit_length() + 8) // 8


def avro_field_name(name: str) -> str:
    """Return a name as Avro allows it, with Iceberg's replacements of other characters."""
    replaced = "".join(
        letter if letter == "_" or (letter.isalnum() and letter.isascii()) else f"_x{ord(letter):X}" for letter in name
    )
    return f"_{replaced}" if not replaced or replaced[0].isdigit() else replaced
