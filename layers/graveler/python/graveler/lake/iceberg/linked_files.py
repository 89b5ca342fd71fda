"""The files of a table as entries of the tree: what its metadata names is in the tree at that commit, so that listings, sizes,
exports and the collector of a lake with tables work as in one without."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.iceberg.catalog_paths import files_prefix
from graveler.lake.iceberg.concurrent_requests import concurrent_results
from graveler.lake.iceberg.table_folders import TableFolder, root_of
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.requests.iceberg import Identifier
from graveler.storage.objects.port import ObjectMissingError, Objects, StoredObject
from graveler.table_format.file_locations import normal_location
from graveler.tree.listing import prefix_end
from graveler.tree.record import encode_key
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import FILES

FOLDER_FIELD: Final = "iceberg.files"
"""The field of a table's entry that names the path below which its files are linked."""
ExpectSource: TypeAlias = Callable[[str], None]
"""Raises for an address where files of tables must not lie."""
_OUTSIDE: Final = "outside"
"""The folder below which files outside of the table's own are linked."""
_DIGEST_CHARS: Final = 20
_NAME_BYTES: Final = 200
_DAY: Final = 86_400


class NamedFile(Struct, frozen=True):
    """A file that a table's metadata names: its location, and its size in bytes where the metadata states it. A file with an
    ``entry`` is the metadata file of the table at a commit that this one builds on: that entry describes it, and it may be
    old."""

    location: str
    size: int | None = None
    entry: ObjectEntry | None = None


PlacedFiles: TypeAlias = Mapping[bytes, tuple[str, NamedFile]]


def links_folder(tree: Tree, table: Identifier, uuid: str, entry: ObjectEntry | None) -> str:
    """Return the path below which a table's files are linked, with a trailing slash: that of its entry, or of its name if it is
    new. No other table has it, also if a table with the same UUID was renamed and registered again. No request for a table with
    an entry; one lookup for a new one."""
    if entry is not None and (path := entry.metadata.get(FOLDER_FIELD)):
        return path
    prefix, number = files_prefix(table, uuid), 1
    free = prefix
    while any(keys for keys, _ in tree.run(free, prefix_end(free))):
        number += 1
        free = prefix[:-1] + f"-{number}/".encode()
    return free.decode()


def linked_keys(tree: Tree, entry: ObjectEntry) -> Iterator[bytes]:
    """Yield the keys of the files that a table's entry has in the tree. The ranges that they span are read."""
    path = entry.metadata.get(FOLDER_FIELD, "").encode()
    if not path.startswith(FILES) or not path.endswith(b"/"):
        return
    for keys, _ in tree.run(path, prefix_end(path)):
        yield from keys


def placed_files(folder: TableFolder, path: str, files: Iterable[NamedFile]) -> PlacedFiles:
    """Return files of a table by the keys of their links below ``path``, each with its address as clients know it. No request."""
    placed: dict[bytes, tuple[str, NamedFile]] = {}
    for file in files:
        place, address = link_place(folder, path, file.location)
        placed[encode_key(place)] = address, file
    return placed


def outside_addresses(repository: RepositoryParts, tree: Tree, entry: ObjectEntry) -> Iterator[str]:
    """Yield the addresses of a table's files that lie outside of the repository's storage. The ranges that their links span are
    read."""
    path = f"{entry.metadata.get(FOLDER_FIELD, '')}{_OUTSIDE}/".encode()
    if not path.startswith(FILES):
        return
    for keys, records in tree.run(path, prefix_end(path)):
        for key, packed in zip(keys, records, strict=True):
            address = repository.codec.decode(key, packed).address
            if not address.startswith(f"{repository.namespace}/"):
                yield address


def has_outside(tree: Tree, entry: ObjectEntry, address: str) -> bool:
    """Return whether a file is one that a table has outside of its folder. One lookup in the tree."""
    path = entry.metadata.get(FOLDER_FIELD, "")
    return path.encode().startswith(FILES) and tree.get(encode_key(_outside_path(path, address))) is not None


def links(
    repository: RepositoryParts,
    tree: Tree,
    folder: TableFolder,
    named: PlacedFiles,
    expect_source: ExpectSource | None = None,
    sources: Sequence[Tree] = (),
) -> dict[bytes, bytes]:
    """Return the records that link files of a table, without those that the tree has. ``sources`` are trees of other
    commits that this one builds on: their links are taken over.

    A file with an entry needs no request. Each other file is looked at: it must exist, have the size that the metadata states,
    and not be older than half of its grace period, since a collector that has found it in no commit may be about to remove it. It
    must lie in the table's folder, or where ``expect_source`` lets it. One object request for each, 32 at a time on S3.
    :class:`InvalidError`, and what ``expect_source`` raises.
    """
    keys = _without_links(tree, sorted(named))
    records: dict[bytes, bytes] = {}
    for source in sources:
        packed_links = zip(keys, source.get_many(keys), strict=True)
        records |= {key: packed for key, packed in packed_links if packed is not None}
        keys = [key for key in keys if key not in records]
    for key in keys:
        entry = named[key][1].entry
        if entry is not None:
            link = ObjectEntry(key.decode(), entry.address, entry.size, entry.checksum, entry.mtime)
            records[key] = repository.pack(link)
    new = [(key, *named[key]) for key in keys if key not in records]
    located = [_store_and_key(repository, folder, address, expect_source) for _, address, _ in new]
    return records | {
        key: _record(repository, key, address, file, stored)
        for (key, address, file), stored in zip(new, _stored_objects(located), strict=True)
    }


def removals(
    tree: Tree, folder: TableFolder, path: str, locations: Iterable[str], named: Container[bytes]
) -> dict[bytes, None]:
    """Return the removals of the links to files of a table below ``path``, as far as the tree has them, without the keys in
    ``named``. One lookup in the tree for each."""
    keys = sorted({encode_key(link_place(folder, path, location)[0]) for location in locations})
    unlinked = [key for key in keys if key not in named]
    return {key: None for key, packed in zip(unlinked, tree.get_many(unlinked), strict=True) if packed is not None}


def unlinked_locations(tree: Tree, folder: TableFolder, path: str, locations: Iterable[str]) -> list[str]:
    """Return those of these files of a table to which the tree has no link below ``path``. One lookup in the tree for each."""
    by_key = {encode_key(link_place(folder, path, location)[0]): location for location in locations}
    return [by_key[key] for key in _without_links(tree, sorted(by_key))]


def _without_links(tree: Tree, keys: Sequence[bytes]) -> list[bytes]:
    """Return those of these keys, in order, that a tree has not."""
    return [key for key, packed in zip(keys, tree.get_many(keys), strict=True) if packed is None]


def link_place(folder: TableFolder, path: str, location: str) -> tuple[str, str]:
    """Return the path of a file's link below ``path``, and the file's location in its usual form. No request."""
    below, address = folder.path_of(location), normal_location(location)
    if below is not None:
        return path + below, address
    return _outside_path(path, address), address


def _outside_path(path: str, address: str) -> str:
    """Return the path of the link to a file outside of its table's folder."""
    digest = sha256(address.encode()).hexdigest()[:_DIGEST_CHARS]
    name = address.rsplit("/", 1)[-1].encode()[-_NAME_BYTES:].decode(errors="ignore")
    return f"{path}{_OUTSIDE}/{digest}-{name}"


def _store_and_key(
    repository: RepositoryParts, folder: TableFolder, address: str, expect_source: ExpectSource | None
) -> tuple[Objects, str]:
    """Return the store of a file, and its key there. :class:`InvalidError` for one that must not be a table's, and what
    ``expect_source`` raises."""
    key = folder.key_of(address)
    if key is not None:
        return repository.objects, key
    if expect_source is None or address.startswith(root_of(repository) + "/"):
        raise folder.outside_error(address)
    expect_source(address)
    return repository.locate_external(address)


def _stored_objects(located: Sequence[tuple[Objects, str]]) -> list[StoredObject | None]:
    """Return what each store has."""

    def look_at(place: tuple[Objects, str]) -> StoredObject | None:
        objects, key = place
        try:
            return objects.head(key)
        except ObjectMissingError:
            return None

    return list(concurrent_results([objects for objects, _ in located], look_at, located))


def _record(
    repository: RepositoryParts, key: bytes, address: str, file: NamedFile, stored: StoredObject | None
) -> bytes:
    if stored is None:
        raise InvalidError(
            f"the table's metadata names {file.location!r}, which does not exist; write it before the commit"
        )
    if file.size is not None and stored.size != file.size:
        raise InvalidError(
            f"the table's metadata states {file.size:,} bytes for {file.location!r}, which has {stored.size:,}; write it again"
        )
    path = address.removeprefix(root_of(repository))
    if path != address:
        _expect_young(repository, file, stored)
    physical = address if path == address else f"{repository.namespace}{path}"
    return repository.pack(ObjectEntry(key.decode(), physical, stored.size, stored.etag, int(stored.modified)))


def _expect_young(repository: RepositoryParts, file: NamedFile, stored: StoredObject) -> None:
    """Raise :class:`InvalidError` for a file that a collector may be about to remove, since no commit that this one builds on has
    it."""
    age = repository.clock.now() - stored.modified
    if age > repository.table_grace / 2:
        raise InvalidError(
            f"the table's metadata names {file.location!r}, which is {age / _DAY:.1f} days old, and which the branch does not "
            f"have: after {repository.table_grace / 2 / _DAY:.1f} days garbage collection may be about to remove such a file. "
            "Write it again, or revert the commit that dropped the table"
        )
