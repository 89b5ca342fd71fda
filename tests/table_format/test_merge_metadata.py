"""Three-way merges of metadata documents: columns, specs, sort orders, properties, refs, statistics."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from graveler.table_format.merge_metadata import MetadataMerge, merge_metadata
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import current_schema, default_spec, new_table
from tests.table_format.documents import field as column
from tests.table_format.documents import struct

Change = Callable[[Document], object]


BASE = new_table(
    schema={
        **struct(
            column(1, "id", "long"),
            column(2, "day", "string"),
            column(3, "place", struct(column(4, "x", "long"), column(5, "y", "long"))),
        ),
        "schema-id": 0,
    },
    partition_spec=None,
    sort_order=None,
    properties={"owner": "a", "format-version": "3"},
    location="file:///lake/table",
    uuid="00000000-0000-4000-8000-000000000000",
    time_ms=1,
)


def changed(*changes: Change) -> Document:
    document = copy.deepcopy(BASE)
    for change in changes:
        change(document)
    return document


def schema(*fields: Document, **rest: Any) -> Change:
    """Set the current schema."""

    def change(document: Document) -> None:
        number = len(document["schemas"])
        document["schemas"].append({**struct(*fields), "schema-id": number, **rest})
        document["current-schema-id"] = number
        document["last-column-id"] = max(document["last-column-id"], *(part["id"] for part in fields))

    return change


def put(path: str, value: Any) -> Change:
    """Set a field of the document, or remove it."""

    def change(document: Document) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            document = document[parent]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


def spec(*names: str) -> Change:
    def change(document: Document) -> None:
        columns = {part["name"]: part["id"] for part in current_schema(document)["fields"]}
        number = len(document["partition-specs"])
        fields = [
            {"name": name, "transform": "identity", "source-id": columns[name], "field-id": 1000 + index}
            for index, name in enumerate(names)
        ]
        document["partition-specs"].append({"spec-id": number, "fields": fields})
        document["default-spec-id"] = number
        document["last-partition-id"] = 999 + len(names)

    return change


def order(number: int) -> Change:
    def change(document: Document) -> None:
        fields = [{"transform": "identity", "source-id": number, "direction": "asc", "null-order": "nulls-first"}]
        document["sort-orders"].append({"order-id": 1, "fields": fields})
        document["default-sort-order-id"] = 1

    return change


def merged(source: Change, destination: Change, *, rows: tuple[bool, bool] = (False, False)) -> MetadataMerge:
    before = copy.deepcopy(BASE)
    result = merge_metadata(
        BASE, changed(source), changed(destination), source_adds_rows=rows[0], destination_adds_rows=rows[1]
    )
    assert before == BASE
    return result


ID, DAY, PLACE = current_schema(BASE)["fields"]
X, Y = PLACE["type"]["fields"]


def test_columns_of_both_sides_are_in_the_merged_schema() -> None:
    result = merged(
        schema(ID, column(8, "new", "long"), DAY, PLACE),
        schema({**ID, "name": "number"}, DAY, {**PLACE, "type": struct(X, Y, column(9, "z", "long"))}),
    )
    assert not result.conflicts
    fields = current_schema(result.metadata)["fields"]
    assert [part["name"] for part in fields] == ["number", "new", "day", "place"]
    assert [part["name"] for part in fields[3]["type"]["fields"]] == ["x", "y", "z"]
    assert result.metadata["last-column-id"] == 8
    assert result.metadata["current-schema-id"] == 2
    assert result.changes == (("added column new",), ("added column place.z", "renamed column id to number"))


def test_schema_that_one_side_changed_keeps_its_number_if_it_is_free() -> None:
    result = merged(schema(ID, DAY, PLACE, column(6, "new", "long")), put("properties/owner", "b"))
    assert result.metadata["current-schema-id"] == 1
    assert result.metadata["properties"]["owner"] == "b"


def test_equal_added_columns_are_one() -> None:
    result = merged(
        schema(ID, DAY, PLACE, column(6, "new", "long")), schema(ID, DAY, PLACE, column(6, "new", "long", doc="text"))
    )
    assert not result.conflicts
    assert current_schema(result.metadata)["fields"][3] == column(6, "new", "long", doc="text")


def merged_on(base: Document, source: Document, destination: Document) -> MetadataMerge:
    return merge_metadata(base, source, destination, source_adds_rows=True, destination_adds_rows=False)


@pytest.mark.parametrize(
    "other", [column(6, "b", "long"), column(6, "a", "string")], ids=["another name", "another type"]
)
def test_two_columns_of_one_id_that_nobody_changed_are_a_conflict(other: Document) -> None:
    """Both sides had added one, a merge took one side's table, and the other side goes on writing its own."""
    loser, winner = changed(schema(ID, DAY, PLACE, column(6, "a", "long"))), changed(schema(ID, DAY, PLACE, other))
    appended = {**loser, "last-updated-ms": 2}
    for states in ((loser, appended, winner), (loser, winner, appended)):
        conflicts = merged_on(*states).conflicts
        assert any("with ID 6, which is column 'a' at the base" in conflict.sentence for conflict in conflicts), (
            conflicts
        )


def test_a_column_that_is_renamed_and_back_again_is_one() -> None:
    before = changed(schema(ID, DAY, PLACE, column(6, "a", "long")))
    after = copy.deepcopy(before)
    schema(ID, DAY, PLACE, column(6, "b", "long"))(after)
    assert not merged_on(before, {**before, "last-updated-ms": 2}, after).conflicts
    reverted = merged_on(after, before, {**after, "last-updated-ms": 2})
    assert not reverted.conflicts
    assert [part["name"] for part in current_schema(reverted.metadata)["fields"]] == ["id", "day", "place", "a"]


COLUMN_CONFLICTS: dict[str, tuple[Change, Change, tuple[bool, bool], tuple[str, ...]]] = {
    "one ID, two names": (
        schema(ID, DAY, PLACE, column(6, "a", "long")),
        schema(ID, DAY, PLACE, column(6, "b", "long")),
        (False, False),
        ("a", "b"),
    ),
    "one ID, two types": (
        schema(ID, DAY, PLACE, column(6, "a", "long")),
        schema(ID, DAY, PLACE, column(6, "a", "string")),
        (False, False),
        ("a",),
    ),
    "one ID at two places": (
        schema(ID, DAY, PLACE, column(6, "a", "long")),
        schema(ID, DAY, PLACE, column(7, "b", struct(column(6, "a", "long")))),
        (False, False),
        ("a", "b.a"),
    ),
    "one name, two IDs": (
        schema(ID, DAY, PLACE, column(6, "a", "long")),
        schema(ID, DAY, PLACE, column(6, "b", "long"), column(7, "a", "long")),
        (False, False),
        ("a",),
    ),
    "renamed to two names": (
        schema({**ID, "name": "a"}, DAY, PLACE),
        schema({**ID, "name": "b"}, DAY, PLACE),
        (False, False),
        ("a", "b"),
    ),
    "dropped and renamed": (schema(DAY, PLACE), schema({**ID, "name": "b"}, DAY, PLACE), (False, False), ("b",)),
    "dropped and extended": (
        schema(ID, DAY),
        schema(ID, DAY, {**PLACE, "type": struct(X, Y, column(6, "z", "long"))}),
        (False, False),
        ("place",),
    ),
    "two types": (
        schema({**ID, "type": "string"}, DAY, PLACE),
        schema({**ID, "type": "double"}, DAY, PLACE),
        (False, False),
        ("id",),
    ),
    "narrower than rows": (schema({**ID, "type": "int"}, DAY, PLACE), put("properties/a", "b"), (False, True), ("id",)),
    "required where rows were added": (
        put("properties/a", "b"),
        schema({**ID, "required": True}, DAY, PLACE),
        (True, False),
        ("id",),
    ),
    "dropped where it partitions": (schema(ID, PLACE), spec("day"), (False, False), ("day",)),
    "dropped where it sorts": (schema(ID, PLACE), order(2), (False, False), ("day",)),
}


@pytest.mark.parametrize("name", COLUMN_CONFLICTS)
@pytest.mark.parametrize("swapped", [False, True])
def test_columns_changed_in_two_ways_are_conflicts(name: str, swapped: bool) -> None:
    source, destination, rows, columns = COLUMN_CONFLICTS[name]
    result = merged(destination, source, rows=rows[::-1]) if swapped else merged(source, destination, rows=rows)
    assert result.conflicts
    named = {name_of for conflict in result.conflicts for name_of in conflict.columns}
    assert named & set(columns)
    assert all(conflict.sentence for conflict in result.conflicts)


def test_id_of_a_dropped_column_is_not_taken_for_another() -> None:
    result = merged(
        lambda document: [
            change(document) for change in (schema(ID, DAY, PLACE, column(6, "a", "long")), schema(ID, DAY, PLACE))
        ],
        schema(ID, DAY, PLACE, column(6, "b", "long")),
    )
    assert result.conflicts[0].columns == ("a", "b")


def test_column_is_widened_where_rows_were_added() -> None:
    narrow = schema({**ID, "type": "int"}, DAY, PLACE)
    base, wide = changed(narrow), changed(narrow, schema(ID, DAY, PLACE))
    other = changed(narrow, put("properties/a", "b"))
    result = merge_metadata(base, wide, other, source_adds_rows=False, destination_adds_rows=True)
    assert not result.conflicts
    assert current_schema(result.metadata)["fields"][0]["type"] == "long"


def test_specs_and_their_fields_are_renumbered() -> None:
    source = changed(spec("id"), spec("day"))
    result = merge_metadata(
        BASE, source, changed(spec("day", "id")), source_adds_rows=False, destination_adds_rows=False
    )
    assert [conflict.sentence for conflict in result.conflicts] == ["both sides changed the partition spec"]
    result = merge_metadata(
        BASE,
        source,
        changed(spec("day", "id"), put("default-spec-id", 0)),
        source_adds_rows=False,
        destination_adds_rows=False,
    )
    assert not result.conflicts
    assert result.spec_ids == {0: 0, 1: 2, 2: 3}
    assert [[part["field-id"] for part in spec_of["fields"]] for spec_of in result.metadata["partition-specs"]] == [
        [],
        [1000, 1001],
        [1001],
        [1000],
    ]
    assert default_spec(result.metadata)["fields"][0]["name"] == "day"
    assert result.metadata["last-partition-id"] == 1001


def test_sort_orders_are_renumbered() -> None:
    result = merge_metadata(
        BASE,
        changed(order(1)),
        changed(order(2), put("default-sort-order-id", 0)),
        source_adds_rows=False,
        destination_adds_rows=False,
    )
    assert not result.conflicts
    assert result.order_ids == {0: 0, 1: 2}
    assert result.metadata["default-sort-order-id"] == 2


def test_properties_merge_by_key() -> None:
    result = merged(put("properties/owner", "b"), put("properties/other", "c"))
    assert result.metadata["properties"] == {"owner": "b", "other": "c"}
    assert merged(put("properties/owner", "b"), put("properties/owner", None)).conflicts
    assert merged(put("properties/owner", "b"), put("properties/owner", "b")).metadata["properties"] == {"owner": "b"}


def snapshot(number: int) -> Change:
    return lambda document: document["snapshots"].append(
        {
            "snapshot-id": number,
            "timestamp-ms": 1,
            "sequence-number": 1,
            "manifest-list": f"list{number}",
            "schema-id": 0,
        }
    )


def both(*changes: Change) -> Change:
    return lambda document: [change(document) for change in changes]


def test_refs_merge_by_name_with_the_snapshots_that_they_need() -> None:
    tag = put("refs/v1", {"snapshot-id": 7, "type": "tag"})
    result = merged(
        both(snapshot(6), snapshot(7), tag), both(snapshot(8), put("refs/v2", {"snapshot-id": 8, "type": "tag"}))
    )
    assert not result.conflicts
    assert [part["snapshot-id"] for part in result.metadata["snapshots"]] == [8, 7]
    assert list(result.metadata["refs"]) == ["v2", "v1"]
    assert merged(
        both(snapshot(7), tag), both(snapshot(8), put("refs/v1", {"snapshot-id": 8, "type": "tag"}))
    ).conflicts


def test_statistics_of_snapshots_that_the_result_has_are_kept() -> None:
    statistics = put(
        "statistics", [{"snapshot-id": 7, "statistics-path": "a"}, {"snapshot-id": 8, "statistics-path": "b"}]
    )
    result = merged(both(snapshot(7), snapshot(8), statistics), snapshot(8))
    assert result.metadata["statistics"] == [{"snapshot-id": 8, "statistics-path": "b"}]


def test_unknown_fields_merge_as_a_whole() -> None:
    assert merged(put("new-field", {"a": 1}), put("properties/a", "b")).metadata["new-field"] == {"a": 1}
    assert merged(put("new-field", 1), put("new-field", 2)).conflicts


def partitioned(transform: str, number: int, name: str) -> Change:
    def change(document: Document) -> None:
        spec_id = len(document["partition-specs"])
        part = {"name": name, "transform": transform, "source-id": number, "field-id": 1000}
        document["partition-specs"].append({"spec-id": spec_id, "fields": [part]})
        document["default-spec-id"], document["last-partition-id"] = spec_id, 1000

    return change


def conflicts_of(base: Change, source: Change, destination: Change) -> list[tuple[str, ...]]:
    """Merge both ways, and return the sentence of each conflict with its columns."""
    conflicts = []
    for sides in ((source, destination), (destination, source)):
        states = [changed(base), changed(base, sides[0]), changed(base, sides[1])]
        result = merge_metadata(*states, source_adds_rows=False, destination_adds_rows=False)
        conflicts.append(sorted((conflict.sentence, *conflict.columns) for conflict in result.conflicts))
    assert conflicts[0] == conflicts[1]
    return conflicts[0]


NUMBER = {**ID, "required": True}


UNFIT: dict[str, tuple[Change, Change, Change, str]] = {
    "identifier that becomes optional": (
        schema(NUMBER, DAY, PLACE),
        schema(NUMBER, DAY, PLACE, **{"identifier-field-ids": [1]}),
        schema(ID, DAY, PLACE),
        "column 'id' optional",
    ),
    "identifier in a struct that becomes optional": (
        schema(ID, DAY, {**PLACE, "required": True, "type": struct({**X, "required": True}, Y)}),
        schema(
            ID,
            DAY,
            {**PLACE, "required": True, "type": struct({**X, "required": True}, Y)},
            **{"identifier-field-ids": [4]},
        ),
        schema(ID, DAY, {**PLACE, "type": struct({**X, "required": True}, Y)}),
        "must not be nested in an optional field place",
    ),
    "partition named as a column": (
        put("properties/a", "b"),
        partitioned("bucket[4]", 1, "part"),
        schema(ID, DAY, PLACE, column(6, "part", "int")),
        "name that exists in schema: part",
    ),
    "former partition named as a column": (
        put("properties/a", "b"),
        both(partitioned("bucket[4]", 1, "part"), put("default-spec-id", 0)),
        schema({**ID, "name": "part"}, DAY, {**PLACE, "name": "a"}, column(6, "b", "int")),
        "",
    ),
    "former partition named as another column": (
        put("properties/a", "b"),
        both(partitioned("bucket[4]", 1, "part"), put("default-spec-id", 0)),
        schema(ID, {**DAY, "name": "part"}, PLACE),
        "name that exists in schema: part",
    ),
    "sort order of a type without an order": (
        put("properties/a", "b"),
        order(2),
        schema(ID, {**DAY, "type": "variant"}, PLACE),
        "Invalid source type variant",
    ),
    "column with the path of a nested one": (
        put("properties/a", "b"),
        schema(ID, DAY, {**PLACE, "name": "spot"}),
        schema(ID, DAY, PLACE, column(6, "spot.x", "int")),
        "multiple fields for name spot.x",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_changes_that_clients_refuse_together_are_conflicts(name: str) -> None:
    base, source, destination, words = UNFIT[name]
    conflicts = conflicts_of(base, source, destination)
    assert [words in conflict[0] for conflict in conflicts] == [True] * bool(words), conflicts


TYPES: tuple[tuple[str, str, str, bool], ...] = (
    ("int", "long", "identity", True),
    ("int", "long", "bucket[4]", True),
    ("int", "long", "truncate[10]", True),
    ("float", "double", "identity", True),
    ("decimal(4,2)", "decimal(9, 2)", "bucket[4]", True),
    ("decimal(4,2)", "decimal(9,3)", "truncate[4]", False),
    ("date", "timestamp", "day", True),
    ("date", "timestamp_ns", "year", True),
    ("date", "timestamp", "bucket[4]", False),
    ("date", "timestamp", "identity", False),
    ("date", "timestamp", "void", True),
    ("int", "string", "bucket[4]", False),
    ("unknown", "date", "identity", True),
    ("int", "long", "zorder[4]", False),
)


@pytest.mark.parametrize(("former", "latter", "transform", "fits"), TYPES)
def test_a_type_changes_under_new_partitions_if_their_values_stay(
    former: str, latter: str, transform: str, fits: bool
) -> None:
    base, wide = (schema(ID, DAY, PLACE, column(6, "c", text)) for text in (former, latter))
    part = partitioned(transform, 6, "part")
    conflicts = conflicts_of(base, part, wide)
    assert [conflict[1] for conflict in conflicts] == ([] if fits else ["c"]), conflicts
    both_sides = conflicts_of(base, part, both(wide, part))
    assert [conflict[1] for conflict in both_sides] == ([] if fits else ["c"]), both_sides
    assert conflicts_of(both(base, part), put("properties/a", "b"), wide) == [], "the client decides, not the merge"


def test_what_one_side_has_alone_is_no_conflict() -> None:
    twice = schema(ID, DAY, PLACE, **{"identifier-field-ids": [1]})  # of an optional column
    assert conflicts_of(twice, put("properties/a", "b"), schema(ID, DAY, **{"identifier-field-ids": [1]})) == []
    named = both(partitioned("bucket[4]", 1, "day"))  # as a column
    assert conflicts_of(named, schema(ID, DAY), schema(ID, DAY, PLACE, column(6, "new", "int"))) == []
