"""Reading the tables, views and namespaces of a commit."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from graveler.lake.iceberg.catalog_errors import NamespaceNotFoundError, RelationNotFoundError
from graveler.lake.iceberg.catalog_paths import entries_prefix, namespace_key, namespace_of, relation_key, relation_of
from graveler.lake.iceberg.metadata_files import read_document
from graveler.lake.iceberg.table_folders import root_of
from graveler.lake.merging.inputs import commit_at, tree_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, ObjectEntry, Page
from graveler.requests.iceberg import Identifier, Relation
from graveler.table_format.plain_documents import Document
from graveler.tree.listing import list_page
from graveler.tree.record import encode_key
from graveler.tree.tree import Tree

_SLASH: Final = b"/"
_SCAN_AMOUNT: Final = 1000
"""Entries to look at together when some of them are of another kind."""


class LoadedRelation(Struct, frozen=True):
    """A table or a view of a commit: its metadata, and the location of the metadata file as clients know it."""

    identifier: Identifier
    entry: ObjectEntry
    document: Document
    location: str


class CatalogReader:
    """The catalog at one commit. ``ref`` is its name in errors. Making one resolves the ref."""

    def __init__(self, repository: RepositoryParts, ref: str, commit: Commit | None = None) -> None:
        self._repository = repository
        self._ref = ref
        self.commit = commit or commit_at(repository, ref)
        self._loaded: Tree | None = None

    @property
    def tree(self) -> Tree:
        """The commit's tree. One object read, unless this process has it."""
        if self._loaded is None:
            self._loaded = tree_of(self._repository, self.commit)
        return self._loaded

    def entry(self, relation: Identifier, kind: Relation) -> ObjectEntry | None:
        """Return the entry of a table or a view; None if there is none. One lookup in the tree."""
        key = relation_key(relation, kind)
        packed = self._repository.trees.get(self.commit.metarange, key)
        return None if packed is None else self._repository.codec.decode(key, packed)

    def expect(self, relation: Identifier, kind: Relation) -> ObjectEntry:
        """Return the entry of a table or a view. One lookup in the tree. :class:`RelationNotFoundError`."""
        entry = self.entry(relation, kind)
        if entry is None:
            raise RelationNotFoundError(kind, str(relation), self._ref)
        return entry

    def load(self, relation: Identifier, kind: Relation = "table") -> LoadedRelation:
        """Return a table or a view. One lookup in the tree, one object read unless this process has it.
        :class:`RelationNotFoundError`; else errors as of :func:`graveler.lake.iceberg.metadata_files.read_document`."""
        entry = self.expect(relation, kind)
        location = f"{root_of(self._repository)}{entry.address.removeprefix(self._repository.namespace)}"
        document = read_document(self._repository, entry, self._ref, kind)
        return LoadedRelation(relation, entry, document, location)

    def namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of a namespace. One lookup in the tree. :class:`NamespaceNotFoundError`."""
        entry = self.namespace_entry(namespace)
        if entry is None:
            raise NamespaceNotFoundError(".".join(namespace), self._ref)
        return dict(entry.metadata)

    def namespace_entry(self, namespace: tuple[str, ...]) -> ObjectEntry | None:
        """Return the entry of a namespace; None if there is none. One lookup in the tree."""
        key = namespace_key(namespace)
        packed = self._repository.trees.get(self.commit.metarange, key)
        return None if packed is None else self._repository.codec.decode(key, packed)

    def relations(
        self, namespace: tuple[str, ...], kind: Relation, after: str = "", amount: int = 1000
    ) -> Page[Identifier]:
        """Return the tables or views of a namespace, by name, behind the entry with the path ``after``. The ranges that the page
        spans are read. :class:`NamespaceNotFoundError`."""
        if self.namespace_entry(namespace) is None:
            raise NamespaceNotFoundError(".".join(namespace), self._ref)
        relations: list[Identifier] = []
        for key in entry_keys(self.tree, entries_prefix(namespace), after):
            parsed = relation_of(key)
            if parsed is None or parsed[1] != kind:
                continue
            if len(relations) == amount:
                return Page(tuple(relations), relation_key(relations[-1], kind).decode(), (self.commit.id,))
            relations.append(parsed[0])
        return Page(tuple(relations), None, (self.commit.id,))

    def namespaces(self, above: tuple[str, ...] = (), after: str = "", amount: int = 1000) -> Page[tuple[str, ...]]:
        """Return the namespaces right below one, or the highest ones, by name. Cost and errors as :meth:`relations`."""
        if above and self.namespace_entry(above) is None:
            raise NamespaceNotFoundError(".".join(above), self._ref)
        namespaces: list[tuple[str, ...]] = []
        for key in entry_keys(self.tree, entries_prefix(above), after):
            namespace = namespace_of(key)
            if namespace is None:
                continue
            if len(namespaces) == amount:
                return Page(tuple(namespaces), namespace_key(namespaces[-1]).decode(), (self.commit.id,))
            namespaces.append(namespace)
        return Page(tuple(namespaces), None, (self.commit.id,))


def entry_keys(tree: Tree, prefix: bytes, after: str = "") -> Iterator[bytes]:
    """Yield the keys right below ``prefix``, behind the key of the path ``after``."""
    position = encode_key(after) if after else b""
    while True:
        page = list_page(tree.run, prefix=prefix, after=position, delimiter=_SLASH, amount=_SCAN_AMOUNT)
        for key, packed in zip(page.keys, page.packed, strict=True):
            if packed is not None:
                yield key
        if not page.more:
            return
        position = page.keys[-1]
