"""Requirements of a commit: what a client saw of a table or a view, checked against it as it is now."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from graveler.errors import ConflictError, InvalidError
from graveler.table_format.document_shapes import Int, Long, check_shape, require_document
from graveler.table_format.plain_documents import Document

MAX_REQUIREMENTS: Final = 10_000
"""Requirements of one commit."""


class RequirementError(ConflictError):
    """A commit was made for another state of the table or of the view than it has now: nothing was changed.

    The client loads it again, and decides. It is a ``CommitFailedException`` of Iceberg.
    """


class _Uuid(Struct, rename="kebab"):
    uuid: str


class _Ref(Struct, rename="kebab"):
    ref: str
    snapshot_id: Long | None = None


class _LastFieldId(Struct, rename="kebab"):
    last_assigned_field_id: Int


class _CurrentSchemaId(Struct, rename="kebab"):
    current_schema_id: Int


class _LastPartitionId(Struct, rename="kebab"):
    last_assigned_partition_id: Int


class _DefaultSpecId(Struct, rename="kebab"):
    default_spec_id: Int


class _DefaultSortOrderId(Struct, rename="kebab"):
    default_sort_order_id: Int


Requirements = Annotated[list[Any], Meta(max_length=MAX_REQUIREMENTS)]


def _check_uuid(field: str, words: str) -> Callable[[Document, Document], str | None]:
    def check(base: Document, requirement: Document) -> str | None:
        actual, expected = base.get(field), requirement["uuid"]
        return (
            None
            if str(actual).lower() == expected.lower()
            else f"{words} does not match: expected {actual} != {expected}"
        )

    return check


def _check_ref(base: Document, requirement: Document) -> str | None:
    name, expected = requirement["ref"], requirement.get("snapshot-id")
    ref = base["refs"].get(name)
    if ref is None:
        return None if expected is None else f"branch or tag {name} is missing, expected {expected}"
    if expected is None:
        return f"{ref['type']} {name} was created concurrently"
    if ref["snapshot-id"] != expected:
        return f"{ref['type']} {name} has changed: expected id {expected} != {ref['snapshot-id']}"
    return None


def _check_number(field: str, name: str, words: str) -> Callable[[Document, Document], str | None]:
    def check(base: Document, requirement: Document) -> str | None:
        actual, expected = base[field], requirement[name]
        return None if actual == expected else f"{words} changed: expected id {expected} != {actual}"

    return check


_Check = Callable[[Document, Document], str | None]

_TABLE_CHECKS: Final[dict[str, tuple[type, _Check]]] = {
    "assert-table-uuid": (_Uuid, _check_uuid("table-uuid", "UUID")),
    "assert-ref-snapshot-id": (_Ref, _check_ref),
    "assert-last-assigned-field-id": (
        _LastFieldId,
        _check_number("last-column-id", "last-assigned-field-id", "last assigned field id"),
    ),
    "assert-current-schema-id": (
        _CurrentSchemaId,
        _check_number("current-schema-id", "current-schema-id", "current schema"),
    ),
    "assert-last-assigned-partition-id": (
        _LastPartitionId,
        _check_number("last-partition-id", "last-assigned-partition-id", "last assigned partition id"),
    ),
    "assert-default-spec-id": (
        _DefaultSpecId,
        _check_number("default-spec-id", "default-spec-id", "default partition spec"),
    ),
    "assert-default-sort-order-id": (
        _DefaultSortOrderId,
        _check_number("default-sort-order-id", "default-sort-order-id", "default sort order"),
    ),
}
_VIEW_CHECKS: Final[dict[str, tuple[type, _Check]]] = {
    "assert-view-uuid": (_Uuid, _check_uuid("view-uuid", "view UUID")),
}
_CREATE: Final = "assert-create"


def is_creation(requirements: Sequence[Document]) -> bool:
    """Return whether a commit creates its table: it has ``assert-create``, and nothing else.

    Raises :class:`~graveler.errors.InvalidError` if it requires more, or for requirements that are not valid.
    """
    types = [_type_of(requirement, position) for position, requirement in enumerate(_checked_list(requirements))]
    if _CREATE not in types:
        return False
    surplus = sorted(set(types) - {_CREATE})
    if surplus:
        raise InvalidError(
            f"Invalid create requirements: {', '.join(surplus)}; a table that is created has no state yet"
        )
    return True


def check_table_requirements(base: Document | None, requirements: Sequence[Document]) -> None:
    """Check the requirements of a commit against a table's metadata; None if there is no such table.

    Raises :class:`RequirementError` if one does not hold, and :class:`~graveler.errors.InvalidError` for one that is not valid,
    is unknown, or requires something of a table that does not exist.
    """
    if is_creation(requirements):
        if base is not None:
            raise RequirementError("Requirement failed: table already exists; load it, or choose another name")
        return
    _check_requirements(base, requirements, _TABLE_CHECKS, "table")


def check_view_requirements(base: Document, requirements: Sequence[Document]) -> None:
    """Check the requirements of a commit against a view's metadata.

    Raises :class:`RequirementError` if one does not hold, and :class:`~graveler.errors.InvalidError` for one that is not valid,
    unknown, or about tables.
    """
    _check_requirements(base, requirements, _VIEW_CHECKS, "view")


def _checked_list(requirements: object) -> list[Any]:
    return check_shape(requirements, Requirements, "requirements")


def _type_of(requirement: object, position: int) -> str:
    kind = require_document(requirement, f"requirement {position}").get("type")
    if not isinstance(kind, str):
        raise InvalidError(f"requirement {position} has no type; name one")
    return kind.lower()


def _check_requirements(
    base: Document | None, requirements: Sequence[Document], checks: dict[str, tuple[type, _Check]], target: str
) -> None:
    for position, requirement in enumerate(_checked_list(requirements)):
        kind = _type_of(requirement, position)
        if kind not in checks:
            elsewhere = kind in _TABLE_CHECKS or kind in _VIEW_CHECKS or kind == _CREATE
            raise InvalidError(
                f"Cannot validate {kind} against a {target}; leave it out"
                if elsewhere
                else f"unknown requirement {kind!r}; use one of {', '.join(sorted(checks))}"
            )
        shape, check = checks[kind]
        check_shape(requirement, shape, f"requirement {position} ({kind})")
        if base is None:
            raise InvalidError(
                f"requirement {position} ({kind}) is about a table that does not exist; require assert-create"
            )
        problem = check(base, requirement)
        if problem:
            raise RequirementError(f"Requirement failed: {problem}; load the {target} again, and repeat the change")
