"""Tables and updates as PyIceberg makes them: random histories, by its functions and by ours, have the same metadata."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableUpdate, update_table_metadata

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata, new_table, read_table
from graveler.table_format.table_requirements import RequirementError
from graveler.table_format.table_updates import apply_table_updates
from tests.table_format.documents import (
    LOCATION,
    TIME,
    UUID,
    add_snapshot,
    field,
    nested_schema,
    schema,
    set_ref,
    struct,
    table,
)
from tests.table_format.test_table_updates import PARTITIONS, STATISTICS, do

UPDATES: TypeAdapter[Any] = TypeAdapter(tuple[TableUpdate, ...])
PREVIOUS = LOCATION + "/metadata/previous.json"

PRIMITIVES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "binary",
)
PARAMETERS = ("fixed[16]", "decimal(9, 2)", "decimal(38,10)")


def plain(document: Document) -> Document:
    """A document as PyIceberg writes it, so that both can be compared: without what is empty or null."""
    model = TableMetadataUtil.parse_raw(msgspec.json.encode(document).decode())
    result: Document = msgspec.json.decode(model.model_dump_json(exclude_none=True))
    return result


@st.composite
def schemas(draw: st.DrawFn) -> Document:
    """A schema with IDs in no order."""
    ids = iter(draw(st.permutations(range(1, 60))))

    def of(depth: int) -> Any:
        kind = draw(st.sampled_from(("plain", "plain", "plain", "struct", "list", "map"))) if depth else "plain"
        if kind == "struct":
            return struct(*fields(depth - 1, 3))
        if kind == "list":
            return {
                "type": "list",
                "element-id": next(ids),
                "element": of(depth - 1),
                "element-required": draw(st.booleans()),
            }
        if kind == "map":
            numbers = {"key-id": next(ids), "value-id": next(ids), "value-required": draw(st.booleans())}
            return {"type": "map", "key": "string", "value": of(depth - 1), **numbers}
        return draw(st.sampled_from((*PRIMITIVES, *PARAMETERS)))

    def fields(depth: int, most: int) -> list[Document]:
        count = draw(st.integers(1, most))
        return [field(next(ids), f"f{number}", of(depth), draw(st.booleans())) for number in range(count)]

    return schema(field(next(ids), "id", "long", True), *fields(2, 4))


def check_creation(columns: Document, version: int) -> None:
    source = columns["fields"][0]["id"]
    spec = {"spec-id": 0, "fields": [{"source-id": source, "field-id": 1000, "name": "b", "transform": "bucket[8]"}]}
    order_field = {"source-id": source, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}
    order = {"order-id": 1, "fields": [order_field]}
    ours = new_table(
        schema=columns,
        partition_spec=spec,
        sort_order=order,
        properties={"format-version": str(version), "owner": "me"},
        location=LOCATION,
        uuid=UUID,
        time_ms=TIME,
    )
    theirs = new_table_metadata(
        Schema.model_validate_json(msgspec.json.encode(columns)),
        PartitionSpec.model_validate_json(msgspec.json.encode(spec)),
        SortOrder.model_validate_json(msgspec.json.encode(order)),
        LOCATION,
        {"format-version": str(version), "owner": "me"},
    )
    expected = msgspec.json.decode(theirs.model_dump_json(exclude_none=True))
    assert plain(ours) == expected | {"table-uuid": UUID, "last-updated-ms": TIME}


class History:
    """Updates that build on each other: what a client would send of a table that it loaded."""

    def __init__(self, draw: st.DrawFn, version: int) -> None:
        self.draw = draw
        self.version = version
        self.snapshots = 0
        self.schemas = [table()["schemas"][0]]
        self.specs = 1
        self.orders = 1
        self.changes = 0

    def add_schema(self) -> list[Document]:
        last = self.schemas[-1]
        added = field(len(self.schemas) + 2, f"c{len(self.schemas)}", self.draw(st.sampled_from(PRIMITIVES)))
        self.schemas.append(schema(*last["fields"], added, **{"schema-id": len(self.schemas)}))
        return [do("add-schema", schema=self.schemas[-1]), *self.maybe(do("set-current-schema", schema_id=-1))]

    def add_spec(self) -> list[Document]:
        number = self.specs
        self.specs += 1
        field_id = 1000 if self.version == 1 else 999 + number
        part = {"source-id": 1, "field-id": field_id, "name": f"p{number}", "transform": f"bucket[{number}]"}
        added = do("add-spec", spec={"spec-id": number, "fields": [part]})
        return [added, *self.maybe(do("set-default-spec", spec_id=-1))]

    def add_order(self) -> list[Document]:
        number = self.orders
        self.orders += 1
        part = {"source-id": 1, "transform": f"truncate[{number}]", "direction": "asc", "null-order": "nulls-first"}
        added = do("add-sort-order", sort_order={"order-id": number, "fields": [part]})
        return [added, *self.maybe(do("set-default-sort-order", sort_order_id=-1))]

    def add_snapshot(self) -> list[Document]:
        self.snapshots += 1
        number = self.snapshots
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        added = add_snapshot(number, 0 if self.version == 1 else number, **parent)
        return [added, set_ref(number, self.draw(st.sampled_from(("main", "main", "b"))))]

    def set_tag(self) -> list[Document]:
        if not self.snapshots:
            return []
        return [set_ref(self.snapshots, self.draw(st.sampled_from("xy")), type="tag", **{"max-ref-age-ms": 7})]

    def set_properties(self) -> list[Document]:
        value = self.draw(st.sampled_from(("1", "2", "3")))
        names = st.sampled_from(("a", "b", "write.metadata.previous-versions-max"))
        return [
            do("set-properties", updates={self.draw(names): value, "change": str(self.next_change())}),
            do("set-location", location=LOCATION + value),
        ]

    def set_statistics(self) -> list[Document]:
        if not self.snapshots:
            return []
        file = {"snapshot-id": self.snapshots, "file-size-in-bytes": self.next_change()}
        return [
            do("set-statistics", statistics=STATISTICS | file, snapshot_id=self.snapshots),
            do("set-partition-statistics", partition_statistics=PARTITIONS | file),
        ]

    def remove_ref(self) -> list[Document]:
        return [do("remove-snapshot-ref", ref_name=self.draw(st.sampled_from(("main", "b", "x"))))]

    def next_change(self) -> int:
        """A number that makes an update a change: equal values are none to us, and one to PyIceberg."""
        self.changes += 1
        return self.changes

    def maybe(self, update: Document) -> list[Document]:
        return [update] if self.draw(st.booleans()) else []


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[list[Document]]]:
    """A format version, and commits of updates."""
    version = draw(st.sampled_from((1, 2)))
    history = History(draw, version)
    steps: list[Callable[[], list[Document]]] = [
        *(history.add_schema, history.add_spec, history.add_order, history.add_snapshot, history.add_snapshot),
        *(history.set_tag, history.set_properties, history.set_statistics, history.remove_ref),
    ]
    commits = []
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.sampled_from(steps), min_size=1, max_size=3))
        commits.append([update for step in chosen for update in step()])
    return version, commits


def check_history(version: int, commits: list[list[Document]]) -> None:
    ours = table(version)
    theirs = TableMetadataUtil.parse_raw(encode_metadata(ours).decode())
    between: set[int] = set()
    for number, updates in enumerate(commits):
        location = f"{PREVIOUS}-{number}"
        ours = apply_table_updates(ours, updates, time_ms=TIME + 1_000 * (number + 1), previous_location=location)
        models = UPDATES.validate_json(msgspec.json.encode(updates))
        theirs = update_table_metadata(theirs, models, metadata_location=location)
        theirs = theirs.model_copy(update={"last_updated_ms": ours["last-updated-ms"]})
        between |= {
            update["snapshot-id"] for update in updates if update.get("ref-name") == "main" and "type" in update
        }
        between.discard(ours["current-snapshot-id"])
        expected = comparable(msgspec.json.decode(theirs.model_dump_json(exclude_none=True)))
        expected["snapshot-log"] = [number for number in expected["snapshot-log"] if number not in between]
        assert comparable(ours) == expected
        ours = read_table(encode_metadata(ours), "ours", stored=True)


def comparable(document: Document) -> Document:
    """What must be equal. PyIceberg takes its own clock where no snapshot has a time, and leaves the former schema and spec of
    version 1 as they were."""
    document = plain(document)
    for name in ("schema", "partition-spec"):
        document.pop(name, None)
    document["snapshot-log"] = [entry["snapshot-id"] for entry in document["snapshot-log"]]
    document["metadata-log"] = [entry["metadata-file"] for entry in document["metadata-log"]]
    return document


def run(examples: int) -> None:
    settings(max_examples=examples)(given(schemas(), st.sampled_from((1, 2)))(check_creation))()
    settings(max_examples=examples)(given(histories())(lambda drawn: check_history(*drawn)))()


def test_random_histories() -> None:
    run(4)


@pytest.mark.ci
def test_many_random_histories() -> None:
    run(1_000)


def test_nested_columns() -> None:
    check_creation(nested_schema(), 2)


def test_both_refuse_an_old_snapshot() -> None:
    base = apply_table_updates(table(), [add_snapshot(5), set_ref(5)], time_ms=TIME)
    updates = [add_snapshot(6, 5, **{"parent-snapshot-id": 5})]
    models = UPDATES.validate_json(msgspec.json.encode(updates))
    with pytest.raises(ValueError, match="older than last sequence number 5"):
        update_table_metadata(TableMetadataUtil.parse_raw(encode_metadata(base).decode()), models)
    with pytest.raises(RequirementError, match="older than last sequence number 5"):
        apply_table_updates(base, updates, time_ms=TIME)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_we_write(version: int) -> None:
    document = apply_table_updates(table(version), [do("set-properties", updates={"a": "b"})], time_ms=TIME)
    model = TableMetadataUtil.parse_raw(encode_metadata(document).decode())
    assert (model.format_version, model.current_snapshot_id, model.properties) == (version, None, {"a": "b"})


def test_we_read_what_pyiceberg_writes() -> None:
    for version in (1, 2):
        theirs = TableMetadataUtil.parse_raw(encode_metadata(table(version)).decode())
        assert plain(read_table(theirs.model_dump_json().encode(), "theirs")) == plain(table(version))
    with pytest.raises(InvalidError):
        read_table(theirs.model_dump_json(by_alias=False).encode(), "theirs")
