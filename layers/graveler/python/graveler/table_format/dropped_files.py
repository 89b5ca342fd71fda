"""The files that a table's metadata does not reach any more, once snapshots, statistics or entries of its log are removed."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from graveler.errors import CorruptError, InvalidError, NotFoundError
from graveler.table_format.file_locations import normal_location
from graveler.table_format.manifest_lists import ManifestFile, read_manifest_list
from graveler.table_format.manifests import read_manifest
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import Limits, files_in_metadata

ReadFiles: TypeAlias = Callable[[Sequence[str]], Iterator[bytes]]
"""Yields the contents of files, in the order of their locations."""

REMAINING_LIMITS: Final = Limits(manifests=10_000, files=1_000_000)
"""Manifests that remain, and entries of them, that are compared with the files of removed snapshots."""


def dropped_files(
    before: Document, after: Document, read_files: ReadFiles, limits: Limits = REMAINING_LIMITS
) -> frozenset[str]:
    """Return the locations of files that a table's older state reaches, and its new one does not, in the form of
    :func:`~graveler.table_format.file_locations.normal_location`.

    Never more than those, and sometimes fewer: manifests and what they name are not among them where a file cannot be read,
    beyond the limits, and in tables of version 1 with a snapshot that has its manifests in itself.

    Reads nothing unless snapshots were removed; then the manifest lists of both states' snapshots, the manifests that only
    removed snapshots have, and if there are any, all that remain: a file may be live in another manifest.
    """
    remaining = {file.location for file in files_in_metadata(after)}
    dropped = {file.location for file in files_in_metadata(before)} - remaining
    removed = [location for location in _lists(before) if normal_location(location) in dropped]
    if not removed or any("manifest-list" not in snapshot for snapshot in after.get("snapshots", ())):
        return frozenset(dropped)
    try:
        former = _manifests(removed, read_files)
        current = _manifests(_lists(after), read_files)
        former = {location: manifest for location, manifest in former.items() if location not in current}
        files = set(_live_files(list(former.values()), read_files))
        candidates = list(current.values()) if files else []
        if _is_beyond(candidates, limits):
            return frozenset(dropped | former.keys())
        for live in _live_files(candidates, read_files):
            files.discard(live)
    except (CorruptError, InvalidError, NotFoundError):
        return frozenset(dropped)
    return frozenset((dropped | former.keys() | files) - remaining)


def _lists(metadata: Document) -> list[str]:
    """Return the locations of the manifest lists of all snapshots."""
    lists = (snapshot.get("manifest-list") for snapshot in metadata.get("snapshots", ()))
    return list(dict.fromkeys(location for location in lists if isinstance(location, str)))


def _manifests(lists: Sequence[str], read_files: ReadFiles) -> dict[str, ManifestFile]:
    """Return the manifests of lists, by location in its usual form. Each list is read."""
    contents = zip(lists, read_files(lists), strict=True)
    manifests = chain.from_iterable(read_manifest_list(content, location) for location, content in contents)
    return {normal_location(manifest.path): manifest for manifest in manifests}


def _live_files(manifests: Sequence[ManifestFile], read_files: ReadFiles) -> Iterator[str]:
    """Yield the locations of the files that are live in manifests. Each is read."""
    contents = read_files([manifest.path for manifest in manifests])
    for manifest, content in zip(manifests, contents, strict=True):
        for entry in read_manifest(content, manifest).entries:
            if entry.live:
                yield normal_location(entry.path)


def _is_beyond(manifests: Sequence[ManifestFile], limits: Limits) -> bool:
    entries = sum((manifest.added_files or 0) + (manifest.existing_files or 0) for manifest in manifests)
    return len(manifests) > limits.manifests or entries > limits.files
