"""Reading of the states of a merge: the live files that differ, by opening only manifests that differ, and compactions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import CorruptError, InvalidError, NotFoundError
from graveler.table_format.deletion_vectors import read_vector
from graveler.table_format.live_files import DATA, POSITION_DELETES, FileKey, LiveFile, Partition, Renumbered
from graveler.table_format.manifest_lists import DELETES, ManifestFile, manifests_of
from graveler.table_format.manifest_schemas import partition_fields
from graveler.table_format.manifests import (
    EXISTING,
    Manifest,
    ManifestEntry,
    describe,
    read_manifest,
    record_of,
)
from graveler.table_format.merge_results import ReadPositions, TableState
from graveler.table_format.merge_sides import Compaction, Files, SideChanges, side_changes
from graveler.table_format.partition_specs import same_spec, source_ids
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.reserved_columns import DELETED_PATH
from graveler.table_format.schema_rules import columns_by_id
from graveler.table_format.table_metadata import current_snapshot_id, snapshot_by_id

_Read = TypeVar("_Read")


class OpenedFile(Struct, frozen=True, eq=False):
    """A file's entry, and the manifest that it was read from."""

    entry: ManifestEntry
    manifest: Manifest


class BaseCollectedError(Exception):
    """A file of the base's metadata does not exist any more. ``location`` is that file's."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class UnknownSpecError(CorruptError):
    """The partition spec of a manifest is not in the table's metadata."""


_UNSUITABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidError)
"""Errors of headers that no one has checked."""


def written_schema(manifest: Manifest) -> Document | None:
    """Return the table's schema at the time when a manifest was written, or None if its header has none that is valid."""
    try:
        schema: Document = json.loads(manifest.metadata.get("schema", ""))
        columns_by_id(schema)
    except _UNSUITABLE:
        return None
    return schema


def _has_spec(manifest: Manifest, spec: Document) -> bool:
    """Return whether the header of a manifest has a partition spec."""
    try:
        return same_spec({"fields": partition_fields(json.loads(manifest.metadata["partition-spec"]))}, spec)
    except _UNSUITABLE:
        return False


class StateFiles:
    """Manifests of one state, and its live files as a merge compares them."""

    def __init__(self, state: TableState, manifests: Sequence[ManifestFile]) -> None:
        self.metadata = state.metadata
        self.manifests = {manifest.path: manifest for manifest in manifests}
        self._partitions: dict[tuple[int, tuple[object, ...]], Partition] = {}
        self.specs: Mapping[int, Document] = {spec["spec-id"]: spec for spec in state.metadata["partition-specs"]}

    def live_files(self, manifests: Iterable[Manifest], other: "StateFiles | None" = None) -> Files:
        """Return the live files of some manifests. Their partition specs are this state's or, if it has dropped them,
        those of the ``other`` one; :class:`UnknownSpecError`."""
        files: Files = {}
        for manifest in manifests:
            entries = [entry for entry in manifest.entries if entry.live]
            if entries:
                spec = self._spec(manifest, len(entries[0].partition), other)
                for entry in entries:
                    file = self._live_file(entry, manifest, spec)
                    files[file.key] = file
        return files

    def _spec(self, manifest: Manifest, length: int, other: "StateFiles | None") -> Document:
        spec = self.specs.get(manifest.spec_id)
        if spec is None and other is not None:
            spec = other.specs.get(manifest.spec_id)
            if spec is not None and not (self._leaves_number(spec, other) and _has_spec(manifest, spec)):
                spec = None
        if spec is None or len(spec["fields"]) != length:
            raise UnknownSpecError(
                f"{manifest.location} has files of partition spec {manifest.spec_id}, which the table's metadata does not have "
                f"or has with other fields; restore the metadata from a former commit"
            )
        return spec

    def _leaves_number(self, spec: Document, other: "StateFiles") -> bool:
        """Return whether a spec of the other state that this one has dropped keeps its number in the merged table."""
        return not any(same_spec(part, spec) for part in self.specs.values()) and all(
            same_spec(part, other.specs.get(number, part)) for number, part in self.specs.items()
        )

    def _live_file(self, entry: ManifestEntry, manifest: Manifest, spec: Document) -> LiveFile:
        lowest = highest = ""
        if entry.content == POSITION_DELETES:
            lowest, highest = _target_bounds(entry)
        return LiveFile(
            entry.path,
            entry.content,
            self._partition(entry, spec),
            entry.record_count,
            entry.sequence_number or 0,
            entry.snapshot_id or 0,
            entry.size,
            vector_offset(entry),
            is_vector=entry.is_deletion_vector,
            lowest=lowest,
            highest=highest,
            entry=OpenedFile(entry, manifest),
        )

    def _partition(self, entry: ManifestEntry, spec: Document) -> Partition:
        key = entry.spec_id, entry.partition
        partition = self._partitions.get(key)
        if partition is None:
            partition = tuple(
                ((tuple(source_ids(field)), field["transform"].lower()), value)
                for field, value in zip(spec["fields"], entry.partition, strict=True)
                if field["transform"].lower() != "void"
            )
            self._partitions[key] = partition
        return partition


def vector_offset(entry: ManifestEntry) -> int:
    """Return the offset of a deletion vector in its file, and -1 for a whole file."""
    return entry.content_offset if entry.is_deletion_vector and entry.content_offset is not None else -1


def snapshot_ids(state: Document) -> set[int]:
    """Return the IDs of the snapshots of a table."""
    return {snapshot["snapshot-id"] for snapshot in state["snapshots"]}


def snapshots_since(former: Set[int], state: Document) -> list[Document]:
    """Return the current snapshot of a table and its ancestors, oldest first, as far as they are known, and without the
    ``former`` ones and those before these."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in state["snapshots"]}
    line: list[Document] = []
    number = current_snapshot_id(state)
    while number is not None and number not in former and number in by_id and len(line) < len(by_id):
        line.append(by_id[number])
        number = by_id[number].get("parent-snapshot-id")
    return line[::-1]


def _target_bounds(entry: ManifestEntry) -> tuple[str, str]:
    if entry.referenced_data_file:
        return entry.referenced_data_file, entry.referenced_data_file
    file = record_of(entry)["data_file"]
    bounds = []
    for name in ("lower_bounds", "upper_bounds"):
        values = {bound["key"]: bound["value"] for bound in file.get(name) or ()}
        try:
            bounds.append(bytes(values.get(DELETED_PATH) or b"").decode())
        except UnicodeDecodeError:  # cut within a character: a bound, and no path
            return "", ""
    return (bounds[0], bounds[1]) if all(bounds) else ("", "")


class MergeReader:
    """Reads manifests, each once. ``opened`` counts them."""

    def __init__(self, read_file: ReadFile, read_positions: ReadPositions | None) -> None:
        self._read_file = read_file
        self._read_positions = read_positions
        self._manifests: dict[str, Manifest] = {}
        self._sizes: dict[str, int] = {}
        self._lists: dict[int, list[ManifestFile]] = {}
        self._positions: dict[FileKey, Mapping[str, frozenset[int]] | None] = {}

    @property
    def opened(self) -> int:
        """The number of manifests that were opened."""
        return len(self._manifests)

    def state_files(self, state: TableState) -> StateFiles:
        """Return the manifests of a state's current snapshot. One read, unless another state has the same snapshot."""
        number = current_snapshot_id(state.metadata)
        if number is None:
            return StateFiles(state, ())
        snapshot = snapshot_by_id(state.metadata, number)
        if snapshot is None:
            raise CorruptError(
                f"{state.location} has no snapshot {number}, its current one; restore it from a former commit"
            )
        return StateFiles(state, self._manifests_of(snapshot))

    def base_files(self, state: TableState) -> StateFiles:
        """Return the manifests of the base; raises :class:`BaseCollectedError` if its list is gone."""
        return _base(lambda: self.state_files(state), state.location)

    def _manifests_of(self, snapshot: Document) -> list[ManifestFile]:
        number = snapshot["snapshot-id"]
        if number not in self._lists:
            self._lists[number] = manifests_of(snapshot, self._read_file)
        return self._lists[number]

    def open(self, manifest: ManifestFile) -> Manifest:
        """Return a manifest with its entries; one read at the first time."""
        opened = self._manifests.get(manifest.path)
        if opened is None:
            contents = self._read_file(manifest.path)
            opened = self._manifests[manifest.path] = read_manifest(contents, manifest)
            self._sizes[manifest.path] = len(contents)
        return opened

    def complete_description(self, manifest: ManifestFile, snapshot_id: int | None) -> ManifestFile:
        """Return a manifest as a list describes it, with what its own list may lack: that is taken from the manifest. One that
        does not say which snapshot added it gets ``snapshot_id``. One read, unless it was opened before."""
        opened = self.open(manifest)
        adders = (entry.snapshot_id for entry in opened.entries if entry.status != EXISTING and entry.snapshot_id)
        listed = replace(
            manifest,
            length=self._sizes[manifest.path],
            spec_id=opened.spec_id,
            added_snapshot_id=manifest.added_snapshot_id or next(adders, snapshot_id),
        )
        return describe(opened.entries, listed, opened.layout.partition_types)

    def is_open(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest was opened before."""
        return manifest.path in self._manifests

    def _open_live(self, manifests: Iterable[ManifestFile]) -> Iterator[Manifest]:
        return (self.open(manifest) for manifest in manifests if manifest.has_live_files)

    def difference(self, base: StateFiles, state: StateFiles) -> tuple[Files, Files, tuple[Renumbered, ...]]:
        """Return the live files that a state has and the base has not, the reverse, and files of both whose sequence number or
        row ID differ. Opens the manifests that only one of them has; :class:`BaseCollectedError`."""
        before: Files = {}
        for manifest in _only(base, state):
            opened = _base(lambda manifest=manifest: list(self._open_live((manifest,))), manifest.path)  # type: ignore[misc]
            before |= base.live_files(opened)
        after = state.live_files(self._open_live(_only(state, base)))
        renumbered = tuple(
            Renumbered(file, after[key])
            for key, file in before.items()
            if key in after
            and (
                after[key].sequence != file.sequence
                or after[key].entry.entry.first_row_id != file.entry.entry.first_row_id
            )
        )
        return (
            {key: file for key, file in after.items() if key not in before},
            {key: file for key, file in before.items() if key not in after},
            renumbered,
        )

    def common_deletes(
        self, base: StateFiles, source: StateFiles, by_source: Iterable[Renumbered]
    ) -> tuple[LiveFile, ...]:
        """Return deletes of manifests that base and source have, of those that may apply to a data file as one of them has it
        and not as the other has it. Opens manifests with such numbers: after an earlier merge there are none, since deletes of
        the base that are newer than such a file are in manifests of that merge."""
        ranges = {
            (min(numbers), max(numbers))
            for pair in by_source
            if pair.before.content == DATA and len(numbers := {pair.before.sequence, pair.after.sequence}) > 1
        }
        manifests = [
            manifest
            for path, manifest in source.manifests.items()
            if manifest.content == DELETES
            and path in base.manifests
            and any(
                lowest <= manifest.sequence_number and manifest.min_sequence_number <= highest
                for lowest, highest in ranges
            )
        ]
        return tuple(source.live_files(self._open_live(manifests)).values())

    def changes(
        self, base: StateFiles, state: StateFiles, other: StateFiles, added: Files, removed: Files
    ) -> SideChanges:
        """Return the changes of a side, with its compactions taken out as far as its history is known. ``other`` is the other
        side. Reads two manifest lists for each compaction, and the manifests that differ between them."""
        history = snapshots_since(snapshot_ids(base.metadata), state.metadata)
        compactions = []
        for snapshot in history:
            if _operation(snapshot) == "replace":
                compaction = self._compaction(base.metadata, state, other, snapshot)
                if compaction is not None:
                    compactions.append(compaction)
        appends = {snapshot["snapshot-id"] for snapshot in history if _operation(snapshot) == "append"}
        return side_changes(added, removed, compactions, appends)

    def _compaction(
        self, base: Document, state: StateFiles, other: StateFiles, snapshot: Document
    ) -> Compaction | None:
        """Return a compaction, or None if it counts as a rewrite: its files have expired, or the partition spec of what it
        replaced, which the merged table could not have."""
        parent_id = snapshot.get("parent-snapshot-id")
        parent = None
        if parent_id is not None:
            parent = snapshot_by_id(state.metadata, parent_id) or snapshot_by_id(base, parent_id)
        if parent is None:
            return None
        try:
            lists = [self._manifests_of(part) for part in (parent, snapshot)]
            paths = [{manifest.path for manifest in manifests} for manifests in lists]
            before, after = (
                state.live_files(
                    self._open_live(manifest for manifest in lists[index] if manifest.path not in paths[1 - index]),
                    other,
                )
                for index in (0, 1)
            )
        except (NotFoundError, UnknownSpecError):
            return None
        return Compaction(
            snapshot["snapshot-id"],
            {key: file for key, file in after.items() if key not in before},
            {key: file for key, file in before.items() if key not in after},
        )

    def changed_keys(self, snapshots: Iterable[Document], status: int) -> set[FileKey]:
        """Return the files whose entries have a ``status`` (added or deleted) by some snapshots, as far as their manifests exist.
        Reads the list of each, and the manifests that it wrote."""
        keys: set[FileKey] = set()
        for snapshot in snapshots:
            number = snapshot["snapshot-id"]
            with suppress(NotFoundError):  # expired with its files
                for manifest in self._manifests_of(snapshot):
                    if manifest.added_snapshot_id == number:
                        entries = [entry for entry in self.open(manifest).entries if entry.status == status]
                        keys.update((entry.path, vector_offset(entry)) for entry in entries)
        return keys

    def positions(self, file: LiveFile) -> Mapping[str, frozenset[int]] | None:
        """Return the positions of a file of position deletes by data file, or None if they cannot be read. One read."""
        if file.key not in self._positions:
            entry = file.entry.entry
            if file.is_vector:
                vector = read_vector(self._read_file(file.path), file.offset, entry.content_size or 0, file.path)
                self._positions[file.key] = {file.target: vector}
            elif self._read_positions is None:
                self._positions[file.key] = None
            else:
                self._positions[file.key] = self._read_positions(record_of(entry)["data_file"])
        return self._positions[file.key]


def _base(read: "Callable[[], _Read]", location: str) -> "_Read":
    try:
        return read()
    except NotFoundError as error:
        raise BaseCollectedError(location) from error


def _only(state: StateFiles, other: StateFiles) -> list[ManifestFile]:
    return [manifest for path, manifest in state.manifests.items() if path not in other.manifests]


def _operation(snapshot: Document) -> str:
    return str((snapshot.get("summary") or {}).get("operation", ""))
