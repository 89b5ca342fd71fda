"""Creating, changing and dropping namespaces."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_errors import (
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    RelationExistsError,
)
from graveler.lake.iceberg.catalog_paths import entries_prefix, namespace_key, namespace_of, relation_of
from graveler.lake.iceberg.catalog_reader import entry_keys
from graveler.lake.iceberg.entry_landing import EntryChanges, land_entries, with_default_message
from graveler.lake.objects.issued_addresses import NAMESPACES
from graveler.lake.parts import RepositoryParts
from graveler.model import DEFAULT_CONTENT_TYPE, Commit, ObjectEntry
from graveler.requests.iceberg import CreateNamespace, DropNamespace, SetNamespaceProperties
from graveler.storage.objects.port import ObjectMissingError
from graveler.tree.tree import Tree

_CHECKSUM: Final = "d41d8cd98f00b204e9800998ecf8427e"
"""The MD5 of no bytes."""


def create_namespace(repository: RepositoryParts, request: CreateNamespace, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.CreateNamespace`."""
    namespace, branch = request.namespace, request.branch
    key = namespace_key(namespace)
    above = [namespace[:depth] for depth in range(1, len(namespace))]

    def change(_: Commit, tree: Tree) -> EntryChanges:
        if tree.get(key) is not None:
            raise RelationExistsError("namespace", ".".join(namespace), branch)
        lacking = [parent for parent in above if tree.get(namespace_key(parent)) is None]
        new = {namespace_key(parent): _namespace_record(repository, parent, {}) for parent in lacking}
        return {**new, key: _namespace_record(repository, namespace, request.properties)}

    name = ".".join(namespace)
    info = with_default_message(request.info, f"Create namespace {name}", namespace=name)
    return land_entries(repository, branch, request, info, context, change)


def drop_namespace(repository: RepositoryParts, request: DropNamespace, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.DropNamespace`."""
    namespace, name = request.namespace, ".".join(request.namespace)
    key = namespace_key(namespace)

    def change(_: Commit, tree: Tree) -> EntryChanges:
        if tree.get(key) is None:
            raise NamespaceNotFoundError(name, request.branch)
        entry = next(entry_keys(tree, entries_prefix(namespace)), None)
        if entry is not None:
            relation, below = relation_of(entry), namespace_of(entry)
            content = f"{relation[1]} {relation[0]}" if relation else f"namespace {'.'.join(below or ())}"
            raise NamespaceNotEmptyError(name, content)
        return {key: None}

    info = with_default_message(request.info, f"Drop namespace {name}", namespace=name)
    return land_entries(repository, request.branch, request, info, context, change)


def set_namespace_properties(repository: RepositoryParts, request: SetNamespaceProperties, context: Context) -> Commit:
    """See :class:`graveler.requests.iceberg.SetNamespaceProperties`."""
    namespace, branch, name = request.namespace, request.branch, ".".join(request.namespace)
    key = namespace_key(namespace)
    both = sorted({*request.removals} & {*request.updates})
    if both:
        raise InvalidError(
            f"property {both[0]!r} of namespace {name} is to be both removed and set; leave it out of one of them"
        )

    def change(_: Commit, tree: Tree) -> EntryChanges:
        packed = tree.get(key)
        if packed is None:
            raise NamespaceNotFoundError(name, branch)
        entry = repository.codec.decode(key, packed)
        rest = {field: text for field, text in entry.metadata.items() if field not in request.removals}
        return {key: repository.pack(replace(entry, metadata={**rest, **request.updates}))}

    info = with_default_message(request.info, f"Change properties of namespace {name}", namespace=name)
    return land_entries(repository, branch, request, info, context, change)


def _namespace_record(repository: RepositoryParts, namespace: tuple[str, ...], properties: Mapping[str, str]) -> bytes:
    """Return the record of a namespace. One object request; another one if it is the first namespace of the repository."""
    try:
        stored = repository.objects.head(NAMESPACES)
    except ObjectMissingError:
        stored = repository.objects.put(NAMESPACES, b"")
    path, address = namespace_key(namespace).decode(), f"{repository.namespace}/{NAMESPACES}"
    return repository.pack(
        ObjectEntry(path, address, 0, _CHECKSUM, int(stored.modified), DEFAULT_CONTENT_TYPE, dict(properties))
    )
