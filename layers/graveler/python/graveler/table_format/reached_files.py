"""The files that a table's metadata reaches: its metadata log, manifest lists, manifests, data, deletes and statistics."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from graveler.errors import InvalidError
from graveler.table_format.file_locations import normal_location
from graveler.table_format.manifest_lists import DATA, ManifestFile, manifests_of
from graveler.table_format.manifests import ADDED, ManifestEntry, read_manifest
from graveler.table_format.plain_documents import Document, ReadFile

MAX_MANIFESTS: Final = 100_000
"""Manifests of a table, over all of its snapshots, that are looked at in one call."""
MAX_FILES: Final = 5_000_000
"""Entries of manifests that are looked at in one call."""


FindMissing: TypeAlias = Callable[[Collection[str]], Iterable[str]]
"""Returns those of some locations that are missing elsewhere, such as among the links of a tree."""


class FileKind(StrEnum):
    """The part of a file in a table."""

    METADATA = "metadata"
    MANIFEST_LIST = "manifest-list"
    MANIFEST = "manifest"
    DATA = "data"
    DELETES = "deletes"
    STATISTICS = "statistics"
    PARTITION_STATISTICS = "partition-statistics"


class ReachedFile(NamedTuple):
    """A file of a table. ``location`` is in the form of :func:`~graveler.table_format.file_locations.normal_location`, ``source``
    the location of the manifest or the list that names it, or ``metadata``. ``size`` is None where that does not say it."""

    location: str
    kind: FileKind
    size: int | None
    source: str
    presumed: bool = False
    """True for a file that an older state of the table must have had already, by its sequence number."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one call."""

    manifests: int = MAX_MANIFESTS
    files: int = MAX_FILES


def reached_files(metadata: Document, read_file: ReadFile, limits: Limits = Limits()) -> dict[str, ReachedFile]:
    """Return all files that a table's metadata reaches, by location. The metadata file itself is not one of them.

    Reads each manifest list and each manifest once. Files that a manifest only lists as deleted are not reached by it.
    :class:`CorruptError`; :class:`InvalidError` for a location that is none, and beyond the limits; what ``read_file`` raises.
    """
    return _Reach(None, metadata, read_file, limits).files()


def added_files(
    before: Document | None,
    after: Document,
    read_file: ReadFile,
    limits: Limits = Limits(),
    find_missing: FindMissing | None = None,
) -> dict[str, ReachedFile]:
    """Return the files that a table's metadata reaches and its older state ``before`` did not, by location.

    Reads manifest lists of new snapshots, and their new manifests. In tables of version 1, whose files have no sequence numbers,
    it also reads the list of each new snapshot's parent, and older files of a rewritten manifest are among the new ones. Files
    with ``presumed`` stand in what it reads, and an older state had them if the writer follows the specification. That may be a
    state whose snapshots have expired since: manifests that ``find_missing`` returns out of all presumed ones are read, too.
    Errors as of :func:`reached_files`.
    """
    return _Reach(before, after, read_file, limits).files(find_missing)


def _file_of(entry: ManifestEntry, manifest: ManifestFile, *, presumed: bool) -> ReachedFile:
    kind = FileKind.DATA if entry.content == DATA else FileKind.DELETES
    # A file of Puffin holds several vectors, and an entry has its whole size.
    return ReachedFile(normal_location(entry.path), kind, entry.size, manifest.path, presumed)


@dataclass(slots=True)
class _Reach:
    before: Document | None
    after: Document
    read_file: ReadFile
    limits: Limits
    reached: dict[str, ReachedFile] = field(default_factory=dict)
    entries: int = 0

    def files(self, find_missing: FindMissing | None = None) -> dict[str, ReachedFile]:
        older = self.before or {}
        named = {file.location for file in files_in_metadata(older)}
        for file in files_in_metadata(self.after):
            if file.location not in named:
                self._add(file)
        snapshots = {snapshot.get("snapshot-id"): snapshot for snapshot in older.get("snapshots", [])}
        new = [
            snapshot
            for snapshot in self.after.get("snapshots", [])
            if snapshot.get("manifest-list")
            != snapshots.get(snapshot.get("snapshot-id"), {"manifest-list": ""}).get("manifest-list")
        ]
        new_ids = {snapshot.get("snapshot-id") for snapshot in new}
        last = older.get("last-sequence-number", 0)
        manifests: dict[str, ManifestFile] = {}
        compared: dict[int | None, frozenset[str]] = {}
        presumed: dict[str, ManifestFile] = {}
        for snapshot in new:
            for manifest in manifests_of(snapshot, self.read_file):
                if manifest.path in manifests:
                    continue
                if len(manifests) >= self.limits.manifests:
                    raise InvalidError(
                        f"the table has more than {self.limits.manifests:,} manifests that were not looked at before; "
                        f"rewrite its manifests, or expire snapshots"
                    )
                manifests[manifest.path] = manifest
                older_manifest = manifest.added_snapshot_id not in new_ids and 0 < manifest.sequence_number <= last
                if not older_manifest and manifest.sequence_number == 0 and snapshots:
                    parent = snapshot.get("parent-snapshot-id")
                    if parent not in compared:
                        compared[parent] = self._manifests_of_snapshot(snapshots.get(parent))
                    older_manifest = manifest.path in compared[parent]
                self._add(
                    ReachedFile(
                        normal_location(manifest.path),
                        FileKind.MANIFEST,
                        manifest.length or None,
                        str(snapshot.get("manifest-list", "metadata")),
                        older_manifest,
                    )
                )
                if older_manifest:
                    presumed[normal_location(manifest.path)] = manifest
                else:
                    self._add_entries(manifest, last)
        for location in find_missing(presumed.keys()) if find_missing is not None and presumed else ():
            self._add_entries(presumed[location], last)
        return self.reached

    def _manifests_of_snapshot(self, snapshot: Document | None) -> frozenset[str]:
        if snapshot is None:
            return frozenset()
        return frozenset(manifest.path for manifest in manifests_of(snapshot, self.read_file))

    def _add(self, file: ReachedFile) -> None:
        other = self.reached.get(file.location)
        if other is None or (other.presumed and not file.presumed):
            self.reached[file.location] = file

    def _add_entries(self, manifest: ManifestFile, last: int) -> None:
        entries = read_manifest(self.read_file(manifest.path), manifest).entries
        self.entries += len(entries)
        if self.entries > self.limits.files:
            raise InvalidError(
                f"the table has more than {self.limits.files:,} files that were not looked at before; compact it, or commit less "
                f"at once"
            )
        for entry in entries:
            if entry.live:
                number = entry.file_sequence_number
                presumed = entry.status != ADDED and number is not None and 0 < number <= last
                self._add(_file_of(entry, manifest, presumed=presumed))


def files_in_metadata(metadata: Document) -> Iterator[ReachedFile]:
    """Yield the files that a metadata document names itself: its log, manifest lists and statistics. :class:`InvalidError` for a
    location that is not valid."""
    for kind, key, entries, size in (
        (FileKind.METADATA, "metadata-file", metadata.get("metadata-log"), ""),
        (FileKind.MANIFEST_LIST, "manifest-list", metadata.get("snapshots"), ""),
        (FileKind.STATISTICS, "statistics-path", metadata.get("statistics"), "file-size-in-bytes"),
        (FileKind.PARTITION_STATISTICS, "statistics-path", metadata.get("partition-statistics"), "file-size-in-bytes"),
    ):
        for location, bytes_of_file in _locations(entries or (), key, size):
            yield ReachedFile(normal_location(location), kind, bytes_of_file, "metadata")


def _locations(entries: Iterable[Document], key: str, size: str) -> Iterator[tuple[str, Any]]:
    for entry in entries:
        location = entry.get(key)
        if isinstance(location, str):
            yield location, entry.get(size)
