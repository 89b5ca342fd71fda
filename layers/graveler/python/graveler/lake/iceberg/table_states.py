"""States of tables: one metadata file with its entry, and the links of the files that it names."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, InvalidError, NotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key
from graveler.lake.iceberg.concurrent_requests import concurrent_results
from graveler.lake.iceberg.linked_files import (
    FOLDER_FIELD,
    ExpectSource,
    NamedFile,
    links,
    links_folder,
    placed_files,
    removals,
    unlinked_locations,
)
from graveler.lake.iceberg.metadata_files import MakeDocument, read_document, write_document
from graveler.lake.iceberg.table_folders import TableFolder, folder_of, root_of
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.requests.iceberg import Identifier
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectMissingError
from graveler.table_format.dropped_files import ReadFiles, dropped_files
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.reached_files import FindMissing, added_files
from graveler.table_format.table_metadata import current_snapshot_id
from graveler.tree.tree import Tree

UUID_FIELD: Final = "iceberg.uuid"
SNAPSHOT_FIELD: Final = "iceberg.snapshot-id"
SEQUENCE_FIELD: Final = "iceberg.sequence-number"
_CLEANUP: Final = "gc.enabled"


class TableState(Struct, frozen=True):
    """A new state of a table: its entry's record, the records of new links with None for those that are removed, and the keys of
    all links to files that the state before did not name."""

    packed: bytes
    links: dict[bytes, bytes | None]
    named: Collection[bytes]


def write_state(
    repository: RepositoryParts,
    tree: Tree,
    table: Identifier,
    entry: ObjectEntry | None,
    make: MakeDocument,
    name: bytes,
    expect_source: ExpectSource | None = None,
    replaced: ObjectEntry | None = None,
) -> TableState:
    """Write the metadata file of a table's new state, and return its records. ``entry`` is that of the state before, which
    becomes one of the linked files; ``name`` names the file. A new table takes over the folder of links of an entry that it
    replaces, if both have one UUID.

    One object written, the manifest lists and manifests that are new read, those that
    :func:`graveler.table_format.dropped_files.dropped_files` reads, and the requests of
    :func:`graveler.lake.iceberg.linked_files.links`. :class:`InvalidError` for files that are missing or elsewhere: then
    nothing is written.
    """
    before = None if entry is None else read_document(repository, entry, "")
    after = make(int(repository.clock.now() * 1000))
    uuid = after["table-uuid"]
    folder = folder_of(repository, uuid, after["location"])
    if replaced is not None and replaced.metadata.get(UUID_FIELD) != uuid:
        replaced = None
    path = links_folder(tree, table, uuid, entry or replaced)
    find_missing = partial(unlinked_locations, tree, folder, path)
    files = _new_files(repository, folder, before, after, find_missing)
    if entry is not None:
        files.append(NamedFile(location_of(repository, entry), entry.size, entry))
    named = placed_files(folder, path, files)
    new_links = links(repository, tree, folder, named, expect_source)
    dropped = () if before is None else dropped_files(before, after, files_reader(repository, folder))
    unlinked = removals(tree, folder, path, dropped, named)

    key = relation_key(table, "table").decode()
    fields = partial(state_fields, path=path)
    return TableState(
        repository.pack(write_document(repository, folder, name, key, make, fields)),
        {**new_links, **unlinked},
        named.keys(),
    )


def state_fields(document: Document, path: str) -> dict[str, str]:
    """Return the metadata of a table's entry; ``path`` is the one below which its files are linked."""
    fields = {UUID_FIELD: document["table-uuid"], FOLDER_FIELD: path}
    snapshot = current_snapshot_id(document)
    if snapshot is not None:
        fields |= {SNAPSHOT_FIELD: str(snapshot), SEQUENCE_FIELD: str(document.get("last-sequence-number", 0))}
    return fields


def _new_files(
    repository: RepositoryParts,
    folder: TableFolder,
    before: Document | None,
    after: Document,
    find_missing: FindMissing,
) -> list[NamedFile]:
    """Return the files that a table's new metadata names, and the old one did not. The manifest lists and manifests that are new
    are read. :class:`InvalidError` for those that cannot be, or are none: nothing has been changed then."""
    try:
        added = added_files(before, after, reader_in(repository, folder), find_missing=find_missing)
        return [NamedFile(file.location, file.size) for file in added.values()]
    except NotFoundError as error:
        raise InvalidError(f"{error}; write it before the commit") from None
    except CorruptError as error:  # what a client has named is the client's fault
        raise InvalidError(str(error)) from None


def location_of(repository: RepositoryParts, entry: ObjectEntry) -> str:
    """Return the location of an entry's file as clients know it. No request."""
    return f"{root_of(repository)}{entry.address.removeprefix(repository.namespace)}"


def with_own_rules(repository: RepositoryParts, document: Document) -> Document:
    """Return a table's metadata with what a table of this repository always has. In a folder, where clients delete files by
    themselves, it says that they must not: other branches and earlier commits have the same files."""
    properties = document.get("properties") or {}
    if not isinstance(repository.objects, FolderObjects) or properties.get(_CLEANUP) == "false":
        return document
    return {**document, "properties": {**properties, _CLEANUP: "false"}}


def reader_in(repository: RepositoryParts, folder: TableFolder) -> ReadFile:
    """Return the function that reads a table's files. It raises :class:`InvalidError` for a file outside of the folder, and
    :class:`NotFoundError` for one that does not exist."""

    def read(location: str) -> bytes:
        key = folder.key_of(location)
        if key is None:
            raise folder.outside_error(location)
        try:
            return repository.objects.get(key)
        except ObjectMissingError:
            raise NotFoundError(f"the table's metadata names {location!r}, which does not exist") from None

    return read


def files_reader(repository: RepositoryParts, folder: TableFolder) -> ReadFiles:
    """Return the function that reads many of a table's files, 32 at a time on S3. Errors as of :func:`reader_in`."""
    read = reader_in(repository, folder)

    def read_files(locations: Sequence[str]) -> Iterator[bytes]:
        return concurrent_results((repository.objects,), read, locations)

    return read_files
