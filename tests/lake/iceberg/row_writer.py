"""A writer of what PyIceberg does not write: deletes by position, by vector and by value, and compactions."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from graveler.lake.repository import OpenRepository
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.deletion_vectors import write_vector
from graveler.table_format.manifest_lists import DATA, DELETES, ManifestFile, manifests_of, write_manifest_list
from graveler.table_format.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    ManifestEntry,
    entry_from,
    read_manifest,
    write_manifest,
)
from tests.lake.iceberg.row_reader import Document, Rows, TableFile, Values, arrow_schema
from tests.lake.iceberg.stored_files import read_location, write_location

_POSITIONS = arrow_schema(
    [{"name": "file_path", "type": "string", "id": 2147483546}, {"name": "pos", "type": "long", "id": 2147483545}]
)
_names = count()


@dataclass
class RowChange:
    """What a snapshot changes: rows to write, positions to delete by data file, keys to delete by value (with the names and IDs
    of their columns), and files to remove. A compaction keeps the sequence number of what it read."""

    operation: str
    rows: Sequence[Values] = ()
    positions: dict[str, set[int]] = field(default_factory=dict)
    keys: Sequence[Values] = ()
    removed: Iterable[str] = ()


class RowWriter:
    """Commits snapshots of a table on branches. ``random`` decides what a writer may choose."""

    def __init__(self, repository: OpenRepository, random: Random) -> None:
        self._repository = repository
        self._random = random

    def commit(self, branch: str, table: Identifier, document: Document, rows: Rows, change: RowChange) -> None:
        """Commit a snapshot on the present one, whose rows are ``rows``."""
        snapshot = _Snapshot(document, rows, self._random)
        updates = snapshot.updates(change)
        requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot.parent_id}
        self._repository.commit_tables(branch, tables=(TableChange(table, (requirement,), updates),))


class _Snapshot:
    def __init__(self, document: Document, rows: Rows, random: Random) -> None:
        self._document, self._rows, self._random = document, rows, random
        self._version = document["format-version"]
        self._specs = {spec["spec-id"]: spec for spec in document["partition-specs"]}
        self._spec = self._specs[document["default-spec-id"]]
        self._schema = next(part for part in document["schemas"] if part["schema-id"] == document["current-schema-id"])
        number = document.get("current-snapshot-id", -1)
        self.parent_id: int | None = None if number == -1 else number
        self._sequence = (document.get("last-sequence-number") or 0) + 1
        self._id = random.getrandbits(62) + 1
        self._entries: list[ManifestEntry] = []

    def updates(self, change: RowChange) -> tuple[Document, ...]:
        """Write the files of a snapshot, and return the updates that add it."""
        compacts = change.operation == "replace"
        for partition, group in self._by_partition(self._spec, change.rows).items():
            self._add(DATA, self._spec["spec-id"], partition, self._parquet(group), len(group), old=compacts)
        removed = set(change.removed)
        targeted = {
            file.path
            for file in self._rows.deletes
            if file.record.get("referenced_data_file")
            in removed | (set(change.positions) if self._version > 2 else set())
        }
        if self._version > 2:
            self._vectors(change.positions)
        else:
            self._position_deletes(change.positions)
        self._equality_deletes(change.keys)
        manifests = self._manifests(removed | targeted)
        first_row_id = next_row_id = self._document.get("next-row-id") or 0
        for index, manifest in enumerate(manifests):
            if self._version > 2 and manifest.content == DATA and manifest.first_row_id is None:
                manifests[index] = msgspec.structs.replace(manifest, first_row_id=next_row_id)
                next_row_id += (manifest.added_rows or 0) + (manifest.existing_rows or 0)
        location = self._put("metadata", "avro", self._list(manifests, first_row_id))
        snapshot: Document = {
            "snapshot-id": self._id,
            **({"sequence-number": self._sequence} if self._version > 1 else {}),
            "timestamp-ms": self._document["last-updated-ms"] + 1,
            "summary": {"operation": change.operation},
            "manifest-list": location,
            "schema-id": self._schema["schema-id"],
        }
        if self.parent_id is not None:
            snapshot["parent-snapshot-id"] = self.parent_id
        if self._version > 2:
            snapshot |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
        return (
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": self._id},
        )

    def _put(self, folder: str, ending: str, data: bytes) -> str:
        location = f"{self._document['location']}/{folder}/{self._id:x}-{next(_names)}.{ending}"
        write_location(location, data)
        return location

    def _by_partition(self, spec: Document, rows: Iterable[Values]) -> dict[tuple[Any, ...], list[Values]]:
        groups: dict[tuple[Any, ...], list[Values]] = {}
        for row in rows:
            partition = tuple(
                None if part["transform"] == "void" else row[part["source-id"]] for part in spec["fields"]
            )
            groups.setdefault(partition, []).append(row)
        return groups

    def _parquet(self, rows: Iterable[Values], ids: Sequence[int] = ()) -> bytes:
        columns = [column for column in self._schema["fields"] if column["id"] in ids or not ids]
        named = [{column["name"]: row.get(column["id"]) for column in columns} for row in rows]
        return _file(pa.Table.from_pylist(named, arrow_schema(columns)))

    def _add(
        self,
        content: int,
        spec_id: int,
        partition: tuple[Any, ...],
        data: bytes,
        rows: int,
        *,
        old: bool = False,
        **more: Any,
    ) -> None:
        ending = "puffin" if "content_offset" in more else "parquet"
        data_file = {
            "content": content,
            "path": self._put("data", ending, data),
            "format": ending.upper(),
            "partition": list(partition),
            "record_count": rows,
            "size": len(data),
            **more,
        }
        record = {
            "status": ADDED,
            "snapshot_id": self._id,
            "sequence_number": self._sequence - 1 if old else None,
            "file_sequence_number": None,
            "data_file": data_file,
        }
        self._entries.append(entry_from(record, spec_id))

    def _position_deletes(self, positions: dict[str, set[int]]) -> None:
        """Write deletes for a data file each, or for all of a partition."""
        of_each = self._random.random() < 0.5
        groups: dict[tuple[Any, ...], list[str]] = {}
        for file in self._files(positions):
            groups.setdefault((file.spec_id, file.partition, *([file.path] if of_each else [])), []).append(file.path)
        for (spec_id, partition, *_), paths in groups.items():
            pairs = [(path, position) for path in sorted(paths) for position in sorted(positions[path])]
            table = pa.Table.from_pylist([{"file_path": path, "pos": position} for path, position in pairs], _POSITIONS)
            more: Document = {}
            if self._random.random() < 0.7:
                bounds = [
                    (name, pair[0].encode()) for name, pair in (("lower_bounds", pairs[0]), ("upper_bounds", pairs[-1]))
                ]
                more = {name: [{"key": 2147483546, "value": bound}] for name, bound in bounds}
            if of_each:
                more["referenced_data_file"] = paths[0]
            self._add(1, spec_id, partition, _file(table), len(pairs), **more)

    def _vectors(self, positions: dict[str, set[int]]) -> None:
        for file in self._files(positions):
            former = set(range(file.record["record_count"])) - {position for position, _ in self._rows.live[file.path]}
            deleted = former | positions[file.path]
            vector = write_vector(deleted, file.path)
            more: Document = {
                "referenced_data_file": file.path,
                "content_offset": vector.offset,
                "content_size": vector.size,
            }
            self._add(1, file.spec_id, file.partition, vector.contents, len(deleted), **more)

    def _files(self, positions: dict[str, set[int]]) -> list[TableFile]:
        return [file for file in self._rows.files if positions.get(file.path)]

    def _equality_deletes(self, keys: Sequence[Values]) -> None:
        if not keys:
            return
        ids = sorted(keys[0])
        for spec_id in sorted({self._spec["spec-id"], *(file.spec_id for file in self._rows.files)}):
            for partition, group in self._by_partition(self._specs[spec_id], keys).items():
                self._add(2, spec_id, partition, self._parquet(group, ids), len(group), equality_ids=ids)

    def _manifests(self, removed: set[str]) -> list[ManifestFile]:
        parent = next((part for part in self._document["snapshots"] if part["snapshot-id"] == self.parent_id), None)
        manifests = []
        for manifest in manifests_of(parent, _read) if parent else ():
            entries = [entry for entry in read_manifest(_read(manifest.path), manifest).entries if entry.live]
            if any(entry.path in removed for entry in entries):
                entries = [
                    msgspec.structs.replace(entry, status=DELETED, snapshot_id=self._id)
                    if entry.path in removed
                    else msgspec.structs.replace(entry, status=EXISTING)
                    for entry in entries
                ]
                manifests.append(self._manifest(entries, manifest.content))
            else:
                manifests.append(manifest)
        groups: dict[tuple[int, int], list[ManifestEntry]] = {}
        for entry in self._entries:
            groups.setdefault((DATA if entry.content == DATA else DELETES, entry.spec_id), []).append(entry)
        return [*manifests, *(self._manifest(entries, content) for (content, _), entries in groups.items())]

    def _manifest(self, entries: Sequence[ManifestEntry], content: int) -> ManifestFile:
        spec = self._specs[entries[0].spec_id]
        data, manifest = write_manifest(
            entries,
            f"{self._document['location']}/metadata/{self._id:x}-{next(_names)}.avro",
            schema=self._schema,
            spec=spec,
            format_version=self._version,
            content=content,
            snapshot_id=self._id,
            sequence_number=self._sequence,
        )
        write_location(manifest.path, data)
        return manifest

    def _list(self, manifests: Sequence[ManifestFile], first_row_id: int) -> bytes:
        return write_manifest_list(
            manifests,
            format_version=self._version,
            snapshot_id=self._id,
            parent_snapshot_id=self.parent_id,
            sequence_number=self._sequence,
            first_row_id=first_row_id,
        )


def _file(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def _read(location: str) -> bytes:
    return read_location(location)
