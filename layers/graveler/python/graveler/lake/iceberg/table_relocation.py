"""Rewriting the locations of tables in a lake that was moved to another folder, bucket or prefix."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key, relation_of
from graveler.lake.iceberg.entry_landing import EntryChanges, described, land_entries
from graveler.lake.iceberg.linked_files import NamedFile, linked_keys, links, links_folder, placed_files
from graveler.lake.iceberg.metadata_files import put_once, read_document, write_document
from graveler.lake.iceberg.position_deletes import rewrite_positions
from graveler.lake.iceberg.table_folders import TableFolder, moved_folder
from graveler.lake.iceberg.table_states import location_of, reader_in, state_fields, with_own_rules
from graveler.lake.merging.inputs import commit_at, tree_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, ObjectEntry
from graveler.requests.base import CommitInfo
from graveler.requests.iceberg import CommitTables, Identifier, TableChange
from graveler.table_format.file_locations import normal_location
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import reached_files
from graveler.table_format.relocation import Relocation
from graveler.table_format.table_metadata import read_table
from graveler.tree.listing import prefix_end
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import END, FILES, RESERVED

_SHOWN: Final = 1000


class RewrittenTables(Struct, frozen=True):
    """The tables whose locations were rewritten, and the commit that has them; the branch's head if there are none."""

    tables: tuple[Identifier, ...]
    commit: Commit


def rewrite_table_locations(
    repository: RepositoryParts,
    branch: str,
    tables: Sequence[Identifier],
    info: CommitInfo,
    context: Context = UNLIMITED,
) -> RewrittenTables:
    """Rewrite the locations in tables of a branch to those where their files lie now, in one commit; those of all its tables if
    none is named. A table whose locations are right stays as it is. Snapshots, their sequence numbers, and data files do not
    change; earlier commits do not, either.

    Cost: for each table that was moved all of its manifest lists and manifests, and its files of position deletes, read and
    written, and one metadata file written. :class:`RelationNotFoundError`; :class:`InvalidError` for what cannot be rewritten,
    and for a table that this repository did not make: then the branch stays as it is.
    """
    head = commit_at(repository, branch)
    tree = tree_of(repository, head)
    moved = tuple(table for table in tables or _all_tables(tree) if _was_moved(repository, tree, branch, table))
    if not moved:
        return RewrittenTables((), head)
    prepared: dict[tuple[Identifier, bytes], EntryChanges] = {}

    def change_entries(_: Commit, before: Tree) -> EntryChanges:
        changes: dict[bytes, bytes | None] = {}
        for table in moved:
            packed = before.get(relation_key(table, "table"))
            if packed is None:
                raise RelationNotFoundError("table", str(table), branch)
            if (table, packed) not in prepared:
                entry = repository.codec.decode(relation_key(table, "table"), packed)
                prepared[table, packed] = _rewritten(repository, before, branch, table, entry, packed)
            changes |= prepared[table, packed]
        return changes

    # A gate knows the commit by the change that a client would ask for.
    request = CommitTables(branch=branch, tables=tuple(TableChange(table) for table in moved), info=info)
    names = ", ".join(map(str, moved))
    message = f"Rewrite the location of table{'s' if len(moved) > 1 else ''} {names}"
    own_info = described(info, message[:_SHOWN], table=names[:_SHOWN])
    commit = land_entries(repository, branch, request, own_info, context, change_entries, early=True)
    return RewrittenTables(moved, commit)


def _all_tables(tree: Tree) -> list[Identifier]:
    tables = []
    for start, end in ((RESERVED, FILES), (prefix_end(FILES) or END, END)):  # entries, without the files of tables
        for keys, _ in tree.run(start, end):
            relations = (relation_of(key) for key in keys)
            tables += [relation[0] for relation in relations if relation is not None and relation[1] == "table"]
    return tables


def _was_moved(repository: RepositoryParts, tree: Tree, branch: str, table: Identifier) -> bool:
    """Return whether a table lies elsewhere than its metadata names. :class:`RelationNotFoundError`, :class:`InvalidError`."""
    key = relation_key(table, "table")
    packed = tree.get(key)
    if packed is None:
        raise RelationNotFoundError("table", str(table), branch)
    document = read_document(repository, repository.codec.decode(key, packed), branch, read_table)
    return _folder_after_move(repository, document) is not None


def _folder_after_move(repository: RepositoryParts, document: Document) -> TableFolder | None:
    """Return the present folder of a table; None if its metadata names it. :class:`InvalidError`."""
    folder = moved_folder(repository, document["table-uuid"], document["location"])
    return None if normal_location(document["location"]).rstrip("/") == folder.location else folder


def _rewritten(
    repository: RepositoryParts, tree: Tree, branch: str, table: Identifier, entry: ObjectEntry, packed: bytes
) -> EntryChanges:
    """Write the files of a table that names its present folder, and return its records."""
    before = read_document(repository, entry, branch, read_table)
    uuid = before["table-uuid"]
    folder = _folder_after_move(repository, before)
    if folder is None:
        return {}

    def write_file(location: str, contents: bytes) -> None:
        put_once(repository, _key_in(folder, location), contents)

    read_file = reader_in(repository, folder)
    relocation = Relocation(before["location"], folder.location, read_file, write_file, rewrite_positions)
    present = location_of(repository, entry)
    template = relocation.table(before, 0, present)

    def make(time_ms: int) -> Document:
        time_ms = max(time_ms, before["last-updated-ms"])
        return with_own_rules(repository, template | {"last-updated-ms": time_ms})

    path = links_folder(tree, table, uuid, entry)
    files = [NamedFile(file.location, file.size) for file in reached_files(template, read_file).values()]
    named = placed_files(folder, path, [*files, NamedFile(present, entry.size, entry)])
    unlinked = dict.fromkeys(key for key in linked_keys(tree, entry) if key not in named)
    new_links = links(repository, tree, folder, named)
    name = sha256(b"location" + packed + folder.location.encode()).digest()
    key = relation_key(table, "table")
    written = write_document(
        repository, folder, name, key.decode(), make, lambda document: state_fields(document, path)
    )
    return {**unlinked, **new_links, key: repository.pack(written)}


def _key_in(folder: TableFolder, location: str) -> str:
    key = folder.key_of(location)
    if key is None:
        raise InvalidError(f"{location!r} is not in the folder {folder.location!r}")
    return key
