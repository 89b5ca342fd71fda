"""Errors of the catalog of tables: names that a namespace lacks or has."""

from graveler.errors import AlreadyExistsError, NotFoundError, PreconditionError, sentence


@sentence("{ref!r} has no {kind} {name}; list those of its namespace")
class RelationNotFoundError(NotFoundError):
    """A ref has no table, or no view, of this name."""

    kind: str
    name: str
    ref: str


@sentence("{ref!r} has no namespace {name}; create it first")
class NamespaceNotFoundError(NotFoundError):
    """A ref has no namespace of this name."""

    name: str
    ref: str


class RelationExistsError(AlreadyExistsError):
    """The name of a new table, view or namespace is another one's, of this ``kind``. ``renamed`` is what was to get the name,
    if it has another one."""

    def __init__(self, kind: str, name: str, branch: str, renamed: str = "") -> None:
        self.renamed = renamed
        super().__init__(kind, name, f"choose another name, or drop it; it is on {branch!r}")


@sentence("namespace {name} still has {content}; drop that first")
class NamespaceNotEmptyError(PreconditionError):
    """A namespace that is to be dropped has a table, a view or a namespace."""

    name: str
    content: str
