"""Three-way merge of schemas: columns by their IDs, each of their properties for itself."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from graveler.model import TableReason
from graveler.table_format.column_types import type_text
from graveler.table_format.merge_results import canonical
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import Column, columns_by_id
from graveler.table_format.table_metadata import current_schema

_WIDER: Final = {("int", "long"), ("float", "double"), ("date", "timestamp"), ("date", "timestamp_ns")}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


class SchemaMerge(Struct, frozen=True):
    """A merged schema without an ID, and the conflicts; with a conflict, the schema is not valid."""

    schema: Document
    conflicts: tuple[TableReason, ...]


def merge_schemas(
    base: Document, source: Document, destination: Document, *, source_adds_rows: bool, destination_adds_rows: bool
) -> SchemaMerge:
    """Merge the current schemas of three metadata documents. A schema that only one side changed is taken as it is, if the rows
    that the other added fit."""
    base_schema, source_schema, destination_schema = map(current_schema, (base, source, destination))
    conflicts = [
        *_reused_ids(base, source, destination),
        *_other_columns(base, source, "source"),
        *_other_columns(base, destination, "destination"),
        *_narrowing_conflicts(base_schema, source_schema, "source", "destination", destination_adds_rows),
        *_narrowing_conflicts(base_schema, destination_schema, "destination", "source", source_adds_rows),
    ]
    merger = _Merger(conflicts)
    schema = merger.merge_documents(base_schema, source_schema, destination_schema, "", ("fields", "schema-id"))
    schema["fields"] = merger.merge_fields(
        base_schema["fields"], source_schema["fields"], destination_schema["fields"], ""
    )
    return SchemaMerge(schema, tuple(conflicts))


class _Merger:
    def __init__(self, conflicts: list[TableReason]) -> None:
        self._conflicts = conflicts

    def _conflict(self, sentence: str, *names: str) -> None:
        self._conflicts.append(TableReason("column", sentence, columns=names))

    def merge_documents(
        self, base: Document, source: Document, destination: Document, name: str, excluded: Iterable[str]
    ) -> Document:
        merged = dict(destination)
        for key in sorted({*base, *source, *destination}.difference(excluded)):
            values = [canonical(state.get(key)) for state in (base, source, destination)]
            if values[1] == values[0] or values[1] == values[2]:
                continue
            if values[2] != values[0]:
                self._conflict(
                    f"both sides changed {key} of {f'column {name!r}' if name else 'the schema'}: to {values[1]!r} at the "
                    f"source, to {values[2]!r} at the destination",
                    *([name] if name else []),
                )
            if key in source:
                merged[key] = source[key]
            else:
                del merged[key]
        return merged

    def merge_type(self, base: Any, source: Any, destination: Any, name: str) -> Any:
        forms = [canonical(column_type) for column_type in (base, source, destination)]
        if forms[1] in (forms[0], forms[2]):
            return destination
        if forms[2] == forms[0]:
            return source
        if any(isinstance(form, str) for form in forms) or len({form["type"] for form in forms}) > 1:
            self._conflict(
                f"both sides changed the type of column {name!r}: to {type_text(source)} at the source, to "
                f"{type_text(destination)} at the destination",
                name,
            )
            return destination
        parts = {"list": ("element",), "map": ("key", "value")}.get(destination["type"], ())
        merged = self.merge_documents(base, source, destination, name, ("fields", *parts))
        for part in parts:
            merged[part] = self.merge_type(base[part], source[part], destination[part], f"{name}.{part}")
        if not parts:
            merged["fields"] = self.merge_fields(base["fields"], source["fields"], destination["fields"], name)
        return merged

    def merge_fields(
        self, base: list[Document], source: list[Document], destination: list[Document], parent: str
    ) -> list[Document]:
        base_fields, source_fields, destination_fields = (
            {field["id"]: field for field in fields} for fields in (base, source, destination)
        )
        merged: dict[int, Document] = {}
        for field_id in self._order(list(base_fields), list(source_fields), list(destination_fields), parent):
            states = base_fields.get(field_id), source_fields.get(field_id), destination_fields.get(field_id)
            name = next(_full_name(parent, field) for field in reversed(states) if field is not None)
            field = self._merge_field(*states, name)
            if field is not None:
                merged[field_id] = field
        names: dict[str, Document] = {}
        for field in merged.values():
            other = names.setdefault(field["name"], field)
            if other is not field:
                name = _full_name(parent, field)
                self._conflict(
                    f"two columns would have the name {name!r}: {_column_text(other)}, and {_column_text(field)}", name
                )
        return list(merged.values())

    def _merge_field(
        self, base: Document | None, source: Document | None, destination: Document | None, name: str
    ) -> Document | None:
        if base is None:
            if source is None or destination is None:
                return source or destination
            return self._column_of_both(source, destination)
        if source is None or destination is None:
            rest, dropper, keeper = (
                (destination, "source", "destination") if source is None else (source, "destination", "source")
            )
            if rest is not None and canonical(rest) != canonical(base):
                self._conflict(f"the {dropper} dropped column {name!r}, and the {keeper} changed it", name)
            return None
        merged = self.merge_documents(base, source, destination, name, ("type",))
        merged["type"] = self.merge_type(base["type"], source["type"], destination["type"], name)
        return merged

    def _column_of_both(self, source: Document, destination: Document) -> Document:
        same = all(
            canonical(source.get(key)) == canonical(destination.get(key)) for key in ("name", "type", "initial-default")
        )
        if not same:
            self._conflict(
                f"both sides added a column with ID {source['id']}: {_column_text(source)} at the source, "
                f"{_column_text(destination)} at the destination",
                *sorted({source["name"], destination["name"]}),
            )
        return {**destination, "required": bool(source["required"] and destination["required"])}

    def _order(self, base: list[int], source: list[int], destination: list[int], parent: str) -> list[int]:
        common = set(base) & set(source) & set(destination)
        orders = [[field_id for field_id in order if field_id in common] for order in (base, source, destination)]
        moved = orders[1] not in (orders[0], orders[2])
        if moved and orders[2] != orders[0]:
            self._conflict(f"both sides changed the order of columns{f' in {parent!r}' if parent else ''}")
        first_choice, second_choice = (source, destination) if moved else (destination, source)
        merged = list(first_choice)
        for position, field_id in enumerate(second_choice):
            if field_id in merged:
                continue
            if not any(later in first_choice for later in second_choice[position:]):
                merged.append(field_id)
            else:
                merged.insert(merged.index(second_choice[position - 1]) + 1 if position else 0, field_id)
        return merged


def _full_name(parent: str, field: Document) -> str:
    return f"{parent}.{field['name']}" if parent else str(field["name"])


def _column_text(field: Document) -> str:
    return f"{field['name']!r} ({type_text(field['type'])}, ID {field['id']})"


def _columns_ever(metadata: Document, above: int) -> dict[int, Column]:
    """Return the columns that a table has or had in a schema that it still knows, with IDs above one. The current ones count
    most."""
    columns: dict[int, Column] = {}
    for schema in [*metadata["schemas"], current_schema(metadata)]:
        columns |= {number: column for number, column in columns_by_id(schema).items() if number > above}
    return columns


def _reused_ids(base: Document, source: Document, destination: Document) -> list[TableReason]:
    """Return conflicts about IDs that one side gave to a column, and the other to another one, which it may have dropped since:
    its files can still have values of it."""
    above = base["last-column-id"]
    conflicts = []
    ever = [_columns_ever(state, above) for state in (source, destination)]
    current = [columns_by_id(current_schema(state)) for state in (source, destination)]
    for index, (side, other_side, other) in enumerate(
        (("source", "destination", destination), ("destination", "source", source))
    ):
        for number, column in sorted(current[index].items()):
            if number <= above or number > other["last-column-id"] or _same_place(number, column, current[1 - index]):
                continue
            former = ever[1 - index].get(number)
            if former is not None and number in current[1 - index] and index:
                continue
            if former is None or (former.name, canonical(former.type)) != (column.name, canonical(column.type)):
                name = repr(former.name) if former else "one that it no longer has"
                conflicts.append(
                    TableReason(
                        "column",
                        f"the {side} gave ID {number} to column {column.name!r}, and the {other_side} to another: {name}",
                        columns=tuple(sorted({column.name, *([former.name] if former else [])})),
                    )
                )
    return conflicts


def _other_columns(base: Document, state: Document, side: str) -> list[TableReason]:
    """Return conflicts about columns of a side whose IDs are those of other columns of the base: their names or types differ, and
    neither the side nor the base has a schema with those of the other. So nobody changed the column: after a merge that took one
    side's table, there are two columns of one ID, and files with values of either."""
    before, current = columns_by_id(current_schema(base)), columns_by_id(current_schema(state))
    conflicts = []
    for number, column in sorted(current.items()):
        former = before.get(number)
        if former is None or former.field is None or _same_column(former, column):
            continue
        if not _had_column(state, number, former) and not _had_column(base, number, column):
            conflicts.append(
                TableReason(
                    "column",
                    f"the {side} has column {column.name!r} with ID {number}, which is column {former.name!r} at the base; "
                    "files have values of both",
                    columns=tuple(sorted({column.name, former.name})),
                )
            )
    return conflicts


def _had_column(metadata: Document, number: int, column: Column) -> bool:
    """Return whether a schema of a table has this column under this ID."""
    history = (columns_by_id(schema).get(number) for schema in metadata["schemas"])
    return any(former is not None and _same_column(former, column) for former in history)


def _same_column(column: Column, other: Column) -> bool:
    """Return whether a column of two schemas has the same name, without those around it, and the same type."""
    names = [part.name.rpartition(".")[2] if part.field is None else part.field["name"] for part in (column, other)]
    types = [part.type if isinstance(part.type, str) else part.type["type"] for part in (column, other)]
    return names[0] == names[1] and types[0] == types[1]


def _same_place(number: int, column: Column, columns: Mapping[int, Column]) -> bool:
    """Return whether both sides have an ID in one struct: the merge of its fields compares them."""
    other = columns.get(number)
    if other is None:
        return False
    parents = column.parent.id if column.parent else None, other.parent.id if other.parent else None
    return parents[0] == parents[1] and column.field is not None and other.field is not None


def _narrowing_conflicts(
    base: Document, schema: Document, side: str, other: str, other_adds_rows: bool
) -> list[TableReason]:
    """Return conflicts about columns that a side made narrower, where rows that the other added may not fit."""
    if not other_adds_rows or base is schema:
        return []
    before = columns_by_id(base)
    conflicts = []
    for number, column in columns_by_id(schema).items():
        former = before.get(number)
        default = column.field.get("initial-default") if column.field else None
        if column.required and not (
            former.required if former else default is not None or _is_in_new_column(column, before)
        ):
            reason = "required"
        elif former and isinstance(former.type, str) and not _widens(former.type, column.type):
            reason = type_text(column.type)
        else:
            continue
        conflicts.append(
            TableReason(
                "column",
                f"the {side} made column {column.name!r} {reason}, and the {other} added rows that may not fit",
                columns=(column.name,),
            )
        )
    return conflicts


def _is_in_new_column(column: Column, before: Mapping[int, Column]) -> bool:
    return column.parent is not None and column.parent.id not in before


def _widens(former: str, column_type: Any) -> bool:
    if not isinstance(column_type, str):
        return former == "unknown"
    before, after = former.replace(" ", "").lower(), column_type.replace(" ", "").lower()
    if before == after or before == "unknown" or (before, after) in _WIDER:
        return True
    decimals = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if decimals[0] is None or decimals[1] is None:
        return False
    return decimals[0][2] == decimals[1][2] and int(decimals[0][1]) <= int(decimals[1][1])
