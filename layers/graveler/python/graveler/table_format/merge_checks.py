"""Checks of a merged schema, partition specs and sort order, which the changes of each side passed without those of the other."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from graveler.errors import InvalidError
from graveler.model import TableReason
from graveler.table_format.column_types import same_type_text, type_kind, type_text
from graveler.table_format.partition_specs import (
    check_sort_order,
    check_spec,
    source_ids,
    transform_name,
)
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import Column, check_schema, columns_by_id, same_schema
from graveler.table_format.table_metadata import current_schema, default_sort_order, default_spec

_ALIKE: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("int", "long"): frozenset(("identity", "bucket", "truncate")),
    ("float", "double"): frozenset(("identity",)),
    ("date", "timestamp"): frozenset(("year", "month", "day")),
    ("date", "timestamp_ns"): frozenset(("year", "month", "day")),
}
"""Transforms that give a value of the first type and the same value of the second one partition."""

_SCALE: Final = re.compile(r"decimal\(\d+,(\d+)\)")


def unfit_changes(base: Document, source: Document, destination: Document, merged: Document) -> list[TableReason]:
    """Return conflicts about changes of both sides that do not fit together: columns that the other side's specs, sort order or
    identifier need, and what clients refuse. Costs about 10 µs for each column."""
    try:
        columns = columns_by_id(current_schema(merged))
    except InvalidError as error:
        return [TableReason("metadata", f"the columns of both sides do not fit together: {error}")]
    conflicts = [*_needed_columns(source, destination, merged, columns)]
    if not conflicts:
        for other in (destination, source):
            conflicts += _retyped_columns(base, other, columns)
    return conflicts or [*_new_problems(source, destination, merged)]


def _needed_columns(
    source: Document, destination: Document, merged: Document, columns: Mapping[int, Column]
) -> Iterator[TableReason]:
    former = columns_by_id(current_schema(source)) | columns_by_id(current_schema(destination))
    for part, words in ((default_spec(merged), "partition spec"), (default_sort_order(merged), "sort order")):
        for field in part["fields"]:
            dropped = [number for number in source_ids(field) if number not in columns and number in former]
            if dropped and field["transform"].lower() != "void":
                name = former[dropped[0]].name
                sentence = f"one side dropped column {name!r}, which the {words} of the other needs"
                yield TableReason("metadata", sentence, columns=(name,))
    optional = _optional_identifiers(source) | _optional_identifiers(destination)
    for number in current_schema(merged).get("identifier-field-ids") or ():
        if number not in columns:
            name = former[number].name if number in former else str(number)
            sentence = f"one side dropped column {name!r}, which the identifier of the other needs"
            yield TableReason("metadata", sentence, columns=(name,))
        elif not columns[number].required and number not in optional:
            name = columns[number].name
            sentence = (
                f"one side made column {name!r} optional, which the identifier of the other needs as a required one"
            )
            yield TableReason("metadata", sentence, columns=(name,))


def _optional_identifiers(metadata: Document) -> set[int]:
    schema = current_schema(metadata)
    columns = columns_by_id(schema)
    identifiers = schema.get("identifier-field-ids") or ()
    return {number for number in identifiers if number in columns and not columns[number].required}


def _retyped_columns(base: Document, side: Document, columns: Mapping[int, Column]) -> Iterator[TableReason]:
    """Yield conflicts about columns by which new specs of a side partition, and whose type the other side changed: files of the
    side are in partitions of the former type's values."""
    former = columns_by_id(current_schema(side))
    if not any(number in former and not _same_type(former[number], column) for number, column in columns.items()):
        return
    partitions = {_partition(field) for field in _partition_fields(base)}
    for field in _partition_fields(side):
        sources, transform = _partition(field)
        if (sources, transform) in partitions:
            continue
        partitions.add((sources, transform))
        for number in sources:
            before, after = former.get(number), columns.get(number)
            if before is None or after is None or _partitions_alike(transform, before, after):
                continue
            yield TableReason(
                "column",
                f"one side changed the type of column {after.name!r} from {type_text(before.type)} to {type_text(after.type)}, "
                f"and the other partitions by {transform} of it, which has other values then; partition by another column, or "
                "keep the type",
                columns=(after.name,),
            )


def _partition_fields(metadata: Document) -> Iterator[Document]:
    return (field for spec in metadata["partition-specs"] for field in spec["fields"])


def _partition(field: Document) -> tuple[tuple[int, ...], str]:
    return tuple(source_ids(field)), field["transform"].lower()


def _same_type(column: Column, other: Column) -> bool:
    if isinstance(column.type, str) and isinstance(other.type, str):
        return same_type_text(column.type) == same_type_text(other.type)
    return isinstance(column.type, str) == isinstance(other.type, str) and type_kind(column.type) == type_kind(
        other.type
    )


def _partitions_alike(transform: str, before: Column, after: Column) -> bool:
    """Return whether a transform gives values of a column the same partitions after a change of its type."""
    if _same_type(before, after) or transform == "void" or type_kind(before.type) == "unknown":
        return True
    if not isinstance(before.type, str) or not isinstance(after.type, str):
        return False
    texts = same_type_text(before.type), same_type_text(after.type)
    scales = [match[1] for text in texts if (match := _SCALE.fullmatch(text))]
    if len(scales) == len(texts):
        return scales[0] == scales[1] and transform_name(transform) is not None
    return transform_name(transform) in _ALIKE.get(texts, ())


def _new_problems(source: Document, destination: Document, merged: Document) -> Iterator[TableReason]:
    """Yield conflicts about what clients refuse in the result, unless they refuse it at a side, too."""
    schema, version = current_schema(merged), merged["format-version"]
    if all(same_schema(current_schema(side), schema) for side in (source, destination)):
        return
    problems = _problems(merged, version)
    if problems:
        former = {*_problems(source, version), *_problems(destination, version)}
        for problem in problems:
            if problem not in former:
                yield TableReason("metadata", f"the changes of both sides do not fit together: {problem}")


def _problems(metadata: Document, format_version: int) -> list[str]:
    """Return the problems of the current schema, all specs as far as the schema has their columns, and the default sort order."""
    schema = current_schema(metadata)
    columns = columns_by_id(schema)
    checks = [partial(check_schema, schema, format_version, "schema")]
    for spec in metadata["partition-specs"]:
        fields = [field for field in spec["fields"] if _is_checked(field, columns)]
        checks.append(partial(check_spec, {"fields": fields}, columns))
    checks.append(partial(check_sort_order, default_sort_order(metadata), columns))
    problems = []
    for check in checks:
        try:
            check()
        except InvalidError as error:
            summary, *details = str(error).split("\n- ")
            problems.append(f"{summary} {'; '.join(details)}".replace("\n", "; ").strip())
    return problems


def _is_checked(field: Document, columns: Mapping[int, Column]) -> bool:
    sources = source_ids(field)
    return len(sources) == 1 and sources[0] in columns and transform_name(field["transform"]) is not None
