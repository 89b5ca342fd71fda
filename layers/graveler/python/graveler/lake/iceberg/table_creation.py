"""Creating and registering tables."""

from functools import partial
from uuid import UUID, uuid4

from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_paths import relation_key
from graveler.lake.iceberg.entry_landing import EntryChanges, land_entries, with_default_message
from graveler.lake.iceberg.linked_files import linked_keys
from graveler.lake.iceberg.metadata_files import read_stored, request_name
from graveler.lake.iceberg.relations import expect_room
from graveler.lake.iceberg.table_folders import folder_for, make_folder_of_metadata
from graveler.lake.iceberg.table_states import with_own_rules, write_state
from graveler.lake.merging.inputs import tree_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.iceberg import CreateTable, Identifier, RegisterTable
from graveler.requests.iceberg import Document as Definition
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import new_table
from graveler.tree.tree import Tree


def create_table(repository: RepositoryParts, request: CreateTable, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.CreateTable`."""
    table, branch = request.table, request.branch
    key = relation_key(table, "table")

    def change(head: Commit, tree: Tree) -> EntryChanges:
        expect_room(tree, table, branch)
        name = request_name(request, head.id.encode())
        uuid = str(UUID(bytes=name[:16], version=4))
        make = partial(_new_document, repository, request.definition, uuid)
        state = write_state(repository, tree, table, None, make, name)
        return {key: state.packed}

    info = with_default_message(request.info, f"Create table {table}", table=str(table))
    return land_entries(repository, branch, request, info, context, change)


def staged_table(repository: RepositoryParts, branch: str, table: Identifier, definition: Definition) -> Document:
    """Return the metadata of a table whose creation is staged: a later commit, which requires that the table does not exist,
    creates it. Nothing is stored; in a folder, the folder of its metadata is made. One table read, two lookups in the tree.
    :class:`RelationExistsError`, :class:`NamespaceNotFoundError`, :class:`InvalidError`, and :class:`RefNotFoundError` for a tag
    or a commit, where a client would write files that it cannot commit."""
    head = repository.branches.commit(repository.branches.state(branch).commit_id)
    expect_room(tree_of(repository, head), table, branch)
    uuid = str(uuid4())
    document = _new_document(repository, definition, uuid, int(repository.clock.now() * 1000))
    make_folder_of_metadata(repository, folder_for(repository, uuid))
    return document


def register_table(repository: RepositoryParts, request: RegisterTable, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.RegisterTable`."""
    table, branch = request.table, request.branch
    key = relation_key(table, "table")
    document = with_own_rules(repository, read_stored(repository, request.location))

    def change(head: Commit, tree: Tree) -> EntryChanges:
        basis = tree.get(key) if request.overwrite else None
        if basis is None:
            expect_room(tree, table, branch)
        name = request_name(request, head.id.encode())
        replaced = None if basis is None else repository.codec.decode(key, basis)
        state = write_state(repository, tree, table, None, lambda _: document, name, context.expect_source, replaced)
        former = () if replaced is None else linked_keys(tree, replaced)
        unlinked = (link for link in former if link not in state.named)
        return {**dict.fromkeys(unlinked), **state.links, key: state.packed}

    info = with_default_message(request.info, f"Register table {table}", table=str(table))
    return land_entries(repository, branch, request, info, context, change)


def _new_document(repository: RepositoryParts, definition: Definition, uuid: str, time_ms: int) -> Document:
    """Return the metadata of a new table in a folder of its own."""
    document = new_table(
        schema=definition["schema"],
        partition_spec=definition.get("partition-spec"),
        sort_order=definition.get("write-order"),
        properties=definition.get("properties") or {},
        location=folder_for(repository, uuid).location,
        uuid=uuid,
        time_ms=time_ms,
    )
    return with_own_rules(repository, document)
