"""Requests that change the Iceberg tables, views and namespaces of a branch. Each is one commit of the branch.

Documents are those of the Iceberg REST catalog: JSON objects as plain dictionaries.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import Struct

from graveler.model import Commit
from graveler.requests.base import CommitInfo, Gated, Permission, Repetition

Document = dict[str, Any]
"""A JSON object."""
Relation = Literal["table", "view"]
"""What a name in a namespace stands for."""


class Identifier(Struct, frozen=True, order=True):
    """The name of a table or a view: the levels of its namespace, at least one, and its own name."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


class TableChange(Struct, frozen=True):
    """The changes of one table: ``updates`` are applied in their order if all ``requirements`` hold."""

    table: Identifier
    requirements: tuple[Document, ...] = ()
    updates: tuple[Document, ...] = ()


class CommitTables(Gated[Commit], frozen=True, kw_only=True):
    """Change tables of a branch, all of them or none. A change that requires that its table does not exist creates it.

    Files that the new metadata names, and that the old one did not, are looked at and linked: each must exist with the size that
    its manifest states. A moved head is built on anew; only a requirement that does not hold there is an error.

    Cost: for each table one lookup in the head's tree, its metadata unless this process has it, the manifests that are new, one
    object request for each new file, and one object written; beyond that as :class:`graveler.requests.committing.Commit`. On S3,
    eight tables at a time.

    :class:`RelationNotFoundError`, :class:`RequirementError` (a conflict), :class:`InvalidError`, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.table_commits:commit_tables"

    branch: str
    tables: tuple[TableChange, ...]
    info: CommitInfo = CommitInfo()


class CreateTable(Gated[Commit], frozen=True, kw_only=True):
    """Create a table. ``definition`` is the request of the REST catalog: ``schema``, ``partition-spec``, ``write-order`` and
    ``properties``; its location is always a new folder of the repository.

    Cost: as :class:`CommitTables`. :class:`RelationExistsError`, :class:`NamespaceNotFoundError`, :class:`InvalidError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.table_creation:create_table"

    branch: str
    table: Identifier
    definition: Document
    info: CommitInfo = CommitInfo()


class RegisterTable(Gated[Commit], frozen=True, kw_only=True):
    """Give a name to a table whose metadata exists in the repository's storage, such as one that was unregistered, or that
    another branch has. ``overwrite`` replaces a table of that name.

    Cost: as :class:`CommitTables`; all manifests of the table are read. :class:`RelationExistsError`,
    :class:`NamespaceNotFoundError`, :class:`InvalidError` for metadata elsewhere.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.table_creation:register_table"

    branch: str
    table: Identifier
    location: str
    overwrite: bool = False
    info: CommitInfo = CommitInfo()


class DropRelation(Gated[Commit], frozen=True, kw_only=True):
    """Remove a table or a view, and the links of a table's files, from a branch. The files stay as long as a commit that is
    retained has them.

    Cost: as :class:`graveler.requests.committing.Commit`. :class:`RelationNotFoundError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.relations:drop_relation"

    branch: str
    relation: Identifier
    kind: Relation = "table"
    info: CommitInfo = CommitInfo()


class RenameRelation(Gated[Commit], frozen=True, kw_only=True):
    """Rename a table or a view. The links of a table's files stay where they are.

    Cost: as :class:`graveler.requests.committing.Commit`. :class:`RelationNotFoundError`, :class:`RelationExistsError`,
    :class:`NamespaceNotFoundError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.relations:rename_relation"

    branch: str
    relation: Identifier
    destination: Identifier
    kind: Relation = "table"
    info: CommitInfo = CommitInfo()


class CreateView(Gated[Commit], frozen=True, kw_only=True):
    """Create a view. ``definition`` is the request of the REST catalog: ``schema``, ``view-version`` and ``properties``.

    Cost: as :class:`CommitTables`. :class:`RelationExistsError`, :class:`NamespaceNotFoundError`, :class:`InvalidError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.views:create_view"

    branch: str
    view: Identifier
    definition: Document
    info: CommitInfo = CommitInfo()


class RegisterView(Gated[Commit], frozen=True, kw_only=True):
    """Give a name to a view whose metadata exists in the repository's storage.

    Cost: as :class:`CommitTables`. :class:`RelationExistsError`, :class:`NamespaceNotFoundError`, :class:`InvalidError` for
    metadata elsewhere.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.views:register_view"

    branch: str
    view: Identifier
    location: str
    info: CommitInfo = CommitInfo()


class ReplaceView(Gated[Commit], frozen=True, kw_only=True):
    """Change a view: ``updates`` are applied in their order if all ``requirements`` hold.

    Cost: as :class:`CommitTables`. :class:`RelationNotFoundError`, :class:`RequirementError`, :class:`InvalidError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.views:replace_view"

    branch: str
    view: Identifier
    requirements: tuple[Document, ...] = ()
    updates: tuple[Document, ...] = ()
    info: CommitInfo = CommitInfo()


class CreateNamespace(Gated[Commit], frozen=True, kw_only=True):
    """Create a namespace, and those above it that do not exist. Cost: one object request for each, and one object written for the
    first namespace of the repository; beyond that as :class:`graveler.requests.committing.Commit`.
    :class:`RelationExistsError`, :class:`InvalidError`."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.namespace_changes:create_namespace"

    branch: str
    namespace: tuple[str, ...]
    properties: Mapping[str, str] = {}
    info: CommitInfo = CommitInfo()


class DropNamespace(Gated[Commit], frozen=True, kw_only=True):
    """Remove an empty namespace. Cost: as :class:`graveler.requests.committing.Commit`. :class:`NamespaceNotFoundError`,
    :class:`NamespaceNotEmptyError`."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.namespace_changes:drop_namespace"

    branch: str
    namespace: tuple[str, ...]
    info: CommitInfo = CommitInfo()


class SetNamespaceProperties(Gated[Commit], frozen=True, kw_only=True):
    """Remove and set properties of a namespace. Properties to remove that it does not have are ignored. Cost: as
    :class:`graveler.requests.committing.Commit`. :class:`NamespaceNotFoundError`; :class:`InvalidError` for a property in
    both."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "iceberg.namespace_changes:set_namespace_properties"

    branch: str
    namespace: tuple[str, ...]
    removals: tuple[str, ...] = ()
    updates: Mapping[str, str] = {}
    info: CommitInfo = CommitInfo()
