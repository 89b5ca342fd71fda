"""Creating and changing views."""

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key
from graveler.lake.iceberg.entry_landing import EntryChanges, land_entries, with_default_message
from graveler.lake.iceberg.metadata_files import (
    MakeDocument,
    read_document,
    read_stored,
    request_name,
    write_document,
)
from graveler.lake.iceberg.relations import expect_room
from graveler.lake.iceberg.table_folders import folder_for, folder_of
from graveler.lake.iceberg.table_states import UUID_FIELD
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.iceberg import CreateView, RegisterView, ReplaceView
from graveler.requests.iceberg import Document as Definition
from graveler.table_format.common_updates import without_location
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_requirements import check_view_requirements
from graveler.table_format.view_metadata import new_view
from graveler.table_format.view_updates import apply_view_updates
from graveler.tree.tree import Tree


def create_view(repository: RepositoryParts, request: CreateView, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.CreateView`."""
    view, branch = request.view, request.branch
    key = relation_key(view, "view")

    def change(head: Commit, tree: Tree) -> EntryChanges:
        expect_room(tree, view, branch)
        name = request_name(request, head.id.encode())
        uuid = str(UUID(bytes=name[:16], version=4))
        return {
            key: _new_record(repository, key, uuid, name, partial(_new_document, repository, request.definition, uuid))
        }

    info = with_default_message(request.info, f"Create view {view}", view=str(view))
    return land_entries(repository, branch, request, info, context, change)


def register_view(repository: RepositoryParts, request: RegisterView, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.RegisterView`."""
    view, branch = request.view, request.branch
    key = relation_key(view, "view")
    document = read_stored(repository, request.location, "view")
    uuid = document["view-uuid"]
    folder_of(repository, uuid, document["location"])

    def change(head: Commit, tree: Tree) -> EntryChanges:
        expect_room(tree, view, branch)
        return {key: _new_record(repository, key, uuid, request_name(request, head.id.encode()), lambda _: document)}

    info = with_default_message(request.info, f"Register view {view}", view=str(view))
    return land_entries(repository, branch, request, info, context, change)


def replace_view(repository: RepositoryParts, request: ReplaceView, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.ReplaceView`."""
    view, branch = request.view, request.branch
    key = relation_key(view, "view")

    def change(_: Commit, tree: Tree) -> EntryChanges:
        packed = tree.get(key)
        if packed is None:
            raise RelationNotFoundError("view", str(view), branch)
        before = read_document(repository, repository.codec.decode(key, packed), branch, "view")
        check_view_requirements(before, request.requirements)

        def make(time_ms: int) -> Document:
            return apply_view_updates(before, without_location(request.updates), time_ms=time_ms)

        after = make(int(repository.clock.now() * 1000))
        if after is before:
            return {}
        uuid = before["view-uuid"]
        return {key: _new_record(repository, key, uuid, request_name(request, packed), make)}

    info = with_default_message(request.info, f"Change view {view}", view=str(view))
    return land_entries(repository, branch, request, info, context, change)


def _new_record(repository: RepositoryParts, key: bytes, uuid: str, name: bytes, make: MakeDocument) -> bytes:
    """Write the metadata file of a view's new state, and return its record."""

    def fields(_: Document) -> Mapping[str, str]:
        return {UUID_FIELD: uuid}

    folder = folder_for(repository, uuid)
    return repository.pack(write_document(repository, folder, name, key.decode(), make, fields))


def _new_document(repository: RepositoryParts, definition: Definition, uuid: str, _: int) -> Document:
    return new_view(
        schema=definition["schema"],
        view_version=definition["view-version"],
        properties=definition.get("properties") or {},
        location=folder_for(repository, uuid).location,
        uuid=uuid,
    )
