"""Dropping and renaming tables and views."""

from graveler.errors import InvalidError
from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_errors import RelationExistsError, RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import relation_key
from graveler.lake.iceberg.entry_landing import EntryChanges, expect_namespace, land_entries, with_default_message
from graveler.lake.iceberg.linked_files import linked_keys
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.iceberg import DropRelation, Identifier, Relation, RenameRelation
from graveler.tree.tree import Tree

_KINDS: tuple[Relation, ...] = ("table", "view")


def drop_relation(repository: RepositoryParts, request: DropRelation, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.DropRelation`."""
    relation, kind, branch = request.relation, request.kind, request.branch
    key = relation_key(relation, kind)

    def change(_: Commit, tree: Tree) -> EntryChanges:
        packed = tree.get(key)
        if packed is None:
            raise RelationNotFoundError(kind, str(relation), branch)
        changes: dict[bytes, bytes | None] = {key: None}
        if kind == "table":
            changes |= dict.fromkeys(linked_keys(tree, repository.codec.decode(key, packed)))
        return changes

    info = with_default_message(request.info, f"Drop {kind} {relation}", **{kind: str(relation)})
    return land_entries(repository, branch, request, info, context, change)


def rename_relation(repository: RepositoryParts, request: RenameRelation, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.RenameRelation`."""
    relation, destination, kind, branch = request.relation, request.destination, request.kind, request.branch
    key, new_key = relation_key(relation, kind), relation_key(destination, kind)
    if key == new_key:
        raise InvalidError(f"{kind} {relation} already has that name; choose another one")

    def change(_: Commit, tree: Tree) -> EntryChanges:
        packed = tree.get(key)
        if packed is None:
            raise RelationNotFoundError(kind, str(relation), branch)
        expect_room(tree, destination, branch, renamed=str(relation))
        return {key: None, new_key: packed}

    info = with_default_message(request.info, f"Rename {kind} {relation} to {destination}", **{kind: str(destination)})
    return land_entries(repository, branch, request, info, context, change)


def expect_room(tree: Tree, relation: Identifier, branch: str, *, renamed: str = "") -> None:
    """Raise :class:`NamespaceNotFoundError` if the tree lacks the namespace of a new table or view, or
    :class:`RelationExistsError` if it has a table or a view of this name, since they share names. Three lookups."""
    expect_namespace(tree, relation.namespace, branch)
    for kind in _KINDS:
        if tree.get(relation_key(relation, kind)) is not None:
            raise RelationExistsError(kind, str(relation), branch, renamed)
