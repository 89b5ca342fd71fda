"""The files of a table as entries of the tree: what its metadata names is in the tree at that commit, so that listings, sizes,
exports and the collector of a lake with tables work as in one without."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.iceberg.catalog_paths import files_prefix
from graveler.lake.iceberg.table_folders import TableFolder
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.requests.iceberg import Identifier
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectMissingError, StoredObject
from graveler.tree.listing import prefix_end
from graveler.tree.record import encode_key
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import FILES

FOLDER_FIELD: Final = "iceberg.files"
"""The field of a table's entry that names the path below which its files are linked."""
_AT_ONCE: Final = 32


class NamedFile(Struct, frozen=True):
    """A file that a table's metadata names: its location, and its size in bytes where the metadata states it."""

    location: str
    size: int | None = None


def links_folder(table: Identifier, uuid: str, entry: ObjectEntry | None) -> str:
    """Return the path below which a table's files are linked, with a trailing slash: that of its entry, or of its name if it is
    new. No request."""
    if entry is not None and (path := entry.metadata.get(FOLDER_FIELD)):
        return path
    return files_prefix(table, uuid).decode()


def linked_keys(tree: Tree, entry: ObjectEntry) -> Iterator[bytes]:
    """Yield the keys of the files that a table's entry has in the tree. The ranges that they span are read."""
    path = entry.metadata.get(FOLDER_FIELD, "").encode()
    if not path.startswith(FILES) or not path.endswith(b"/"):
        return
    for keys, _ in tree.run(path, prefix_end(path)):
        yield from keys


def links(
    repository: RepositoryParts, tree: Tree, folder: TableFolder, path: str, files: Sequence[NamedFile]
) -> dict[bytes, bytes]:
    """Return the records that link files of a table's folder below ``path``, without those that the tree has.

    Each file is looked at: it must exist and have the size that the metadata states, and must not be so old that a collector
    may have found it unused. One object request for each, 32 at a time on S3. :class:`InvalidError`.
    """
    named: dict[bytes, tuple[str, NamedFile]] = {}
    for file in files:
        below = folder.path_of(file.location)
        if below is None:
            raise folder.outside_error(file.location)
        named[encode_key(path + below)] = (f"{folder.key}/{below}", file)
    keys = sorted(named)
    new = [(key, *named[key]) for key, packed in zip(keys, tree.get_many(keys), strict=True) if packed is None]
    stored = _look_at(repository, [name for _, name, _ in new])
    return {
        key: _record(repository, key, name, file, described)
        for (key, name, file), described in zip(new, stored, strict=True)
    }


def _look_at(repository: RepositoryParts, names: Sequence[str]) -> list[StoredObject | None]:
    """Return what the storage has under each name."""
    objects = repository.objects

    def look_at(name: str) -> StoredObject | None:
        try:
            return objects.head(name)
        except ObjectMissingError:
            return None

    if len(names) < 2 or isinstance(objects, FolderObjects):
        return [look_at(name) for name in names]
    with ThreadPoolExecutor(min(_AT_ONCE, len(names)), "graveler-table-files") as threads:
        return list(threads.map(look_at, names))


def _record(repository: RepositoryParts, key: bytes, name: str, file: NamedFile, stored: StoredObject | None) -> bytes:
    if stored is None:
        raise InvalidError(
            f"the table's metadata names {file.location!r}, which does not exist; write it before the commit"
        )
    if file.size is not None and stored.size != file.size:
        raise InvalidError(
            f"the table's metadata states {file.size:,} bytes for {file.location!r}, which has {stored.size:,}; write it again"
        )
    return repository.pack(
        ObjectEntry(key.decode(), f"{repository.namespace}/{name}", stored.size, stored.etag, int(stored.modified))
    )
