"""Reading of the states of a merge: the live files that differ, by opening only manifests that differ, and compactions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from graveler.errors import CorruptError, NotFoundError
from graveler.table_format.deletion_vectors import read_vector
from graveler.table_format.live_files import POSITION_DELETES, FileKey, LiveFile, Partition, Renumbered
from graveler.table_format.manifest_lists import ManifestFile, manifests_of
from graveler.table_format.manifests import Manifest, ManifestEntry, read_manifest, record_of
from graveler.table_format.merge_results import ReadPositions, TableState
from graveler.table_format.merge_sides import Compaction, Files, SideChanges, side_changes
from graveler.table_format.partition_specs import source_ids
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.table_metadata import current_snapshot_id, snapshot_by_id

_Read = TypeVar("_Read")

_DELETED_PATH: Final = 2147483546
"""ID of the column of position deletes that has the location of the data file."""


class OpenedFile(Struct, frozen=True, eq=False):
    """A file's entry, and the manifest that it was read from."""

    entry: ManifestEntry
    manifest: Manifest


class BaseCollectedError(Exception):
    """A file of the base's metadata does not exist any more. ``location`` is that file's."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class StateFiles:
    """Manifests of one state, and its live files as a merge compares them."""

    def __init__(self, state: TableState, manifests: Sequence[ManifestFile]) -> None:
        self.metadata = state.metadata
        self.manifests = {manifest.path: manifest for manifest in manifests}
        self._partitions: dict[tuple[int, tuple[object, ...]], Partition] = {}
        self._specs: Mapping[int, Document] = {spec["spec-id"]: spec for spec in state.metadata["partition-specs"]}

    def live_files(self, manifests: Iterable[Manifest]) -> Files:
        """Return the live files of some manifests."""
        files: Files = {}
        for manifest in manifests:
            for entry in manifest.entries:
                if entry.live:
                    file = self._live_file(entry, manifest)
                    files[file.key] = file
        return files

    def _live_file(self, entry: ManifestEntry, manifest: Manifest) -> LiveFile:
        lowest = highest = ""
        if entry.content == POSITION_DELETES:
            lowest, highest = _target_bounds(entry)
        vector = entry.is_deletion_vector
        return LiveFile(
            entry.path,
            entry.content,
            self._partition(entry),
            entry.record_count,
            entry.sequence_number or 0,
            entry.snapshot_id or 0,
            entry.size,
            entry.content_offset if vector and entry.content_offset is not None else -1,
            is_vector=vector,
            lowest=lowest,
            highest=highest,
            entry=OpenedFile(entry, manifest),
        )

    def _partition(self, entry: ManifestEntry) -> Partition:
        key = entry.spec_id, entry.partition
        partition = self._partitions.get(key)
        if partition is None:
            spec = self._specs.get(entry.spec_id)
            if spec is None or len(spec["fields"]) != len(entry.partition):
                raise CorruptError(
                    f"{entry.path} is in a manifest of partition spec {entry.spec_id}, which the table's metadata does not have "
                    f"or has with other fields; restore the metadata from a former commit"
                )
            partition = tuple(
                ((tuple(source_ids(field)), field["transform"].lower()), value)
                for field, value in zip(spec["fields"], entry.partition, strict=True)
                if field["transform"].lower() != "void"
            )
            self._partitions[key] = partition
        return partition


def _target_bounds(entry: ManifestEntry) -> tuple[str, str]:
    if entry.referenced_data_file:
        return entry.referenced_data_file, entry.referenced_data_file
    file = record_of(entry)["data_file"]
    bounds = []
    for name in ("lower_bounds", "upper_bounds"):
        values = {bound["key"]: bound["value"] for bound in file.get(name) or ()}
        try:
            bounds.append(bytes(values.get(_DELETED_PATH) or b"").decode())
        except UnicodeDecodeError:  # cut within a character: a bound, and no path
            return "", ""
    return (bounds[0], bounds[1]) if all(bounds) else ("", "")


class MergeReader:
    """Reads manifests, each once. ``opened`` counts them."""

    def __init__(self, read_file: ReadFile, read_positions: ReadPositions | None) -> None:
        self._read_file = read_file
        self._read_positions = read_positions
        self._manifests: dict[str, Manifest] = {}
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
            opened = self._manifests[manifest.path] = read_manifest(self._read_file(manifest.path), manifest)
        return opened

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

    def changes(self, base: StateFiles, state: StateFiles, added: Files, removed: Files) -> SideChanges:
        """Return the changes of a side, with its compactions taken out as far as its history is known. Reads two manifest
        lists for each compaction, and the manifests that differ between them."""
        history = _history(base.metadata, state.metadata)
        compactions = []
        for snapshot in history:
            if _operation(snapshot) == "replace":
                compaction = self._compaction(base.metadata, state, snapshot)
                if compaction is not None:
                    compactions.append(compaction)
        appends = {snapshot["snapshot-id"] for snapshot in history if _operation(snapshot) == "append"}
        return side_changes(added, removed, compactions, appends)

    def _compaction(self, base: Document, state: StateFiles, snapshot: Document) -> Compaction | None:
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
                    self._open_live(manifest for manifest in lists[index] if manifest.path not in paths[1 - index])
                )
                for index in (0, 1)
            )
        except NotFoundError:  # expired with its files: the compaction counts as a rewrite
            return None
        return Compaction(
            snapshot["snapshot-id"],
            {key: file for key, file in after.items() if key not in before},
            {key: file for key, file in before.items() if key not in after},
        )

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


def _history(base: Document, state: Document) -> list[Document]:
    """Return the snapshots of a side since the base, oldest first, as far as they are known."""
    former = {snapshot["snapshot-id"] for snapshot in base["snapshots"]}
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in state["snapshots"]}
    history: list[Document] = []
    number = current_snapshot_id(state)
    while number is not None and number not in former and number in by_id and len(history) < len(by_id):
        history.append(by_id[number])
        number = by_id[number].get("parent-snapshot-id")
    return history[::-1]


def _operation(snapshot: Document) -> str:
    return str((snapshot.get("summary") or {}).get("operation", ""))
