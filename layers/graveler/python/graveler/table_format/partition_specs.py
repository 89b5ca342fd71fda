"""Rules of partition specs and of sort orders: their fields and a schema, fresh IDs, and equality."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from graveler.errors import InvalidError
from graveler.table_format import column_types
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import Column

INITIAL_SPEC_ID: Final = 0
FIELD_IDS_BEFORE: Final = 999
"""``last-partition-id`` of a table without partition fields: their IDs begin at 1,000."""

MAX_PARTITION_ID: Final = 2**31 - 1
"""The greatest ID of a field of a partition spec."""

UNSORTED_ORDER_ID: Final = 0
INITIAL_ORDER_ID: Final = 1

_TIMES: Final = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
_WITHOUT_IDENTITY: Final = frozenset(("variant", "geometry", "geography", *column_types.NESTED))
_SOURCES: Final[dict[str, Callable[[str], bool]]] = {
    "identity": lambda kind: kind not in _WITHOUT_IDENTITY,
    "bucket": (_TIMES | {"int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary"}).__contains__,
    "truncate": {"int", "long", "decimal", "string", "binary"}.__contains__,
    "year": (_TIMES | {"date"}).__contains__,
    "month": (_TIMES | {"date"}).__contains__,
    "day": (_TIMES | {"date"}).__contains__,
    "hour": _TIMES.__contains__,
}
"""By transform, whether it takes a kind of type."""

_WITH_NUMBER: Final = re.compile(r"(bucket|truncate)\[\s*([1-9]\d{0,9})\s*\]", re.IGNORECASE)
_VOID: Final = "void"


def source_ids(field: Document) -> Sequence[int]:
    """Return the IDs of a field's source columns. Version 3 also has fields with more than one."""
    several: Sequence[int] | None = field.get("source-ids")
    if several:
        return several
    source: int | None = field.get("source-id")
    return () if source is None else (source,)


def transform_name(transform: str) -> str | None:
    """Return the name of a transform without its parameter, or None if this package does not know it."""
    match = _WITH_NUMBER.fullmatch(transform)
    if match:
        return match[1].lower() if int(match[2]) < 2**31 else None
    name = transform.lower()
    return name if name in ("identity", "year", "month", "day", "hour", _VOID) else None


def check_spec(spec: Document, columns: Mapping[int, Column]) -> None:
    """Check that a partition spec fits the columns of a schema, by ID; raises :class:`~graveler.errors.InvalidError`."""
    names: set[str] = set()
    by_name = {column.name: column.id for column in columns.values()}
    partitions: set[tuple[int, str]] = set()
    for field in spec["fields"]:
        name, transform = field["name"], field["transform"]
        if not name:
            raise InvalidError("Cannot use empty partition name; name each partition field")
        if name in names:
            raise InvalidError(f"Cannot use partition name more than once: {name}; choose another name")
        names.add(name)
        if transform.lower() == _VOID:
            continue
        _check_known(field, "partition")
        source = _check_source(field, columns, "partition")
        if by_name.get(name, source.id) != source.id:
            raise InvalidError(f"Cannot create partition from name that exists in schema: {name}; choose another name")
        partition = (source.id, transform.lower())
        if partition in partitions:
            raise InvalidError(f"Cannot add redundant partition: {transform} of {source.name}; remove field {name}")
        partitions.add(partition)


def check_sort_order(order: Document, columns: Mapping[int, Column]) -> None:
    """Check that a sort order fits the columns of a schema, by ID; raises :class:`~graveler.errors.InvalidError`."""
    for field in order["fields"]:
        _check_known(field, "sort")
        _check_source(field, columns, "sort")


def check_sources(spec: Document, order: Document, columns: Mapping[int, Column]) -> None:
    """Check that the columns of a table's spec and sort order exist in another schema, with types that their transforms take.

    Fields whose transform this package does not know, and those of columns that were dropped (``void``), are not checked.
    Raises :class:`~graveler.errors.InvalidError`.
    """
    for part, purpose in ((spec, "partition"), (order, "sort")):
        for field in part["fields"]:
            if transform_name(field["transform"]) not in (None, _VOID) and len(source_ids(field)) < 2:
                _check_source(field, columns, purpose)


def _check_known(field: Document, purpose: str) -> None:
    sources = source_ids(field)
    if transform_name(field["transform"]) is None or len(sources) > 1:
        raise InvalidError(
            f"Unknown transform for {purpose} field: {field['transform']} of {len(sources)} columns; use another"
        )


def _check_source(field: Document, columns: Mapping[int, Column], purpose: str) -> Column:
    transform = field["transform"]
    sources = source_ids(field)
    column = columns.get(sources[0]) if sources else None
    if column is None:
        raise InvalidError(
            f"Cannot find source column for {purpose} field: {', '.join(map(str, sources)) or 'none'}: {transform}; use a column "
            f"of the current schema"
        )
    kind = column_types.type_kind(column.type) or ""
    takes = _SOURCES.get(transform_name(transform) or "")
    if takes and not takes(kind):
        nested = kind in column_types.NESTED
        raise InvalidError(
            f"Cannot {purpose} by non-primitive source field: {column.name}; use another column"
            if nested
            else f"Invalid source type {column_types.type_text(column.type)} for transform: {transform}; "
            f"use another column or transform"
        )
    parent = column.parent
    while parent is not None:
        if column_types.type_kind(parent.type) != "struct":
            raise InvalidError(f"Invalid {purpose} field parent: {parent.name} is not a struct; use another column")
        parent = parent.parent
    return column


def with_sources(field: Document, new_ids: Mapping[int, int], purpose: str) -> Document:
    """Return a field of a spec or of a sort order for columns with new IDs, by former ID. Raises
    :class:`~graveler.errors.InvalidError` for a column without a new ID."""
    sources = source_ids(field)
    missing = [source for source in sources if source not in new_ids]
    if missing or not sources:
        raise InvalidError(
            f"Cannot find source column for {purpose} field: {missing[0] if missing else 'none'}: {field['transform']}; use a "
            f"column of the schema"
        )
    renumbered = dict(field)
    if field.get("source-ids"):
        renumbered["source-ids"] = [new_ids[source] for source in sources]
    if field.get("source-id") is not None:
        renumbered["source-id"] = new_ids.get(field["source-id"], field["source-id"])
    return renumbered


def with_field_ids(spec: Document, specs: Iterable[Document], last_id: int, sequential: bool) -> Document:
    """Return a spec whose fields all have IDs.

    A field without one has the ID of an equal field of the table's other ``specs``, or one above ``last_id``. ``sequential``
    specs (format version 1) count from 1,000 instead. Raises :class:`~graveler.errors.InvalidError` for IDs that are not
    unique, not sequential, or used up.
    """
    fields: list[Document] = spec["fields"]
    if any(field.get("field-id") is None for field in fields):
        fields = _numbered(fields, specs, last_id, sequential)
    field_ids = [field["field-id"] for field in fields]
    if len(set(field_ids)) < len(field_ids):
        raise InvalidError(f"Cannot use field id more than once in one PartitionSpec: {field_ids}; use unique IDs")
    if sequential and field_ids != list(range(FIELD_IDS_BEFORE + 1, FIELD_IDS_BEFORE + 1 + len(field_ids))):
        raise InvalidError(
            f"Spec does not use sequential IDs that are required in v1: {field_ids}; count from {FIELD_IDS_BEFORE + 1:,}, or "
            f"upgrade the table"
        )
    return {**spec, "fields": fields}


def _numbered(fields: Sequence[Document], specs: Iterable[Document], last_id: int, sequential: bool) -> list[Document]:
    if sequential:
        return [
            field if field.get("field-id") is not None else {**field, "field-id": FIELD_IDS_BEFORE + 1 + position}
            for position, field in enumerate(fields)
        ]
    equal_fields = {_partition(field): field["field-id"] for spec in specs for field in spec["fields"]}
    used = {field["field-id"] for field in fields if field.get("field-id") is not None}
    numbered = []
    for field in fields:
        field_id = field.get("field-id")
        if field_id is None:
            field_id = equal_fields.get(_partition(field))
            if field_id is None or field_id in used:
                field_id = max(last_id, *used, FIELD_IDS_BEFORE) + 1
                if field_id > MAX_PARTITION_ID:
                    raise InvalidError(f"no field-id is free: the highest is {MAX_PARTITION_ID}; name one")
            used.add(field_id)
        numbered.append({**field, "field-id": field_id})
    return numbered


def _partition(field: Document) -> tuple[tuple[int, ...], str]:
    return tuple(source_ids(field)), field["transform"].lower()


def highest_partition_id(spec: Document) -> int:
    """Return the highest ID of a spec's fields; 999 if it has none."""
    return max((field["field-id"] for field in spec["fields"]), default=FIELD_IDS_BEFORE)


def field_ids(spec: Document) -> tuple[int, ...]:
    """Return the IDs of a spec's fields."""
    return tuple(field["field-id"] for field in spec["fields"])


def same_spec(part: Document, other: Document) -> bool:
    """Return whether two specs partition alike: equal sources, transforms and names in the same order."""
    return [(*_partition(field), field["name"]) for field in part["fields"]] == [
        (*_partition(field), field["name"]) for field in other["fields"]
    ]


def same_sort_order(part: Document, other: Document) -> bool:
    """Return whether two sort orders sort alike."""
    return [(*_partition(field), field["direction"], field["null-order"]) for field in part["fields"]] == [
        (*_partition(field), field["direction"], field["null-order"]) for field in other["fields"]
    ]


def fresh_spec(spec: Document | None, new_ids: Mapping[int, int]) -> Document:
    """Return the spec of a new table, for columns with new IDs: spec 0, whose fields count from 1,000."""
    if spec is None:
        return {"spec-id": INITIAL_SPEC_ID, "fields": []}
    fields = [
        with_sources(field, new_ids, "partition") | {"field-id": FIELD_IDS_BEFORE + 1 + position}
        for position, field in enumerate(spec["fields"])
    ]
    return {**spec, "spec-id": INITIAL_SPEC_ID, "fields": fields}


def fresh_sort_order(order: Document | None, new_ids: Mapping[int, int]) -> Document:
    """Return the sort order of a new table, for columns with new IDs: order 1, or 0 if it does not sort."""
    if order is None:
        return {"order-id": UNSORTED_ORDER_ID, "fields": []}
    fields = [with_sources(field, new_ids, "sort") for field in order["fields"]]
    return {**order, "order-id": INITIAL_ORDER_ID if fields else UNSORTED_ORDER_ID, "fields": fields}
