"""Three-way merge of metadata documents, but for snapshots: columns and specs by ID, sort orders by content, properties by key,
refs by name, everything else as a whole."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from graveler.table_format.merge_columns import merge_schemas
from graveler.table_format.merge_results import TableConflict, canonical
from graveler.table_format.partition_specs import (
    FIELD_IDS_BEFORE,
    highest_partition_id,
    same_sort_order,
    same_spec,
    source_ids,
)
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import columns_by_id, same_schema
from graveler.table_format.table_metadata import (
    MAIN,
    current_schema,
    default_sort_order,
    default_spec,
    snapshot_by_id,
    with_current_parts,
)

_MERGED_APART: Final = frozenset(
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
    )
)


class MetadataMerge(Struct, frozen=True):
    """Merged metadata, with the snapshots of the destination and those of the source that a ref needs, and the conflicts.

    ``spec_ids`` and ``order_ids`` are the IDs that specs and sort orders of the source have in the result. ``changes`` name what
    each side changed.
    """

    metadata: Document
    conflicts: tuple[TableConflict, ...]
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
        merger.check_sources()
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
        self.conflicts: list[TableConflict] = []
        self.merged = dict(destination)
        self.spec_ids: dict[int, int] = {}
        self.order_ids: dict[int, int] = {}
        for name in ("format-version", "last-column-id", "last-partition-id"):
            self.merged[name] = max(source[name], destination[name])

    def _conflict(self, sentence: str, columns: tuple[str, ...] = ()) -> None:
        self.conflicts.append(TableConflict("metadata", sentence, columns=columns))

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
        specs = list(self.merged["partition-specs"])
        fields = {
            (tuple(source_ids(field)), field["transform"], field["name"]): field["field-id"]
            for spec in specs
            for field in spec["fields"]
        }
        used = set(fields.values())
        last = max(self.destination["last-partition-id"], FIELD_IDS_BEFORE)
        for spec in self.source["partition-specs"]:
            equal = next(
                (other for other in specs if other["spec-id"] == spec["spec-id"] and same_spec(other, spec)), None
            )
            equal = equal or next((other for other in specs if same_spec(other, spec)), None)
            if equal is None:
                numbered = []
                for field in spec["fields"]:
                    key = (tuple(source_ids(field)), field["transform"], field["name"])
                    number = fields.get(key)
                    if number is None:
                        number = field["field-id"]
                        if number in used:
                            number = max(last, self.source["last-partition-id"], *used) + 1
                        fields[key] = number
                        used.add(number)
                    numbered.append({**field, "field-id": number})
                ids = {other["spec-id"] for other in specs}
                spec_id = max(ids) + 1 if spec["spec-id"] in ids else spec["spec-id"]
                equal = {**spec, "spec-id": spec_id, "fields": numbered}
                specs.append(equal)
            self.spec_ids[spec["spec-id"]] = equal["spec-id"]
        self.merged["partition-specs"] = specs
        self.merged["last-partition-id"] = max(
            self.merged["last-partition-id"], *(highest_partition_id(spec) for spec in specs)
        )
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
        for name in sorted({*self.base, *self.source, *self.destination} - _MERGED_APART):
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
            copied.append(self._copied(snapshot))
            if any(spec_id != new_id for spec_id, new_id in self.spec_ids.items()):
                self._conflict(
                    f"ref {name!r} needs a snapshot of the source, whose partition specs have other numbers here"
                )
        self.merged["snapshots"] = [*self.merged["snapshots"], *copied]
        mains = [
            {key: value for key, value in state["refs"].get(MAIN, {}).items() if key != "snapshot-id"}
            for state in (self.base, self.source, self.destination)
        ]
        main = self._choose_each(mains, "main's")
        if MAIN in self.destination["refs"]:
            refs = {MAIN: {"snapshot-id": self.destination["refs"][MAIN]["snapshot-id"], **main}, **refs}
        self.merged["refs"] = refs

    def _copied(self, snapshot: Document) -> Document:
        schema_id = snapshot.get("schema-id")
        schema = next((schema for schema in self.source["schemas"] if schema["schema-id"] == schema_id), None)
        if schema is None:
            return snapshot
        current = self.merged["current-schema-id"]
        number = self.add_schema(schema)
        self.merged["current-schema-id"] = current
        return {**snapshot, "schema-id": number}

    def check_sources(self) -> None:
        """Note conflicts about columns that one side dropped, and that the other's partitions or sort order need."""
        columns = columns_by_id(current_schema(self.merged))
        former = columns_by_id(current_schema(self.source)) | columns_by_id(current_schema(self.destination))
        for part, words in (
            (default_spec(self.merged), "partition spec"),
            (default_sort_order(self.merged), "sort order"),
        ):
            for field in part["fields"]:
                lost = [number for number in source_ids(field) if number not in columns and number in former]
                if lost and field["transform"] != "void":
                    name = former[lost[0]].name
                    self._conflict(f"one side dropped column {name!r}, which the {words} of the other needs", (name,))
        identifiers = current_schema(self.merged).get("identifier-field-ids") or ()
        for number in identifiers:
            if number not in columns:
                name = former[number].name if number in former else str(number)
                self._conflict(f"one side dropped column {name!r}, which the identifier of the other needs", (name,))
