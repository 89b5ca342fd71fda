"""Tables of few files in memory, whose snapshots and numbers a test composes file by file."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from graveler.errors import NotFoundError
from graveler.table_format.live_files import POSITION_DELETES
from graveler.table_format.manifest_lists import DATA, ManifestFile, manifests_of, write_manifest_list
from graveler.table_format.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    Manifest,
    ManifestEntry,
    entry_from,
    read_manifest,
    write_manifest,
)
from graveler.table_format.merge_results import MergedTable, MergeResult, MergeTerms, TableState
from graveler.table_format.merge_tables import merge_tables
from graveler.table_format.plain_documents import Document
from graveler.table_format.spec_check import check_table
from graveler.table_format.table_metadata import encode_metadata, new_table, read_table, snapshot_by_id
from tests.table_format.documents import UUID, field, schema

FOLDER = "file:///t/metadata"
SCHEMA = schema(field(1, "p", "string"), field(2, "key", "long"), field(3, "value", "string"))


class AddedFile(NamedTuple):
    """A file that a commit adds, as a manifest has it, with its partition spec. Without a ``sequence`` number it gets that of the
    commit."""

    file: Document
    spec_id: int
    sequence: int | None


def file_of(
    path: str,
    *partition: Any,
    rows: int = 1,
    content: int = DATA,
    spec_id: int = 0,
    sequence: int | None = None,
    **fields: Any,
) -> AddedFile:
    """Return a file to add; ``fields`` are more of what a manifest has of it."""
    file = {
        "path": path,
        "content": content,
        "format": "PARQUET",
        "partition": partition,
        "record_count": rows,
        "size": 9,
    }
    return AddedFile(file | fields, spec_id, sequence)


def position_deletes(path: str, target: str, partition: str = "a") -> AddedFile:
    """Return a file that deletes rows of one data file by position."""
    return file_of(path, partition, content=POSITION_DELETES, referenced_data_file=target)


def expired(metadata: Document) -> Document:
    """Return a table without earlier snapshots, and the specs and schemas that only they had, as Iceberg's
    ``expire_snapshots`` leaves it that cleans metadata."""
    current = metadata["current-snapshot-id"]
    return {
        **metadata,
        "snapshots": [part for part in metadata["snapshots"] if part["snapshot-id"] == current],
        "snapshot-log": [part for part in metadata["snapshot-log"] if part["snapshot-id"] == current],
        "partition-specs": [
            part for part in metadata["partition-specs"] if part["spec-id"] == metadata["default-spec-id"]
        ],
        "schemas": [part for part in metadata["schemas"] if part["schema-id"] == metadata["current-schema-id"]],
    }


class SmallTables:
    """Files by location, and the metadata of tables that have them. The list of a snapshot that removes all files of a manifest
    has that manifest with the removals, unless ``drops_manifests``: some writers leave it out."""

    def __init__(self, *, drops_manifests: bool = False) -> None:
        self._drops_manifests = drops_manifests
        self.files: dict[str, bytes] = {}
        self._count = 0

    def read_file(self, location: str) -> bytes:
        """Read a file."""
        try:
            return self.files[location]
        except KeyError:
            raise NotFoundError(location) from None

    def new(self, version: int = 2) -> Document:
        """Return a table that is partitioned by ``p``, without a snapshot."""
        return new_table(
            schema=SCHEMA,
            partition_spec={"spec-id": 0, "fields": [{"name": "p", "transform": "identity", "source-id": 1}]},
            sort_order=None,
            properties={"format-version": str(version)},
            location="file:///t",
            uuid=UUID,
            time_ms=1,
        )

    def table(self, version: int = 2, *files: AddedFile) -> Document:
        """Return a table that is partitioned by ``p``, with a snapshot of some files."""
        return self.commit(self.new(version), *files)

    def with_spec(self, metadata: Document, spec_id: int, *fields: Document) -> Document:
        """Return a table with one more partition spec, its default one."""
        metadata = deepcopy(metadata)
        metadata["partition-specs"].append({"spec-id": spec_id, "fields": list(fields)})
        metadata["default-spec-id"] = spec_id
        metadata["last-partition-id"] = max([metadata["last-partition-id"], *(part["field-id"] for part in fields)])
        return metadata

    def commit(
        self,
        metadata: Document,
        *added: AddedFile,
        operation: str = "append",
        removed: Collection[str] = (),
    ) -> Document:
        """Return a table with one more snapshot, which adds files and removes others by path."""
        metadata = deepcopy(metadata)
        version, sequence = metadata["format-version"], (metadata.get("last-sequence-number") or 0) + 1
        parent_id = metadata["current-snapshot-id"]
        parent = snapshot_by_id(metadata, parent_id) if parent_id is not None else None
        self._count += 1
        number = 1000 + self._count
        manifests: list[ManifestFile] = []
        for manifest in manifests_of(parent, self.read_file) if parent else ():
            entries = [entry for entry in self._open(manifest).entries if entry.live]
            if any(entry.path in removed for entry in entries):
                if self._drops_manifests and all(entry.path in removed for entry in entries):
                    continue
                statuses = [DELETED if entry.path in removed else EXISTING for entry in entries]
                entries = [
                    msgspec.structs.replace(entry, status=status, snapshot_id=number)
                    if status == DELETED
                    else msgspec.structs.replace(entry, status=status)
                    for entry, status in zip(entries, statuses, strict=True)
                ]
                manifest = self._manifest(metadata, entries, number, sequence)
            manifests.append(manifest)
        groups: dict[tuple[int, bool], list[ManifestEntry]] = {}
        for file, spec_id, file_sequence in added:
            record = {"snapshot_id": number, "sequence_number": file_sequence, "file_sequence_number": None}
            entry = entry_from({**record, "status": ADDED, "data_file": file}, spec_id)
            groups.setdefault((spec_id, file["content"] == DATA), []).append(entry)
        manifests += [self._manifest(metadata, entries, number, sequence) for entries in groups.values()]
        row_id = begin = metadata.get("next-row-id") or 0
        for index, manifest in enumerate(manifests):
            if version > 2 and manifest.content == DATA and manifest.first_row_id is None:
                manifests[index] = msgspec.structs.replace(manifest, first_row_id=row_id)
                row_id += (manifest.added_rows or 0) + (manifest.existing_rows or 0)
        location = self._location()
        self.files[location] = write_manifest_list(
            manifests,
            format_version=version,
            snapshot_id=number,
            parent_snapshot_id=parent_id,
            sequence_number=sequence,
            first_row_id=begin if version > 2 else None,
        )
        metadata["last-updated-ms"] += 1
        snapshot: Document = {
            "snapshot-id": number,
            "timestamp-ms": metadata["last-updated-ms"],
            "manifest-list": location,
            "summary": {"operation": operation},
            "schema-id": metadata["current-schema-id"],
        }
        if parent:
            snapshot["parent-snapshot-id"] = parent_id
        if version > 1:
            snapshot["sequence-number"] = metadata["last-sequence-number"] = sequence
        if version > 2:
            snapshot |= {"first-row-id": begin, "added-rows": row_id - begin}
            metadata["next-row-id"] = row_id
        metadata["snapshots"].append(snapshot)
        metadata["snapshot-log"].append({"snapshot-id": number, "timestamp-ms": metadata["last-updated-ms"]})
        metadata["current-snapshot-id"] = number
        metadata["refs"] = {**metadata["refs"], "main": {"snapshot-id": number, "type": "branch"}}
        return metadata

    def live_entries(self, metadata: Document) -> dict[str, ManifestEntry]:
        """Return the live entries of a table by path."""
        return {entry.path: entry for entry in self.entries(metadata)}

    def entries(self, metadata: Document) -> Sequence[ManifestEntry]:
        """Return the live entries of a table."""
        return [entry for manifest in self.manifests(metadata) for entry in self._open(manifest).entries if entry.live]

    def manifests(self, metadata: Document) -> list[ManifestFile]:
        """Return the manifests of a table's current snapshot."""
        snapshot = snapshot_by_id(metadata, metadata["current-snapshot-id"])
        assert snapshot is not None
        return manifests_of(snapshot, self.read_file)

    def merge(self, base: Document, source: Document, destination: Document, **terms: Any) -> MergeResult:
        """Merge states of a table, and keep the files of the result, which must be as valid as the destination."""
        result = self._merge((base, source, destination), terms)
        if isinstance(result, MergedTable):
            former = check_table(destination, self.read_file)
            assert [problem for problem in check_table(result.metadata, self.read_file) if problem not in former] == []
        return result

    def merged(
        self, base: Document, source: Document, destination: Document, *, checks_history: bool = True, **terms: Any
    ) -> Document:
        """Merge states that have no conflict, check the result, or its last snapshot, as a reader would, and return its
        metadata."""
        result = self._merge((base, source, destination), terms)
        assert isinstance(result, MergedTable), result
        document = read_table(encode_metadata(result.metadata), result.location)
        history = {} if checks_history else {"snapshots": document["snapshots"][-1:], "snapshot-log": []}
        assert check_table({**document, **history}, self.read_file) == []
        return document

    def numbers(self, metadata: Document) -> dict[str, int]:
        """Return the data sequence numbers of a table's live files, by path."""
        return {entry.path: entry.sequence_number or 0 for entry in self.entries(metadata)}

    def _merge(self, tables: tuple[Document, Document, Document], terms: dict[str, Any]) -> MergeResult:
        base, source, destination = map(self._state, tables)
        result = merge_tables(
            base, source, destination, self.read_file, MergeTerms(FOLDER, **{"isolation": "snapshot"} | terms)
        )
        if isinstance(result, MergedTable):
            self.files |= result.files
        return result

    def _state(self, metadata: Document) -> TableState:
        location = self._location("metadata.json")
        return TableState(read_table(encode_metadata(metadata), location, stored=True), location)

    def _location(self, end: str = "avro") -> str:
        self._count += 1
        return f"{FOLDER}/{self._count}.{end}"

    def _open(self, manifest: ManifestFile) -> Manifest:
        return read_manifest(self.read_file(manifest.path), manifest)

    def _manifest(
        self, metadata: Document, entries: Sequence[ManifestEntry], snapshot_id: int, sequence: int
    ) -> ManifestFile:
        location = self._location()
        specs = {part["spec-id"]: part for part in metadata["partition-specs"]}
        self.files[location], manifest = write_manifest(
            entries,
            location,
            schema=metadata["schemas"][-1],
            spec=specs[entries[0].spec_id],
            format_version=metadata["format-version"],
            content=min(1, entries[0].content),
            snapshot_id=snapshot_id,
            sequence_number=sequence,
        )
        return manifest
