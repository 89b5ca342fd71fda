"""Rules of schemas: their columns in order, fresh IDs, equality, and the checks of one that a client sends."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from graveler.errors import GravelerError, InvalidError
from graveler.table_format import column_types
from graveler.table_format.document_shapes import MAX_COLUMNS
from graveler.table_format.plain_documents import Document

DEFAULTS_VERSION: Final = 3
"""The first format version whose columns have defaults."""

MAX_DEPTH: Final = 64
"""Levels of nested types in a schema."""

MAX_FIELD_ID: Final = 2**31 - 1 - 200
"""The greatest ID of a column; greater ones are metadata columns."""


class Column(NamedTuple):
    """A column or a nested field of a schema. ``name`` is the full one (``address.city``, ``tags.element``), ``field`` the
    document of a struct's field: None for elements of lists, keys and values."""

    id: int
    name: str
    type: str | Document
    required: bool
    parent: "Column | None"
    field: Document | None


def columns(schema: Document) -> Iterator[Column]:
    """Yield all columns of a schema, also nested ones, parents before children.

    Raises :class:`~graveler.errors.InvalidError` for more than :data:`MAX_COLUMNS`, or more than :data:`MAX_DEPTH` levels.
    """
    level = [_struct_column(field, None) for field in schema["fields"]]
    total = 0
    for _ in range(MAX_DEPTH):
        total += len(level)
        if total > MAX_COLUMNS:
            raise InvalidError(f"a schema has more than {MAX_COLUMNS:,} columns; split the table")
        yield from level
        level = [child for column in level if not isinstance(column.type, str) for child in _children(column)]
        if not level:
            return
    raise InvalidError(f"a schema nests types on more than {MAX_DEPTH} levels; flatten it")


def _struct_column(field: Document, parent: Column | None) -> Column:
    name = f"{parent.name}.{field['name']}" if parent else field["name"]
    return Column(field["id"], name, field["type"], field["required"], parent, field)


def _children(column: Column) -> Iterator[Column]:
    nested: Any = column.type
    if nested["type"] == "struct":
        for field in nested["fields"]:
            yield _struct_column(field, column)
    elif nested["type"] == "list":
        yield _part(column, nested, "element", nested["element-required"])
    else:
        yield _part(column, nested, "key", True)
        yield _part(column, nested, "value", nested["value-required"])


def _part(column: Column, nested: Document, part: str, required: bool) -> Column:
    return Column(nested[f"{part}-id"], f"{column.name}.{part}", nested[part], required, column, None)


def columns_by_id(schema: Document) -> dict[int, Column]:
    """Return all columns of a schema by ID. Errors as of :func:`columns`."""
    return {column.id: column for column in columns(schema)}


def highest_field_id(schema: Document) -> int:
    """Return the highest ID of a schema's columns; 0 if it has none."""
    return max((column.id for column in columns(schema)), default=0)


def check_schema(
    schema: Document, format_version: int, subject: str, error_class: type[GravelerError] = InvalidError
) -> None:
    """Check a schema that has the right shape: unique IDs and names, types and defaults that the format version has, and
    identifier fields. Raises ``error_class`` with all problems of its columns."""
    by_id: dict[int, Column] = {}
    names: set[str] = set()
    problems: list[str] = []
    try:
        for column in columns(schema):
            problems += _column_problems(column, by_id, names, format_version)
            by_id[column.id] = column
            names.add(column.name)
    except InvalidError as error:
        raise error_class(f"{subject} is not valid: {error}") from error
    problems += [
        problem
        for field_id in schema.get("identifier-field-ids") or ()
        if (problem := _identifier_problem(field_id, by_id))
    ]
    if problems:
        more = f"\n- and {len(problems) - 20} more" if len(problems) > 20 else ""
        listed = "\n- ".join(problems[:20])
        raise error_class(f"{subject}: Invalid schema for v{format_version}:\n- {listed}{more}\nCorrect these columns")


def _column_problems(column: Column, by_id: dict[int, Column], names: set[str], format_version: int) -> Iterator[str]:
    if column.id in by_id:
        yield f"Multiple entries with same field ID {column.id}: {by_id[column.id].name} and {column.name}"
    if column.id > MAX_FIELD_ID:
        yield f"Invalid ID for {column.name}: {column.id} is reserved for metadata columns"
    if column.name in names:
        yield f"Invalid schema: multiple fields for name {column.name}"
    kind = column_types.type_kind(column.type)
    text = column_types.type_text(column.type)
    if kind is None:
        yield f"Invalid type for {column.name}: Cannot parse type string to primitive: {text}"
        return
    version = column_types.required_version(kind)
    if format_version < version:
        yield f"Invalid type for {column.name}: {text} is not supported until v{version}"
    if kind == "unknown" and column.required:
        yield f"Invalid type for {column.name}: a column of type unknown must be optional"
    if column.field is None:
        return
    initial = column.field.get("initial-default")
    if initial is not None and format_version < DEFAULTS_VERSION:
        yield (
            f"Invalid initial default for {column.name}: non-null default ({initial}) is not supported until "
            f"v{DEFAULTS_VERSION}"
        )
    for name in ("initial-default", "write-default"):
        if not column_types.is_default_of(kind, column.field.get(name)):
            yield f"Invalid {name} for {column.name}: {column.field[name]!r} is no default of type {text}"


def _identifier_problem(field_id: int, by_id: dict[int, Column]) -> str | None:
    problem = f"Cannot add fieldId {field_id} as an identifier field: "
    column = by_id.get(field_id)
    if column is None:
        return problem + "field does not exist"
    if not isinstance(column.type, str):
        return problem + "not a primitive type field"
    if not column.required:
        return problem + "not a required field"
    if column_types.type_kind(column.type) in ("float", "double"):
        return problem + "must not be float or double field"
    parent = column.parent
    while parent is not None:
        if isinstance(parent.type, str) or parent.type["type"] != "struct":
            return problem + f"must not be nested in {parent.name}, which is not a struct"
        if not parent.required:
            return problem + f"must not be nested in an optional field {parent.name}"
        parent = parent.parent
    return None


def assign_fresh_ids(schema: Document) -> tuple[Document, dict[int, int]]:
    """Return a checked schema with IDs from 1 on, and the new ID of each former one.

    The IDs of a struct's fields follow each other, before those of what is nested in them.
    """
    new_ids: dict[int, int] = {}
    fresh = count(1)

    def renumber_fields(fields: Iterable[Document]) -> list[Document]:
        fields = list(fields)
        for field in fields:
            new_ids[field["id"]] = next(fresh)
        return [{**field, "id": new_ids[field["id"]], "type": renumber_type(field["type"])} for field in fields]

    def renumber_type(column_type: Any) -> Any:
        if isinstance(column_type, str):
            return column_type
        if column_type["type"] == "struct":
            return {**column_type, "fields": renumber_fields(column_type["fields"])}
        parts = ("element",) if column_type["type"] == "list" else ("key", "value")
        renumbered = dict(column_type)
        for part in parts:
            renumbered[f"{part}-id"] = new_ids[column_type[f"{part}-id"]] = next(fresh)
        for part in parts:
            renumbered[part] = renumber_type(column_type[part])
        return renumbered

    renumbered = {**schema, "fields": renumber_fields(schema["fields"])}
    identifiers: Sequence[int] = schema.get("identifier-field-ids") or ()
    if identifiers:
        renumbered["identifier-field-ids"] = [new_ids[field_id] for field_id in identifiers]
    return renumbered, new_ids


def same_schema(schema: Document, other: Document) -> bool:
    """Return whether two schemas are equal but for their IDs (``schema-id``). Costs little if they differ early."""
    fields, other_fields = schema["fields"], other["fields"]
    if len(fields) != len(other_fields):
        return False
    if any(
        field["id"] != other_field["id"] or field["name"] != other_field["name"]
        for field, other_field in zip(fields, other_fields, strict=True)
    ):
        return False
    return _comparable(schema) == _comparable(other)


def _comparable(schema: Document) -> Document:
    plain: Document = _without_nulls({name: value for name, value in schema.items() if name != "schema-id"})
    plain["identifier-field-ids"] = sorted(schema.get("identifier-field-ids") or ())
    return plain


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: column_types.same_type_text(item)
            if name in ("type", "element", "key", "value") and isinstance(item, str)
            else _without_nulls(item)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
