"""Manifests: the files of a table, an entry for each, as one snapshot wrote them.

Read from files of every version and writer, whose fields are told apart by ID. An entry keeps its encoded record: written again
into a manifest of the same schema, it differs only in status, snapshot, sequence numbers and row ID, and fields that this version
does not know survive. Metrics of columns are most of a manifest, and are skipped until :func:`record_of` is called.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from graveler.errors import InvalidError
from graveler.table_format.avro_files import read_avro_file, write_avro_file
from graveler.table_format.avro_types import (
    DAMAGE,
    LARGE_SCHEMA,
    AvroField,
    AvroType,
    Reader,
    Writer,
    parse_type,
    reader,
    skipper,
    writer,
)
from graveler.table_format.damaged_files import damaged_file
from graveler.table_format.live_files import EQUALITY_DELETES, POSITION_DELETES
from graveler.table_format.manifest_lists import DATA, DELETES, ManifestFile
from graveler.table_format.manifest_schemas import manifest_schema, partition_fields
from graveler.table_format.partition_values import NAN, PartitionValue, summarize_partitions
from graveler.table_format.plain_documents import Document

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""The status of an entry. Those of deleted files stay in the manifest of the snapshot that deleted them."""


class ManifestEntry(msgspec.Struct, frozen=True, eq=False):
    """A file in a manifest. :func:`msgspec.structs.replace` may change its status, snapshot, both sequence numbers, and first row
    ID before :meth:`Manifest.write`; for other fields, see :func:`entry_from`."""

    status: int
    snapshot_id: int | None
    """The snapshot that added the file, or deleted it."""
    sequence_number: int | None
    """The data sequence number: which deletes apply to the file."""
    file_sequence_number: int | None
    """The sequence number of the snapshot that added the file."""
    content: int
    path: str
    format: str
    partition: tuple[PartitionValue, ...]
    """Values in the order of the spec's fields; with ``spec_id`` a key of dictionaries."""
    record_count: int
    size: int
    """Bytes of the file."""
    sort_order_id: int | None
    equality_ids: tuple[int, ...] | None
    first_row_id: int | None
    referenced_data_file: str | None
    content_offset: int | None
    content_size: int | None
    """Bytes of the deletion vector at ``content_offset`` of the file."""
    spec_id: int
    raw: "tuple[_Layout, bytes, tuple[int, ...]] | Document"
    """The encoded record, or the record as a document: for this module."""

    def __repr__(self) -> str:
        return f"ManifestEntry(status={self.status}, path={self.path!r}, partition={self.partition!r})"

    @property
    def live(self) -> bool:
        """True if the file is one of the snapshot."""
        return self.status != DELETED

    @property
    def is_deletion_vector(self) -> bool:
        """True if the file holds a deletion vector of version 3, of ``referenced_data_file``."""
        return self.content == POSITION_DELETES and self.content_offset is not None


_ENTRY_FIELDS: Final = {
    0: ("status", ("int", "long")),
    1: ("snapshot_id", ("long", "int")),
    3: ("sequence_number", ("long", "int")),
    4: ("file_sequence_number", ("long", "int")),
    2: ("data_file", ("record",)),
}
_FILE_FIELDS: Final = {
    134: ("content", ("int", "long")),
    100: ("path", ("string",)),
    101: ("format", ("string",)),
    102: ("partition", ("record",)),
    103: ("record_count", ("long", "int")),
    104: ("size", ("long", "int")),
    140: ("sort_order_id", ("int", "long")),
    135: ("equality_ids", ("array",)),
    142: ("first_row_id", ("long", "int")),
    143: ("referenced_data_file", ("string",)),
    144: ("content_offset", ("long", "int")),
    145: ("content_size", ("long", "int")),
    105: ("block_size_in_bytes", ("long", "int")),
    108: ("column_sizes", ("array",)),
    109: ("value_counts", ("array",)),
    110: ("null_value_counts", ("array",)),
    137: ("nan_value_counts", ("array",)),
    125: ("lower_bounds", ("array",)),
    128: ("upper_bounds", ("array",)),
    131: ("key_metadata", ("bytes",)),
    132: ("split_offsets", ("array",)),
}
"""For each field ID: the name in this module, and Avro's types."""
_ENTRY_NAMES: Final = {"status": 0, "snapshot_id": 1, "data_file": 2, "sequence_number": 3, "file_sequence_number": 4}
_FILE_NAMES: Final = {
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": 102,
    "record_count": 103,
    "file_size_in_bytes": 104,
}
"""IDs of fields by name, for files whose schema has none."""

_NAMES: Final = ManifestEntry.__struct_fields__
_SLOTS: Final = {name: slot for slot, name in enumerate(_NAMES)}
_CHANGEABLE: Final = frozenset(("status", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"))
_UNUSED: Final = len(_NAMES)
_REQUIRED: Final = frozenset(("status", "path", "format", "partition", "record_count", "size"))


class _Layout:
    """A schema of entries: how they are read and written. Its fields lie in ``groups``, as in the file, one record behind the
    other: of those that may change, and of those that are copied."""

    def __init__(self, text: str, spec_fields: tuple[int, ...]) -> None:
        entry = parse_type(text)
        if entry.kind != "record":
            raise ValueError("its schema is not a record")
        entry = _with_module_names(entry, _ENTRY_FIELDS, _ENTRY_NAMES)
        by_name = {part.name: part.type for part in entry.fields}
        if "data_file" not in by_name or "status" not in by_name:
            raise ValueError("its entries have no status, or no file")
        file = _with_module_names(by_name["data_file"], _FILE_FIELDS, _FILE_NAMES)
        parts = {part.name: part.type for part in file.fields}
        if lack := _REQUIRED - set(parts) - set(by_name):
            raise ValueError(f"its entries have no {sorted(lack)[0]}")
        partition = parts["partition"]
        order = _partition_order(partition, spec_fields)
        partition = AvroType(
            "record",
            fields=tuple(
                AvroField(str(index), part.id, part.type) for index, part in zip(order, partition.fields, strict=True)
            ),
        )
        fields = sorted(partition.fields, key=lambda part: int(part.name))
        self.partition_types: tuple[AvroType, ...] = tuple(part.type.present for part in fields)
        self.partition_ids = tuple(part.id for part in fields)
        file = AvroType("record", fields=tuple(_with_type(part, "partition", partition) for part in file.fields))
        self.type = AvroType("record", fields=tuple(_with_type(part, "data_file", file) for part in entry.fields))
        self.read_record = reader(self.type)
        self.write_record = writer(self.type)
        flat = [
            part
            for entry_part in self.type.fields
            for part in (file.fields if entry_part.name == "data_file" else (entry_part,))
        ]
        self.groups: list[tuple[bool, list[tuple[int, Reader]], list[tuple[str, Writer]]]] = []
        for part in flat:
            changeable = part.name in _CHANGEABLE
            if not self.groups or self.groups[-1][0] != changeable:
                self.groups.append((changeable, [], []))
            self.groups[-1][1].append((_SLOTS.get(part.name, _UNUSED), _slot_reader(part)))
            self.groups[-1][2].append((part.name, writer(part.type)))

    def read(self, data: bytes, position: int) -> tuple[list[Any], int]:
        """Read the fields of an entry, in the order of :class:`ManifestEntry`'s."""
        values = _DEFAULTS.copy()
        cuts = []
        for _, fields, _ in self.groups:
            cuts.append(position)
            for slot, read_value in fields:
                values[slot], position = read_value(data, position)
        cuts.append(position)
        values[_RAW] = (self, data, tuple(cuts))
        return values, position

    def write(self, entry: ManifestEntry) -> bytes:
        """Return an entry, encoded."""
        if isinstance(entry.raw, tuple) and entry.raw[0] is self:
            _, data, cuts = entry.raw
            parts = []
            for index, (changeable, _, fields) in enumerate(self.groups):
                if changeable:
                    parts += [write(getattr(entry, name)) for name, write in fields]
                else:
                    parts.append(data[cuts[index] : cuts[index + 1]])
            return b"".join(parts)
        record = record_of(entry)
        partition = {str(index): value for index, value in enumerate(entry.partition)}
        file = {"block_size_in_bytes": _BLOCK_SIZE} | record["data_file"] | {"partition": partition}
        return self.write_record(record | {"data_file": file})


_RAW: Final = _SLOTS["raw"]
_BLOCK_SIZE: Final = 64 << 20
"""A field that version 1 requires, and that nothing reads."""
_DEFAULTS: Final[list[Any]] = [None] * (len(_NAMES) + 1)
_DEFAULTS[_SLOTS["content"]] = DATA


_recent_layout: Final = lru_cache(maxsize=32)(_Layout)


def _layout(text: str, spec_fields: tuple[int, ...]) -> _Layout:
    build = _recent_layout if len(text) <= LARGE_SCHEMA else _Layout
    return build(text, spec_fields)


def _with_module_names(
    record: AvroType, fields: dict[int, tuple[str, tuple[str, ...]]], names: dict[str, int]
) -> AvroType:
    """Give the fields of a record the names of this module, by ID; others keep theirs."""
    renamed = []
    for part in record.fields:
        number = part.id if part.id >= 0 else names.get(part.name, -1)
        name, kinds = fields.get(number, (part.name, ()))
        kind = part.type.kind if kinds == ("record",) else part.type.present.kind
        if kinds and kind not in kinds:
            raise ValueError(f"its field {part.name!r} has values of type {kind}")
        renamed.append(AvroField(name, part.id, part.type))
    if len({part.name for part in renamed}) != len(renamed):
        raise ValueError("two fields of its schema have one ID")
    return AvroType("record", fields=tuple(renamed))


def _with_type(part: AvroField, name: str, avro_type: AvroType) -> AvroField:
    return AvroField(name, part.id, avro_type) if part.name == name else part


def _partition_order(partition: AvroType, spec_fields: tuple[int, ...]) -> list[int]:
    """Return the index in the spec for each field of partitions. Without IDs, the order is the file's."""
    numbers = [part.id for part in partition.fields]
    if set(numbers) == set(spec_fields) and len(numbers) == len(spec_fields):
        return [spec_fields.index(number) for number in numbers]
    return list(range(len(numbers)))


def _slot_reader(part: AvroField) -> Reader:
    if part.name == "partition":
        return _partition_reader(part.type)
    if part.name == "equality_ids":
        return _tuple_reader(reader(part.type))
    if part.name in _SLOTS:
        return reader(part.type)
    skip = skipper(part.type)
    return lambda data, position: (None, skip(data, position))


def _tuple_reader(read_list: Reader) -> Reader:
    def read(data: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
        items, position = read_list(data, position)
        return None if items is None else tuple(items), position

    return read


def _partition_reader(partition: AvroType) -> Reader:
    readers = [(int(part.name), reader(part.type)) for part in partition.fields]
    floating = any(part.type.present.kind in ("float", "double") for part in partition.fields)
    values: list[PartitionValue] = [None] * len(readers)

    def read(data: bytes, position: int) -> tuple[tuple[PartitionValue, ...], int]:
        partition_values = values.copy()
        for index, read_value in readers:
            partition_values[index], position = read_value(data, position)
        if floating:
            partition_values = [NAN if value != value else value for value in partition_values]
        return tuple(partition_values), position

    return read


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest: what its header says, and its entries."""

    location: str
    format_version: int
    content: int
    spec_id: int
    metadata: dict[str, str]
    """The header, with the schema and the partition spec as JSON."""
    entries: list[ManifestEntry]
    layout: _Layout

    @property
    def partition_ids(self) -> tuple[int, ...]:
        """IDs of the fields of partitions, in the order of the spec, as readers find their values; -1 for a field without one."""
        return self.layout.partition_ids

    def write(
        self, entries: Iterable[ManifestEntry], location: str, *, snapshot_id: int, sequence_number: int
    ) -> tuple[bytes, ManifestFile]:
        """Return a manifest of entries in the schema of this one, and its description for a list. As :func:`write_manifest`;
        entries of other manifests lose the fields that this schema has not."""
        metadata = {key: value for key, value in self.metadata.items() if not key.startswith("avro.")}
        description = ManifestFile(
            location,
            0,
            self.spec_id,
            self.content,
            sequence_number if self.format_version > 1 else 0,
            added_snapshot_id=snapshot_id,
        )
        return _write(self.layout, self.metadata["avro.schema"], metadata, list(entries), description)


def read_manifest(contents: bytes, manifest: ManifestFile) -> Manifest:
    """Return a manifest with its entries, to which it gives what they inherit: snapshot, sequence numbers, row IDs.

    ``manifest`` is its description in a list. :class:`CorruptError` for bytes that are no manifest, or not this one.
    """
    location = manifest.path
    if len(contents) < manifest.length:
        raise damaged_file(location, f"it has {len(contents):,} bytes, and its list says {manifest.length:,}")
    avro_file = read_avro_file(contents, location)
    header = avro_file.metadata
    try:
        spec_fields = tuple(
            int(field["field-id"]) for field in partition_fields(json.loads(header.get("partition-spec", "[]")))
        )
        spec_id = int(header.get("partition-spec-id", manifest.spec_id or 0))
        layout = _layout(avro_file.schema, spec_fields)
        version = int(header.get("format-version", "1"))
        content = _CONTENTS[header.get("content", "data")]
    except (*DAMAGE, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise damaged_file(location, f"it is not a manifest ({error})") from error
    if manifest.spec_id is not None and manifest.spec_id != spec_id:
        raise damaged_file(location, f"it has partition spec {spec_id}, and its list says {manifest.spec_id}")
    if manifest.content != content:
        raise damaged_file(location, f"its content is {header.get('content', 'data')}, and its list says otherwise")
    entries = _entries_of(avro_file.records(layout.read), manifest, spec_id)
    return Manifest(location, version, content, spec_id, header, entries, layout)


_CONTENTS: Final = {"data": DATA, "deletes": DELETES}
_STATUS, _SNAPSHOT, _SEQUENCE, _FILE_SEQUENCE = (
    _SLOTS[name] for name in ("status", "snapshot_id", "sequence_number", "file_sequence_number")
)
_CONTENT, _PATH, _RECORDS, _SIZE, _ROW = (
    _SLOTS[name] for name in ("content", "path", "record_count", "size", "first_row_id")
)
_SPEC: Final = _SLOTS["spec_id"]


def _entries_of(records: list[list[Any]], manifest: ManifestFile, spec_id: int) -> list[ManifestEntry]:
    """Make entries of records. A row ID is counted for files that are live and have none, in the order of the entries."""
    snapshot, sequence, row = manifest.added_snapshot_id, manifest.sequence_number, manifest.first_row_id
    entries = []
    for number, values in enumerate(records):
        status = values[_STATUS]
        if status not in _STATES or values[_CONTENT] not in _FILE_CONTENTS[manifest.content]:
            raise damaged_file(manifest.path, f"entry {number:,} has status {status} and content {values[_CONTENT]}")
        if (
            values[_PATH] is None
            or values[_RECORDS] is None
            or values[_SIZE] is None
            or min(values[_RECORDS], values[_SIZE]) < 0
        ):
            raise damaged_file(manifest.path, f"entry {number:,} has no path, no number of records or no size")
        if values[_SNAPSHOT] is None:
            values[_SNAPSHOT] = snapshot
        if status == ADDED or sequence == 0:
            if values[_SEQUENCE] is None:
                values[_SEQUENCE] = sequence
            if values[_FILE_SEQUENCE] is None:
                values[_FILE_SEQUENCE] = sequence
        if row is None:
            values[_ROW] = None
        elif values[_ROW] is None and status != DELETED and values[_CONTENT] == DATA:
            values[_ROW] = row
            row += values[_RECORDS]
        values[_SPEC] = spec_id
        values.pop()
        entries.append(ManifestEntry(*values))
    return entries


_STATES: Final = (EXISTING, ADDED, DELETED)
_FILE_CONTENTS: Final = {DATA: (DATA,), DELETES: (POSITION_DELETES, EQUALITY_DELETES)}


def record_of(entry: ManifestEntry) -> Document:
    """Return all of an entry: a document with the names of :class:`ManifestEntry`, those of the file in ``data_file``; with
    ``key_metadata``, ``split_offsets``, the metrics of columns as Avro has them (``column_sizes``, ``value_counts``,
    ``null_value_counts``, ``nan_value_counts``, ``lower_bounds``, ``upper_bounds``: lists of ``key`` and ``value``), and with
    fields that this version does not know. :class:`CorruptError` if those are damaged."""
    if isinstance(entry.raw, dict):
        record = entry.raw
    else:
        layout, data, cuts = entry.raw
        try:
            record, _ = layout.read_record(data, cuts[0])
        except DAMAGE as error:
            raise damaged_file(entry.path, f"its metrics in the manifest are damaged ({error})") from error
    values = {name: getattr(entry, name) for name in _NAMES}
    file = record["data_file"] | {name: values[name] for name, _ in _FILE_FIELDS.values() if name in values}
    return record | {name: values[name] for name, _ in _ENTRY_FIELDS.values() if name in values} | {"data_file": file}


def entry_from(record: Document, spec_id: int) -> ManifestEntry:
    """Return the entry of a document as of :func:`record_of`, which it takes over. Fields of the file that may be null may be
    missing, too."""
    file = record["data_file"]
    return ManifestEntry(
        status=record["status"],
        snapshot_id=record.get("snapshot_id"),
        sequence_number=record.get("sequence_number"),
        file_sequence_number=record.get("file_sequence_number"),
        content=file.get("content", DATA),
        path=file["path"],
        format=file["format"],
        partition=tuple(file["partition"]),
        record_count=file["record_count"],
        size=file["size"],
        sort_order_id=file.get("sort_order_id"),
        equality_ids=file.get("equality_ids"),
        first_row_id=file.get("first_row_id"),
        referenced_data_file=file.get("referenced_data_file"),
        content_offset=file.get("content_offset"),
        content_size=file.get("content_size"),
        spec_id=spec_id,
        raw=record,
    )


def write_manifest(
    entries: Iterable[ManifestEntry],
    location: str,
    *,
    schema: Document,
    spec: Document,
    format_version: int,
    content: int,
    snapshot_id: int,
    sequence_number: int,
) -> tuple[bytes, ManifestFile]:
    """Return a manifest of entries in a schema made anew, and its description for the list of the snapshot that has this ID and
    sequence number.

    ``schema`` and ``spec`` are those of the table's metadata. Numbers of an entry that are None are inherited: the snapshot's.
    Equal parameters give equal bytes. :class:`InvalidError` for an entry without a field that is required, or of another spec.
    """
    fields = partition_fields(spec.get("fields", []))
    text = manifest_schema(schema, spec, format_version)
    metadata = {
        "schema": json.dumps(schema),
        "schema-id": str(schema.get("schema-id", 0)),
        "partition-spec": json.dumps(fields),
        "partition-spec-id": str(spec.get("spec-id", 0)),
        "format-version": str(format_version),
    }
    if format_version > 1:
        metadata["content"] = "deletes" if content == DELETES else "data"
    description = ManifestFile(
        location,
        0,
        spec.get("spec-id", 0),
        content,
        sequence_number if format_version > 1 else 0,
        added_snapshot_id=snapshot_id,
    )
    return _write(
        _layout(text, tuple(field["field-id"] for field in fields)), text, metadata, list(entries), description
    )


def _write(
    layout: _Layout, text: str, metadata: dict[str, str], entries: list[ManifestEntry], description: ManifestFile
) -> tuple[bytes, ManifestFile]:
    encoded = []
    for entry in entries:
        if entry.spec_id != description.spec_id or len(entry.partition) != len(layout.partition_types):
            raise InvalidError(
                f"file {entry.path} has partition spec {entry.spec_id}, and manifest {description.path} {description.spec_id}; "
                f"write it into another manifest"
            )
        if entry.status not in _STATES or entry.content not in _FILE_CONTENTS[description.content]:
            raise InvalidError(
                f"file {entry.path} has status {entry.status} and content {entry.content}, which manifest {description.path} "
                f"cannot have"
            )
        try:
            encoded.append(layout.write(entry))
        except (*DAMAGE, TypeError, AttributeError) as error:
            raise InvalidError(
                f"file {entry.path} cannot be in manifest {description.path}: a field is missing or invalid ({error})"
            ) from error
    contents = write_avro_file(metadata, text, encoded)
    return contents, describe(
        entries, msgspec.structs.replace(description, length=len(contents)), layout.partition_types
    )


def describe(
    entries: Sequence[ManifestEntry], manifest: ManifestFile, partition_types: tuple[AvroType, ...]
) -> ManifestFile:
    """Return the description of a manifest with its counts, least sequence number, and summaries computed from its entries."""
    files, rows = [0, 0, 0], [0, 0, 0]
    numbers = []
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.record_count
        if entry.status != DELETED and entry.sequence_number is not None:
            numbers.append(entry.sequence_number)
    return msgspec.structs.replace(
        manifest,
        min_sequence_number=min(numbers, default=manifest.sequence_number) if manifest.sequence_number else 0,
        added_files=files[ADDED],
        existing_files=files[EXISTING],
        deleted_files=files[DELETED],
        added_rows=rows[ADDED],
        existing_rows=rows[EXISTING],
        deleted_rows=rows[DELETED],
        partitions=summarize_partitions(partition_types, (entry.partition for entry in entries)),
    )
