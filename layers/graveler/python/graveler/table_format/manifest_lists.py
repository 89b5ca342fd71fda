"""Manifest lists: the manifests of a snapshot, each with counts and the range of its partitions.

Read from files of every version and writer, whose fields are told apart by ID; written anew in the schema of the table's version.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from graveler.errors import InvalidError
from graveler.table_format.avro_files import read_avro_file, write_avro_file
from graveler.table_format.avro_types import AvroField, AvroType, Reader, Writer, parse_type, reader, writer
from graveler.table_format.damaged_files import damaged_file
from graveler.table_format.plain_documents import Document, ReadFile

DATA: Final = 0
"""The content of a manifest of data files."""
DELETES: Final = 1
"""The content of a manifest of delete files."""

MAX_MANIFESTS: Final = 200_000
"""Manifests of a list."""


class PartitionSummary(NamedTuple):
    """The values of one partition field in a manifest. Bounds are single values in Iceberg's binary form; None where the field
    has no value but null and NaN."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


class ManifestFile(msgspec.Struct, frozen=True):
    """A manifest, as a list describes it. In lists of version 1, counts may be None and sequence numbers are 0."""

    path: str
    length: int
    spec_id: int | None
    """None only where a snapshot of version 1 has its manifests in itself: the manifest knows it."""
    content: int = DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files: int | None = None
    existing_files: int | None = None
    deleted_files: int | None = None
    added_rows: int | None = None
    existing_rows: int | None = None
    deleted_rows: int | None = None
    partitions: tuple[PartitionSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """False if all of its entries are known to be of deleted files."""
        return self.added_files != 0 or self.existing_files != 0


_NAMES: Final = ManifestFile.__struct_fields__
_FIELDS: Final = {
    500: ("path", "manifest_path", "string"),
    501: ("length", "manifest_length", "long"),
    502: ("spec_id", "partition_spec_id", "int"),
    517: ("content", "content", "int"),
    515: ("sequence_number", "sequence_number", "long"),
    516: ("min_sequence_number", "min_sequence_number", "long"),
    503: ("added_snapshot_id", "added_snapshot_id", "long"),
    504: ("added_files", "added_files_count", "int"),
    505: ("existing_files", "existing_files_count", "int"),
    506: ("deleted_files", "deleted_files_count", "int"),
    512: ("added_rows", "added_rows_count", "long"),
    513: ("existing_rows", "existing_rows_count", "long"),
    514: ("deleted_rows", "deleted_rows_count", "long"),
    507: ("partitions", "partitions", ""),
    519: ("key_metadata", "key_metadata", "bytes"),
    520: ("first_row_id", "first_row_id", "long"),
}
"""For each field ID: the name in this module, in Avro, and Avro's type; in the order in which they are written."""
_OF_VERSION_2: Final = frozenset((517, 515, 516))
_OPTIONAL_IN_VERSION_1: Final = frozenset((504, 505, 506, 512, 513, 514))
_REQUIRED: Final = frozenset((500, 501, 502, 503)) | _OF_VERSION_2 | _OPTIONAL_IN_VERSION_1
_IDS: Final = {avro: number for number, (_, avro, _) in _FIELDS.items()} | {
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
_SUMMARY_IDS: Final = {509: 0, 518: 1, 510: 2, 511: 3}
_SUMMARY_NAMES: Final = {"contains_null": 509, "contains_nan": 518, "lower_bound": 510, "upper_bound": 511}
_DEFAULTS: Final = {"length": 0, "content": DATA, "sequence_number": 0, "min_sequence_number": 0}


def read_manifest_list(contents: bytes, location: str) -> list[ManifestFile]:
    """Return the manifests of a list, in its order. :class:`CorruptError` for a file that is none."""
    avro_file = read_avro_file(contents, location)
    if sum(block.count for block in avro_file.blocks) > MAX_MANIFESTS:
        raise damaged_file(location, f"it lists more than {MAX_MANIFESTS:,} manifests")
    try:
        read = _manifest_reader(avro_file.type)
    except ValueError as error:
        raise damaged_file(location, f"it is not a manifest list ({error})") from error
    return avro_file.records(read)


def manifests_of(snapshot: Document, read_file: ReadFile) -> list[ManifestFile]:
    """Return the manifests of a snapshot of a table's metadata: one read, or none if they are in the snapshot itself, as in old
    tables of version 1. :class:`CorruptError`, and what ``read_file`` raises."""
    location = snapshot.get("manifest-list")
    if isinstance(location, str):
        return read_manifest_list(read_file(location), location)
    paths = snapshot.get("manifests")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths) or len(paths) > MAX_MANIFESTS:
        number = snapshot.get("snapshot-id")
        raise damaged_file(f"snapshot {number}", "it names neither a manifest list nor manifests")
    return [ManifestFile(path, 0, None) for path in paths]


def _field_id(part: AvroField, names: dict[str, int]) -> int:
    return part.id if part.id >= 0 else names.get(part.name, -1)


@lru_cache(maxsize=32)
def _manifest_reader(avro_type: AvroType) -> Reader:
    if avro_type.kind != "record":
        raise ValueError("its schema is not a record")
    slots = {name: index for index, name in enumerate(_NAMES)}
    unused = len(_NAMES)
    plan: list[tuple[int, Reader]] = []
    for part in avro_type.fields:
        number = _field_id(part, _IDS)
        name, _, kind = _FIELDS.get(number, ("", "", ""))
        if number == 507:
            read = _summaries_reader(part.type)
        elif name and part.type.present.kind not in _COMPATIBLE[kind]:
            raise ValueError(f"field {part.name!r} is of type {part.type.present.kind}")
        else:
            read = reader(part.type)
        plan.append((slots.get(name, unused), read))
    if not {slots["path"], slots["spec_id"]} <= {slot for slot, _ in plan}:
        raise ValueError("the manifest's path or partition spec is missing")
    if len({slot for slot, _ in plan if slot != unused}) != sum(slot != unused for slot, _ in plan):
        raise ValueError("two fields have one ID")
    defaults: list[Any] = [_DEFAULTS.get(name) for name in _NAMES] + [None]
    numbers = [(slots[name], default) for name, default in _DEFAULTS.items()]
    path, spec = slots["path"], slots["spec_id"]

    def read_manifest_file(data: bytes, position: int) -> tuple[ManifestFile, int]:
        values = defaults.copy()
        for slot, read_value in plan:
            values[slot], position = read_value(data, position)
        for slot, default in numbers:
            if values[slot] is None:
                values[slot] = default
        if values[path] is None or values[spec] is None:
            raise ValueError("a manifest has no path, or no partition spec")
        return ManifestFile(*values[:unused]), position

    return read_manifest_file


_COMPATIBLE: Final = {
    "string": ("string",),
    "long": ("long", "int"),
    "int": ("int", "long"),
    "bytes": ("bytes", "fixed"),
}


def _summaries_reader(avro_type: AvroType) -> Reader:
    summaries = avro_type.present
    if summaries.kind != "array" or summaries.items is None or summaries.items.kind != "record":
        raise ValueError("the summaries of partitions are not a list of records")
    items = summaries.items
    order = [_SUMMARY_IDS.get(_field_id(part, _SUMMARY_NAMES), -1) for part in items.fields]
    kinds = {index: part.type.present.kind for index, part in zip(order, items.fields, strict=True)}
    if (
        kinds.get(0) != "boolean"
        or kinds.get(1, "boolean") != "boolean"
        or {kinds.get(2, "bytes"), kinds.get(3, "bytes")} != {"bytes"}
    ):
        raise ValueError("the summaries of partitions have other fields")
    names = [part.name for part in items.fields]
    sources = [names[order.index(index)] if index in order else "" for index in range(4)]
    read_records = reader(avro_type)

    def read(data: bytes, position: int) -> tuple[tuple[PartitionSummary, ...] | None, int]:
        records, position = read_records(data, position)
        if records is None:
            return None, position
        return tuple([PartitionSummary(*map(record.get, sources)) for record in records]), position

    return read


def write_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int = 0,
    first_row_id: int | None = None,
) -> bytes:
    """Return a manifest list of a snapshot. The numbers of the snapshot stand in its header, for people; ``first_row_id`` is the
    snapshot's, of version 3.

    :class:`InvalidError` for a manifest without a field that the version requires.
    """
    text, write = list_schema(format_version)
    metadata = {"snapshot-id": str(snapshot_id), "parent-snapshot-id": json.dumps(parent_snapshot_id)}
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        metadata["first-row-id"] = json.dumps(first_row_id)
    metadata["format-version"] = str(format_version)
    return write_avro_file(metadata, text, (_encoded(write, manifest) for manifest in manifests))


def _encoded(write: Writer, manifest: ManifestFile) -> bytes:
    partitions = manifest.partitions
    try:
        return write(
            msgspec.structs.asdict(manifest)
            | {"partitions": None if partitions is None else [summary._asdict() for summary in partitions]}
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidError(
            f"manifest {manifest.path} cannot be listed: one of its fields is missing or invalid ({error})"
        ) from error


@lru_cache(maxsize=8)
def list_schema(format_version: int) -> tuple[str, Writer]:
    """Return the schema of lists of a version, as JSON, and the function that writes a manifest by the names of
    :class:`ManifestFile`."""
    fields: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for number, (name, avro_name, kind) in _FIELDS.items():
        if (format_version < 2 and number in _OF_VERSION_2) or (format_version < 3 and number == 520):
            continue
        if format_version < 2 and number in (504, 505, 506):
            avro_name = avro_name.replace("_files_", "_data_files_")
        required = number in _REQUIRED and not (format_version < 2 and number in _OPTIONAL_IN_VERSION_1)
        value: Any = kind or {"type": "array", "items": _SUMMARY_SCHEMA, "element-id": 508}
        fields.append(
            {"name": avro_name, "type": value, "field-id": number}
            if required
            else {"name": avro_name, "type": ["null", value], "default": None, "field-id": number}
        )
        names[avro_name] = name
    schema = {"type": "record", "name": "manifest_file", "fields": fields}
    text = json.dumps(schema)
    parsed = parse_type(text)
    renamed = tuple(AvroField(names[part.name], part.id, part.type) for part in parsed.fields)
    return text, writer(AvroType("record", fields=renamed))


_SUMMARY_SCHEMA: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
        {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
        {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
    ],
}
