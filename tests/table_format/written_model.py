"""Tables of the model as real metadata, manifests and deletion vectors, in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from graveler.errors import NotFoundError
from graveler.table_format.deletion_vectors import read_vector, write_vector
from graveler.table_format.live_files import DATA, EQUALITY_DELETES, POSITION_DELETES, FileKey, LiveFile
from graveler.table_format.manifest_lists import DELETES, ManifestFile, manifests_of, write_manifest_list
from graveler.table_format.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    ManifestEntry,
    entry_from,
    read_manifest,
    write_manifest,
)
from graveler.table_format.merge_results import MergedTable, TableState
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata, new_table, read_table, snapshot_by_id
from tests.table_format.documents import UUID, field, schema
from tests.table_format.merge_model import FIELD, Branch, Step, World

FOLDER = "file:///t/metadata"
SCHEMA = schema(field(1, "p", "int"), field(2, "key", "int"), field(3, "value", "string"))


class WrittenTables:
    """Files by location: those of all branches of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.version = 3 if world.vectors else 2
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.metrics: Callable[[LiveFile], Document] = lambda _: {}
        """Returns more of what a manifest has of a data file."""

    def read_file(self, location: str) -> bytes:
        """Read a file."""
        self.reads.append(location)
        try:
            return self.files[location]
        except KeyError:
            raise NotFoundError(location) from None

    def read_positions(self, data_file: Document) -> dict[str, frozenset[int]]:
        """Return the positions of a file of position deletes, which is not written in truth."""
        return self.world.positions[data_file["path"], -1]

    def base(self, branch: Branch, other_manifests: int = 0) -> TableState:
        """Write the base as one snapshot; with some manifests more in its list, which do not exist."""
        partition = [{"name": "p", "transform": "identity", "source-id": 1}]
        metadata = new_table(
            schema=SCHEMA,
            partition_spec={"spec-id": 0, "fields": partition if self.world.partitioned else []},
            sort_order=None,
            properties={"format-version": str(self.version)},
            location="file:///t",
            uuid=UUID,
            time_ms=1,
        )
        step = Step(1, "append", branch.live, {})
        metadata = self._with_snapshot(metadata, step, branch.last)
        location = metadata["snapshots"][0]["manifest-list"]
        manifests = manifests_of(metadata["snapshots"][0], self.read_file)
        others = [
            msgspec.structs.replace(manifests[0], path=f"{FOLDER}/{number}.avro") for number in range(other_manifests)
        ]
        self.files[location] = self._list([*manifests, *others], step, None, branch.last, 0)
        return self._state(metadata, branch.name)

    def _list(
        self, manifests: list[ManifestFile], step: Step, parent_id: int | None, sequence: int, first_row_id: int
    ) -> bytes:
        return write_manifest_list(
            manifests,
            format_version=self.version,
            snapshot_id=step.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence,
            first_row_id=first_row_id,
        )

    def fork(self, base: TableState, branch: Branch) -> TableState:
        """Write a branch of the base, a snapshot for each of its steps."""
        metadata = base.metadata
        for step in branch.steps:
            metadata = self._with_snapshot(metadata, step, metadata["last-sequence-number"] + 1)
        return self._state(metadata, branch.name)

    def write(self, result: MergedTable) -> TableState:
        """Write a merged table."""
        self.files |= result.files
        data = encode_metadata(result.metadata)
        return TableState(read_table(data, result.location), result.location)

    def _state(self, metadata: Document, name: str) -> TableState:
        data = encode_metadata(metadata)
        return TableState(read_table(data, name), f"{FOLDER}/{name}-{metadata['last-updated-ms']}.json")

    def _with_snapshot(self, metadata: Document, step: Step, sequence: int) -> Document:
        parent_id = metadata["current-snapshot-id"]
        parent = snapshot_by_id(metadata, parent_id) if parent_id is not None else None
        manifests = []
        for manifest in manifests_of(parent, self.read_file) if parent else ():
            manifests += self._without(manifest, step, sequence)
        for content in (DATA, DELETES):
            entries = [
                self._entry(file, step, sequence)
                for file in step.added.values()
                if (file.content == DATA) == (content == DATA)
            ]
            manifests += self._manifest(entries, content, step, sequence)
        first_row_id = next_row_id = metadata.get("next-row-id") or 0
        for index, manifest in enumerate(manifests):
            if self.version > 2 and manifest.content == DATA and manifest.first_row_id is None:
                manifests[index] = msgspec.structs.replace(manifest, first_row_id=next_row_id)
                next_row_id += (manifest.added_rows or 0) + (manifest.existing_rows or 0)
        location = f"{FOLDER}/list{len(self.files)}.avro"
        self.files[location] = self._list(manifests, step, parent_id, sequence, first_row_id)
        time_ms = metadata["last-updated-ms"] + 1
        snapshot: Document = {
            "snapshot-id": step.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": time_ms,
            "summary": {"operation": step.operation},
            "manifest-list": location,
            "schema-id": 0,
        }
        if parent:
            snapshot["parent-snapshot-id"] = parent_id
        rest: Document = {}
        if self.version > 2:
            snapshot |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
            rest["next-row-id"] = next_row_id
        return {
            **metadata,
            **rest,
            "snapshots": [*metadata["snapshots"], snapshot],
            "current-snapshot-id": step.snapshot_id,
            "refs": {"main": {"snapshot-id": step.snapshot_id, "type": "branch"}},
            "last-sequence-number": sequence,
            "last-updated-ms": time_ms,
        }

    def _manifest(
        self, entries: Iterable[ManifestEntry], content: int, step: Step, sequence: int
    ) -> list[ManifestFile]:
        entries = list(entries)
        if not entries:
            return []
        location = f"{FOLDER}/manifest{len(self.files)}.avro"
        fields = [{"name": "p", "transform": "identity", "source-id": 1, "field-id": 1000}]
        self.files[location], manifest = write_manifest(
            entries,
            location,
            schema=SCHEMA,
            spec={"spec-id": 0, "fields": fields if self.world.partitioned else []},
            format_version=self.version,
            content=content,
            snapshot_id=step.snapshot_id,
            sequence_number=sequence,
        )
        return [manifest]

    def _without(self, manifest: ManifestFile, step: Step, sequence: int) -> list[ManifestFile]:
        if not step.removed:
            return [manifest]
        entries = [
            msgspec.structs.replace(entry, status=DELETED, snapshot_id=step.snapshot_id)
            if _key(entry) in step.removed
            else msgspec.structs.replace(entry, status=EXISTING)
            for entry in read_manifest(self.read_file(manifest.path), manifest).entries
            if entry.live
        ]
        if all(entry.live for entry in entries):
            return [manifest]
        return self._manifest(entries, manifest.content, step, sequence)

    def _entry(self, file: LiveFile, step: Step, sequence: int) -> ManifestEntry:
        data_file: Document = {
            "content": file.content,
            "path": file.path,
            "format": "PARQUET",
            "partition": [value for _, value in file.partition],
            "record_count": file.rows,
            "size": 100,
        }
        if file.content == EQUALITY_DELETES:
            data_file["equality_ids"] = [1, 2]
        elif file.is_vector:
            vector = write_vector(self.world.positions[file.key][file.target], file.target)
            self.files[file.path] = vector.contents
            data_file |= {
                "format": "PUFFIN",
                "referenced_data_file": file.target,
                "content_offset": vector.offset,
                "content_size": vector.size,
            }
        elif file.content == POSITION_DELETES:
            data_file |= {
                "lower_bounds": [{"key": 2147483546, "value": file.lowest.encode()}],
                "upper_bounds": [{"key": 2147483546, "value": file.highest.encode()}],
            }
        else:
            data_file |= self.metrics(file)
        record = {
            "status": ADDED,
            "snapshot_id": step.snapshot_id,
            "sequence_number": None if file.sequence == sequence else file.sequence,
            "file_sequence_number": None,
            "data_file": data_file,
        }
        return entry_from(record, 0)

    def live_entries(self, state: TableState) -> list[ManifestEntry]:
        """Return the live entries of a state."""
        number = state.metadata["current-snapshot-id"]
        snapshot = snapshot_by_id(state.metadata, number)
        assert snapshot is not None
        return [
            entry
            for manifest in manifests_of(snapshot, self.read_file)
            for entry in read_manifest(self.read_file(manifest.path), manifest).entries
            if entry.live
        ]

    def branch(self, state: TableState) -> Branch:
        """Return a state as a branch of the model, without its history."""
        branch = Branch(self.world, "merged", {}, state.metadata["last-sequence-number"])
        for entry in self.live_entries(state):
            target = entry.referenced_data_file or ""
            vector = entry.is_deletion_vector
            file = LiveFile(
                entry.path,
                entry.content,
                tuple((FIELD, value) for value in entry.partition),
                entry.record_count,
                entry.sequence_number or 0,
                entry.snapshot_id or 0,
                entry.size,
                entry.content_offset if vector and entry.content_offset else -1,
                is_vector=vector,
                lowest=target,
                highest=target,
            )
            if vector and file.key not in self.world.positions:
                contents = self.files[entry.path]
                positions = read_vector(contents, file.offset, entry.content_size or 0, entry.path)
                self.world.positions[file.key] = {target: positions}
            assert file.key not in branch.live
            branch.live[file.key] = file
        return branch


def _key(entry: ManifestEntry) -> FileKey:
    offset: Any = entry.content_offset if entry.is_deletion_vector else -1
    return entry.path, offset


def row_ids(entries: Iterable[ManifestEntry]) -> list[tuple[int, int]]:
    """Return the ranges of row IDs of data files, sorted."""
    return sorted(
        (entry.first_row_id, entry.first_row_id + entry.record_count)
        for entry in entries
        if entry.content == DATA and entry.first_row_id is not None
    )
