"""Rewriting the locations of tables and views in a lake that was moved to another folder, bucket or prefix."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key, relation_of
from graveler.lake.iceberg.concurrent_requests import TABLES_AT_ONCE, concurrent_results
from graveler.lake.iceberg.entry_landing import EntryChanges, land_entries, with_default_message
from graveler.lake.iceberg.linked_files import NamedFile, linked_keys, links, links_folder, placed_files
from graveler.lake.iceberg.metadata_files import put_once, read_document, write_document
from graveler.lake.iceberg.position_deletes import rewrite_positions
from graveler.lake.iceberg.table_folders import TableFolder, moved_folder
from graveler.lake.iceberg.table_states import UUID_FIELD, location_of, reader_in, state_fields, with_own_rules
from graveler.lake.merging.inputs import commit_at, tree_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, ObjectEntry
from graveler.requests.base import CommitInfo
from graveler.requests.iceberg import CommitTables, Identifier, Relation, TableChange
from graveler.table_format.file_locations import normal_location
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import reached_files
from graveler.table_format.relocation import Relocation
from graveler.tree.listing import prefix_end
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import END, FILES, RESERVED

_MESSAGE_CHARS: Final = 1000


class RewrittenTables(Struct, frozen=True):
    """The tables and views whose locations were rewritten, and the commit that has them; the branch's head if there are none."""

    tables: tuple[Identifier, ...]
    views: tuple[Identifier, ...]
    commit: Commit


class _Entry(Struct, frozen=True):
    """A table or a view, with the key of its entry."""

    key: bytes
    name: Identifier
    kind: Relation


def rewrite_table_locations(
    repository: RepositoryParts,
    branch: str,
    names: Sequence[Identifier],
    info: CommitInfo,
    context: Context = UNLIMITED,
) -> RewrittenTables:
    """Rewrite the locations in tables and views of a branch to those where their files lie now, in one commit. Without names, all
    of them are rewritten. A table whose locations are right stays as it is. Snapshots, their sequence numbers, data files, and
    earlier commits do not change.

    Cost: the metadata of each table and view, unless this process has it; for each table that was moved, all of its manifest
    lists and manifests, and its files of position deletes, read and written, and one metadata file written; for a view that
    alone. On S3, eight tables at a time. :class:`RelationNotFoundError`; :class:`InvalidError` for what cannot be rewritten, and
    for a table that this repository did not make; else errors as of
    :func:`graveler.lake.iceberg.entry_landing.land_entries`. After an error the branch stays as it is.
    """
    head = commit_at(repository, branch)
    tree = tree_of(repository, head)
    named = [*dict.fromkeys(_relation_named(tree, branch, name) for name in names)] if names else _all_relations(tree)
    were_moved = concurrent_results((repository.objects,), partial(_was_moved, repository, tree, branch), named)
    moved = [relation for relation, was_moved in zip(named, were_moved, strict=True) if was_moved]
    tables, views = (tuple(part.name for part in moved if part.kind == kind) for kind in ("table", "view"))
    if not moved:
        return RewrittenTables((), (), head)
    prepared: dict[tuple[bytes, bytes], EntryChanges] = {}

    def change_entries(_: Commit, before: Tree) -> EntryChanges:
        records = {relation: before.get(relation.key) for relation in moved}

        def relocate(relation: _Entry) -> EntryChanges:
            packed = records[relation]
            if packed is None:
                raise RelationNotFoundError(relation.kind, str(relation.name), branch)
            if (relation.key, packed) in prepared:
                return prepared[relation.key, packed]
            return _relocated(repository, before, branch, relation, packed)

        changes: dict[bytes, bytes | None] = {}
        results = concurrent_results((repository.objects,), relocate, moved, TABLES_AT_ONCE)
        for (relation, packed), entry_changes in zip(records.items(), results, strict=True):
            assert packed is not None
            prepared[relation.key, packed] = entry_changes
            changes |= entry_changes
        return changes

    # Identifies the commit to the branch's gate, as the request of a client that changes these tables.
    request = CommitTables(branch=branch, tables=tuple(TableChange(relation.name) for relation in moved), info=info)
    parts = [_kind_and_names(kind, group) for kind, group in (("table", tables), ("view", views)) if group]
    message = f"Rewrite the location of {' and '.join(parts)}"
    listed = ", ".join(str(relation.name) for relation in moved)
    own_info = with_default_message(info, message[:_MESSAGE_CHARS], table=listed[:_MESSAGE_CHARS])
    commit = land_entries(repository, branch, request, own_info, context, change_entries, early=True)
    return RewrittenTables(tables, views, commit)


def _kind_and_names(kind: str, names: Sequence[Identifier]) -> str:
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(map(str, names))}"


def _relation_named(tree: Tree, branch: str, name: Identifier) -> _Entry:
    """Return the table or the view of a name. :class:`RelationNotFoundError`."""
    kinds: tuple[Relation, ...] = ("table", "view")
    for kind in kinds:
        key = relation_key(name, kind)
        if tree.get(key) is not None:
            return _Entry(key, name, kind)
    raise RelationNotFoundError("table", str(name), branch)


def _all_relations(tree: Tree) -> list[_Entry]:
    relations = []
    for start, end in ((RESERVED, FILES), (prefix_end(FILES) or END, END)):  # entries, without the files of tables
        for keys, _ in tree.run(start, end):
            by_key = ((key, relation_of(key)) for key in keys)
            relations += [_Entry(key, *relation) for key, relation in by_key if relation is not None]
    return relations


def _was_moved(repository: RepositoryParts, tree: Tree, branch: str, relation: _Entry) -> bool:
    """Return whether a table or a view lies elsewhere than its metadata names. :class:`InvalidError`."""
    packed = tree.get(relation.key)
    if packed is None:
        raise RelationNotFoundError(relation.kind, str(relation.name), branch)
    entry = repository.codec.decode(relation.key, packed)
    document = read_document(repository, entry, branch, relation.kind)
    return _folder_after_move(repository, relation.kind, document) is not None


def _folder_after_move(repository: RepositoryParts, kind: Relation, document: Document) -> TableFolder | None:
    """Return the present folder of a table or a view; None if its metadata names it. :class:`InvalidError`."""
    folder = moved_folder(repository, document[f"{kind}-uuid"], document["location"])
    return None if normal_location(document["location"]).rstrip("/") == folder.location else folder


def _relocated(repository: RepositoryParts, tree: Tree, branch: str, moved: _Entry, packed: bytes) -> EntryChanges:
    """Write the files of a table or a view with locations in its present folder, and return its records."""
    entry = repository.codec.decode(moved.key, packed)
    before = read_document(repository, entry, branch, moved.kind)
    folder = _folder_after_move(repository, moved.kind, before)
    if folder is None:
        return {}
    name = sha256(b"location" + packed + folder.location.encode()).digest()
    if moved.kind == "view":
        after = before | {"location": folder.location}
        fields = {UUID_FIELD: before["view-uuid"]}
        written = write_document(repository, folder, name, moved.key.decode(), lambda _: after, lambda _: fields)
        return {moved.key: repository.pack(written)}
    return _relocated_table(repository, tree, moved, entry, before, folder, name)


def _relocated_table(
    repository: RepositoryParts,
    tree: Tree,
    moved: _Entry,
    entry: ObjectEntry,
    before: Document,
    folder: TableFolder,
    name: bytes,
) -> EntryChanges:
    def write_file(location: str, contents: bytes) -> None:
        put_once(repository, _key_in(folder, location), contents)

    read_file = reader_in(repository, folder)
    relocation = Relocation(before["location"], folder.location, read_file, write_file, rewrite_positions)
    present = location_of(repository, entry)
    template = relocation.table(before, 0, present)

    def make(time_ms: int) -> Document:
        time_ms = max(time_ms, before["last-updated-ms"])
        return with_own_rules(repository, template | {"last-updated-ms": time_ms})

    path = links_folder(tree, moved.name, before["table-uuid"], entry)
    files = [NamedFile(file.location, file.size) for file in reached_files(template, read_file).values()]
    named = placed_files(folder, path, [*files, NamedFile(present, entry.size, entry)])
    unlinked = dict.fromkeys(key for key in linked_keys(tree, entry) if key not in named)
    new_links = links(repository, tree, folder, named)
    written = write_document(
        repository, folder, name, moved.key.decode(), make, lambda document: state_fields(document, path)
    )
    return {**unlinked, **new_links, moved.key: repository.pack(written)}


def _key_in(folder: TableFolder, location: str) -> str:
    key = folder.key_of(location)
    if key is None:
        raise InvalidError(f"{location!r} is not in the folder {folder.location!r}")
    return key
