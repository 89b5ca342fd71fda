"""Commits of tables: requirements are checked against the branch's head, updates are applied, and the branch moves to a tree
with the new metadata files and the files that they name."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key
from graveler.lake.iceberg.concurrent_requests import TABLES_AT_ONCE, concurrent_results
from graveler.lake.iceberg.entry_landing import EntryChanges, land_entries, with_default_message
from graveler.lake.iceberg.metadata_files import read_document, request_name
from graveler.lake.iceberg.relations import expect_room
from graveler.lake.iceberg.table_folders import folder_for
from graveler.lake.iceberg.table_states import TableState, location_of, with_own_rules, write_state
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.base import CommitInfo
from graveler.requests.iceberg import CommitTables, TableChange
from graveler.table_format.common_updates import without_location
from graveler.table_format.plain_documents import Document
from graveler.table_format.snapshot_expiry import EXPIRE_PROPERTY, expired_snapshots
from graveler.table_format.table_requirements import check_table_requirements, is_creation
from graveler.table_format.table_updates import apply_table_updates
from graveler.tree.tree import Tree


class _BuiltChange(Struct, frozen=True):
    """A table's change as it was built on the record ``basis``; None: on no table."""

    basis: bytes | None
    state: TableState | None


def commit_tables(repository: RepositoryParts, request: CommitTables, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.CommitTables`."""
    branch, changes = request.branch, request.tables
    keys = {change.table: relation_key(change.table, "table") for change in changes}
    if len(keys) < len(changes):
        raise InvalidError("a transaction changes each table once; put all its updates into one change")
    prepared: dict[bytes, _BuiltChange] = {}

    def change_entries(head: Commit, tree: Tree) -> EntryChanges:
        def is_built(change: TableChange) -> bool:
            key = keys[change.table]
            basis = tree.get(key)  # whether the name of a new table is free depends on the head
            return basis is not None and key in prepared and prepared[key].basis == basis

        def build(change: TableChange) -> _BuiltChange:
            key = keys[change.table]
            basis = tree.get(key)
            return _BuiltChange(basis, _new_state(repository, request, context, head, tree, change, key, basis))

        remaining = [change for change in changes if not is_built(change)]
        results = concurrent_results((repository.objects,), build, remaining, TABLES_AT_ONCE)
        prepared.update(zip((keys[change.table] for change in remaining), results, strict=True))
        records: dict[bytes, bytes | None] = {}
        for key in keys.values():
            state = prepared[key].state
            if state is not None:
                records |= {**state.links, key: state.packed}
        return records

    return land_entries(repository, branch, request, _info(request.info, changes), context, change_entries, early=True)


def _new_state(
    repository: RepositoryParts,
    request: CommitTables,
    context: Context,
    head: Commit,
    tree: Tree,
    change: TableChange,
    key: bytes,
    basis: bytes | None,
) -> TableState | None:
    """Return the new state of a table; None if the change has no effect. :class:`RequirementError`,
    :class:`RelationNotFoundError`, :class:`InvalidError`."""
    entry = None if basis is None else repository.codec.decode(key, basis)
    before = None if entry is None else read_document(repository, entry, request.branch)
    if before is None and not is_creation(change.requirements):
        raise RelationNotFoundError("table", str(change.table), request.branch)
    check_table_requirements(before, change.requirements)
    if before is None:
        expect_room(tree, change.table, request.branch)
    location = None if entry is None else location_of(repository, entry)
    name = request_name(request, key + (head.id.encode() if basis is None else basis))
    uuid = str(UUID(bytes=name[:16], version=4))
    updates = _with_own_location(repository, change.updates, "" if before else uuid)

    def make(time_ms: int) -> Document:
        apply = partial(apply_table_updates, before, time_ms=time_ms, previous_location=location, uuid=uuid)
        after = apply(updates)
        if after is before:
            return after
        if (after.get("properties") or {}).get(EXPIRE_PROPERTY) == "true":
            expired = expired_snapshots(after, time_ms).updates
            after = apply([*updates, *expired]) if expired else after
        return with_own_rules(repository, after)

    if make(int(repository.clock.now() * 1000)) is before:
        return None
    return write_state(repository, tree, change.table, entry, make, name, context.expect_source)


def _with_own_location(repository: RepositoryParts, updates: Sequence[Document], uuid: str) -> list[Document]:
    """Return updates without the locations that a client demands, and for a new table with that of its folder; ``uuid`` is the
    one that it gets unless the client has chosen one."""
    remaining = without_location(updates)
    if not uuid:
        return remaining
    chosen = next(
        (update.get("uuid") for update in updates if str(update.get("action")).lower() == "assign-uuid"), uuid
    )
    return [*remaining, {"action": "set-location", "location": folder_for(repository, str(chosen)).location}]


def _info(info: CommitInfo, changes: Sequence[TableChange]) -> CommitInfo:
    names = ", ".join(sorted(str(change.table) for change in changes))
    return with_default_message(
        info, f"Change table{'s' if len(changes) > 1 else ''} {names}"[:1000], table=names[:1000]
    )
