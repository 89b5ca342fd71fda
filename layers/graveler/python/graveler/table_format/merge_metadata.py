"""Three-way merge of metadata documents, but for snapshots: columns and specs by ID, sort orders by content, properties by key,
refs by name, everything else as a whole."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from graveler.model import TableReason
from graveler.table_format.merge_checks import unfit_changes
from graveler.table_format.merge_columns import merge_schemas
from graveler.table_format.merge_results import canonical
from graveler.table_format.merge_specs import merge_specs
from graveler.table_format.partition_specs import same_sort_order, same_spec
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import columns_by_id, same_schema
from graveler.table_format.snapshot_merges import EXPIRED_FIELD, expired_snapshots, with_notes
from graveler.table_format.table_metadata import (
    MAIN,
    current_schema,
    default_sort_order,
    default_spec,
    snapshot_by_id,
    with_current_parts,
)

_FIELDS_WITH_RULES: Final = frozenset(
    (
        "format-version",
        "table-uuid",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "last-partition-id",
        "next-row-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "sort-orders",
        "default-sort-order-id",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "refs",
        "statistics",
        "partition-statistics",
        "encryption-keys",
        EXPIRED_FIELD,
    )
)


class MetadataMerge(Struct, frozen=True):
    """Merged metadata, with the snapshots of the destination and those of the source that a ref needs, and the conflicts.

    ``spec_ids`` and ``order_ids`` are the IDs that specs and sort orders of the source have in the result. ``changes`` name what
    each side changed.
    """

    metadata: Document
    conflicts: tuple[TableReason, ...]
    spec_ids: Mapping[int, int]
    order_ids: Mapping[int, int]
    changes: tuple[tuple[str, ...], tuple[str, ...]]


def merge_metadata(
    base: Document, source: Document, destination: Document, *, source_adds_rows: bool, destination_adds_rows: bool
) -> MetadataMerge:
    """Merge three states of one table. The documents stay as they are. Costs about 1 µs for each schema, spec, snapshot and
    property, and 10 µs for each column."""
    merger = _Merger(base, source, destination)
    columns = merge_schemas(
        base,
        source,
        destination,
        source_adds_rows=source_adds_rows,
        destination_adds_rows=destination_adds_rows,
    )
    merger.conflicts += columns.conflicts
    merger.add_schema(columns.schema)
    merger.merge_specs()
    merger.merge_sort_orders()
    merger.merge_rest()
    if not merger.conflicts:
        merger.conflicts += unfit_changes(base, source, destination, merger.merged)
    return MetadataMerge(
        with_current_parts(merger.merged),
        tuple(merger.conflicts),
        merger.spec_ids,
        merger.order_ids,
        (_changes(base, source), _changes(base, destination)),
    )


def _changes(base: Document, state: Document) -> tuple[str, ...]:
    """Return what a side changed, as words for people."""
    changes = []
    before, after = columns_by_id(current_schema(base)), columns_by_id(current_schema(state))
    changes += [f"added column {column.name}" for number, column in after.items() if number not in before]
    changes += [f"dropped column {column.name}" for number, column in before.items() if number not in after]
    for number, column in after.items():
        former = before.get(number)
        if former is not None and former.name != column.name and former.parent == column.parent:
            changes.append(f"renamed column {former.name} to {column.name}")
        elif former is not None and (
            former.required != column.required or (isinstance(column.type, str) and former.type != column.type)
        ):
            changes.append(f"changed column {column.name}")
    if not same_spec(default_spec(base), default_spec(state)):
        changes.append("changed the partition spec")
    if not same_sort_order(default_sort_order(base), default_sort_order(state)):
        changes.append("changed the sort order")
    for name in ("properties", "refs"):
        keys = {*base[name], *state[name]} - ({MAIN} if name == "refs" else set())
        changed = sorted(key for key in keys if canonical(base[name].get(key)) != canonical(state[name].get(key)))
        if changed:
            changes.append(f"changed {name} {', '.join(changed[:10])}{' …' if len(changed) > 10 else ''}")
    if base["format-version"] != state["format-version"]:
        changes.append(f"changed the format to version {state['format-version']}")
    return tuple(changes)


class _Merger:
    def __init__(self, base: Document, source: Document, destination: Document) -> None:
        self.base, self.source, self.destination = base, source, destination
        self.conflicts: list[TableReason] = []
        self.merged = dict(destination)
        self.spec_ids: Mapping[int, int] = {}
        self.specs_renumbered = False
        self.order_ids: dict[int, int] = {}
        for name in ("format-version", "last-column-id"):
            self.merged[name] = max(source[name], destination[name])

    def _conflict(self, sentence: str, columns: tuple[str, ...] = ()) -> None:
        self.conflicts.append(TableReason("metadata", sentence, columns=columns))

    def _choose(self, values: Sequence[Any], words: str) -> Any:
        """Return the one of three values (base, source, destination) that a merge takes: the changed one."""
        forms = [canonical(value) for value in values]
        if forms[1] in (forms[0], forms[2]):
            return values[2]
        if forms[2] != forms[0]:
            self._conflict(f"both sides changed {words}")
        return values[1]

    def _choose_each(self, states: Sequence[Mapping[Any, Any]], words: str) -> dict[Any, Any]:
        merged = {}
        for key in [*states[2], *(key for key in states[1] if key not in states[2])]:
            value = self._choose([state.get(key) for state in states], f"{words} {key!r}")
            if value is not None:
                merged[key] = value
        return merged

    def add_schema(self, schema: Document) -> int:
        """Return the ID of a schema in the result: that of an equal one, or a new one."""
        current = current_schema(self.merged)
        schemas: list[Document] = self.merged["schemas"]
        equal = next((other for other in [current, *schemas] if same_schema(other, schema)), None)
        if equal is None:
            equal = {**schema, "schema-id": max(other["schema-id"] for other in schemas) + 1}
            self.merged["schemas"] = [*schemas, equal]
        self.merged["current-schema-id"] = equal["schema-id"]
        return int(equal["schema-id"])

    def merge_specs(self) -> None:
        specs = merge_specs(self.source, self.destination, self.merged["format-version"])
        self.conflicts += specs.conflicts
        self.spec_ids, self.specs_renumbered = specs.spec_ids, specs.renumbered
        self.merged["partition-specs"] = list(specs.specs)
        self.merged["last-partition-id"] = specs.last_partition_id
        self.merged["default-spec-id"] = self._default(
            default_spec, same_spec, "spec-id", self.spec_ids, "partition spec"
        )

    def merge_sort_orders(self) -> None:
        orders = list(self.merged["sort-orders"])
        for order in self.source["sort-orders"]:
            equal = next((other for other in orders if same_sort_order(other, order)), None)
            if equal is None:
                ids = {other["order-id"] for other in orders}
                order_id = max(ids) + 1 if order["order-id"] in ids else order["order-id"]
                equal = {**order, "order-id": order_id}
                orders.append(equal)
            self.order_ids[order["order-id"]] = equal["order-id"]
        self.merged["sort-orders"] = orders
        self.merged["default-sort-order-id"] = self._default(
            default_sort_order, same_sort_order, "order-id", self.order_ids, "sort order"
        )

    def _default(
        self,
        default: Callable[[Document], Document],
        same: Callable[[Document, Document], bool],
        name: str,
        ids: Mapping[int, int],
        words: str,
    ) -> int:
        base, source, destination = map(default, (self.base, self.source, self.destination))
        chosen: int = destination[name]
        if same(source, base) or same(source, destination):
            return chosen
        if not same(destination, base):
            self._conflict(f"both sides changed the {words}")
        return ids[source[name]]

    def merge_rest(self) -> None:
        states = self.base, self.source, self.destination
        for name in sorted({*self.base, *self.source, *self.destination} - _FIELDS_WITH_RULES):
            value = self._choose([state.get(name) for state in states], name)
            if value is None:
                self.merged.pop(name, None)
            else:
                self.merged[name] = value
        self.merged["properties"] = self._choose_each([state["properties"] for state in states], "property")
        self._merge_refs()
        snapshots = {snapshot["snapshot-id"] for snapshot in self.merged["snapshots"]}
        for name, key in (
            ("statistics", "snapshot-id"),
            ("partition-statistics", "snapshot-id"),
            ("encryption-keys", "key-id"),
        ):
            parts = [{part[key]: part for part in state.get(name) or ()} for state in states]
            merged = self._choose_each(parts, f"{name} of")
            if merged or name in self.merged:
                self.merged[name] = [
                    part for number, part in merged.items() if key != "snapshot-id" or number in snapshots
                ]

    def _merge_refs(self) -> None:
        base, source, destination = (
            {name: ref for name, ref in state["refs"].items() if name != MAIN}
            for state in (self.base, self.source, self.destination)
        )
        refs = self._choose_each((base, source, destination), "ref")
        ids = {snapshot["snapshot-id"] for snapshot in self.merged["snapshots"]}
        copied = []
        for name, ref in refs.items():
            snapshot = None if ref["snapshot-id"] in ids else snapshot_by_id(self.source, ref["snapshot-id"])
            if snapshot is None:
                continue
            ids.add(ref["snapshot-id"])
            copied.append(self._with_merged_schema_id(snapshot))
            if self.specs_renumbered:
                self._conflict(
                    f"ref {name!r} needs a snapshot of the source, whose partition specs or their fields have other IDs in the "
                    "result; remove the ref"
                )
        self.merged["snapshots"] = [*self.merged["snapshots"], *copied]
        notes = with_notes(expired_snapshots(self.destination), expired_snapshots(self.source))
        if notes:
            self.merged[EXPIRED_FIELD] = notes
        mains = [
            {key: value for key, value in state["refs"].get(MAIN, {}).items() if key != "snapshot-id"}
            for state in (self.base, self.source, self.destination)
        ]
        main = self._choose_each(mains, "main's")
        if MAIN in self.destination["refs"]:
            refs = {MAIN: {"snapshot-id": self.destination["refs"][MAIN]["snapshot-id"], **main}, **refs}
        self.merged["refs"] = refs

    def _with_merged_schema_id(self, snapshot: Document) -> Document:
        schema_id = snapshot.get("schema-id")
        schema = next((schema for schema in self.source["schemas"] if schema["schema-id"] == schema_id), None)
        if schema is None:
            return snapshot
        current = self.merged["current-schema-id"]
        number = self.add_schema(schema)
        self.merged["current-schema-id"] = current
        return {**snapshot, "schema-id": number}
