"""Strangers' documents: of any shape, size and depth, they are refused by the error that says so, or read."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptError, InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata, new_table, read_table
from graveler.table_format.table_requirements import RequirementError, check_table_requirements, check_view_requirements
from graveler.table_format.table_updates import apply_table_updates
from graveler.table_format.view_metadata import read_view
from graveler.table_format.view_updates import apply_view_updates
from tests.table_format.documents import (
    LOCATION,
    TIME,
    UUID,
    add_snapshot,
    field,
    nested_schema,
    schema,
    set_ref,
    table,
)
from tests.table_format.test_table_updates import KEY, ORDER, PARTITIONS, SPEC, STATISTICS, do, wider_schema
from tests.table_format.test_views import query, replace, version, view

POOL: list[Any] = [
    *(
        ...,
        None,
        True,
        False,
        0.5,
        1.0,
        "",
        "x",
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": None},
        UUID,
        LOCATION,
        "main",
        "int",
        "void",
        "tag",
    ),
    *(-(2**63) - 1, -1, 0, 1, 2, 3, 999, 1000, 1001, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**80, "0", "3", "-1", "\x00"),
    *(
        "identity",
        "bucket[0]",
        "bucket[99999999999]",
        "decimal(99,1)",
        "geography(a,b)",
        "timestamp_ns",
        "unknown",
        "struct",
    ),
    *({"type": "struct"}, {"type": "struct", "fields": []}, {"type": "list"}, {"type": "variant"}, {"fields": []}),
    *([1, 1], [1, 2, 3], [True], ["a"], {"a": "b"}, {"a": 1}, {"a": {"a": {"a": 1}}}),
]
"""What spoils a document: no value (``...``), or one of these."""


def paths(document: Any, start: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a document."""
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [start, *(path for key in keys for path in paths(document[key], (*start, key)))]


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value, or none (``...``), at one place."""
    if not path:
        return {} if value is ... else value
    document = copy.copy(document)
    if len(path) == 1 and value is ...:
        del document[path[0]]
    else:
        document[path[0]] = changed(document[path[0]], path[1:], value)
    return document


CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(POOL)), min_size=0, max_size=3)
"""Changes at any places of a document."""


def spoiled(document: Any, changes: list[tuple[int, Any]]) -> Any:
    for place, value in changes:
        places = paths(document)
        document = changed(document, places[place % len(places)], value)
    return document


def full_table(version_number: int) -> Document:
    """A table with all that a version may have."""
    rows = {"first-row-id": 0, "added-rows": 5}
    updates = [
        do("add-spec", spec=SPEC),
        do("add-sort-order", sort_order=ORDER),
        do("add-schema", schema=wider_schema()),
        add_snapshot(1, 0 if version_number == 1 else 1, **rows),
        set_ref(1),
        set_ref(1, "tag", type="tag", **{"max-ref-age-ms": 9}),
        do("set-statistics", statistics=STATISTICS),
        do("set-partition-statistics", partition_statistics=PARTITIONS),
        do("add-encryption-key", encryption_key=KEY),
        do("set-properties", updates={"write.metadata.previous-versions-max": "5"}),
    ]
    return apply_table_updates(table(version_number), updates, time_ms=TIME, previous_location=LOCATION + "/old.json")


TABLES = [full_table(number) for number in (1, 2, 3)]
VIEW = apply_view_updates(view(), replace(2), time_ms=TIME)
TABLE_UPDATES = [
    *[
        do("assign-uuid", uuid=UUID),
        do("upgrade-format-version", format_version=3),
        do("set-location", location=LOCATION),
    ],
    *[do("add-schema", schema=nested_schema(), last_column_id=9), do("set-current-schema", schema_id=-1)],
    *[do("add-spec", spec=SPEC), do("set-default-spec", spec_id=1), do("add-sort-order", sort_order=ORDER)],
    *[
        do("set-default-sort-order", sort_order_id=1),
        add_snapshot(2, **{"first-row-id": 5, "added-rows": 1}),
        set_ref(2),
    ],
    *[set_ref(1, "t", type="tag"), do("remove-snapshots", snapshot_ids=[1]), do("remove-snapshot-ref", ref_name="tag")],
    *[do("set-properties", updates={"a": "b"}), do("remove-properties", removals=["a"])],
    *[do("set-statistics", statistics=STATISTICS), do("remove-statistics", snapshot_id=1)],
    *[
        do("set-partition-statistics", partition_statistics=PARTITIONS),
        do("remove-partition-statistics", snapshot_id=1),
    ],
    *[do("remove-partition-specs", spec_ids=[1]), do("remove-schemas", schema_ids=[1])],
    *[do("add-encryption-key", encryption_key=KEY | {"key-id": "l"}), do("remove-encryption-key", key_id="k")],
]
VIEW_UPDATES = [
    *[do("add-schema", schema=nested_schema()), *replace(3, query("x"), query("y", "trino"), **{"schema-id": -1})],
    *[do("set-properties", updates={"version.history.num-entries": "3"}), do("assign-uuid", uuid=UUID)],
    *[
        do("remove-properties", removals=["a"]),
        do("set-location", location=LOCATION),
        do("upgrade-format-version", format_version=1),
    ],
]
REQUIREMENTS = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-view-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]


def check_reading(document: Any, read: Callable[..., Document]) -> None:
    data = msgspec.json.encode(document)
    try:
        result = read(data, "stranger")
    except InvalidError:
        pass
    else:
        assert read(encode_metadata(result), "result") == result
    try:
        read(data, "stored", stored=True)
    except CorruptError:
        return


def check_updates(base: Document, updates: Any, apply: Callable[..., Document], read: Callable[..., Document]) -> None:
    before = copy.deepcopy(base)
    try:
        result = apply(base, updates, time_ms=TIME + 1_000)
    except (InvalidError, RequirementError):
        return
    finally:
        assert base == before
    assert read(encode_metadata(result), "result") == result
    assert read(encode_metadata(result), "result", stored=True) == result


def check_requirement(requirement: Any) -> None:
    for check, base in (
        (check_table_requirements, TABLES[1]),
        (check_table_requirements, None),
        (check_view_requirements, VIEW),
    ):
        try:
            check(base, [requirement])  # type: ignore[arg-type]
        except (InvalidError, RequirementError):
            continue


def check_creation(arguments: Any) -> None:
    try:
        document = new_table(**arguments)
    except InvalidError:
        return
    assert read_table(encode_metadata(document), "new") == document


CREATION: Document = {
    "schema": nested_schema(),
    "partition_spec": {
        "spec-id": 0,
        "fields": [{"source-id": 10, "name": "b", "transform": "bucket[4]", "field-id": 1}],
    },
    "sort_order": {
        "order-id": 1,
        "fields": [{"source-id": 50, "transform": "day", "direction": "asc", "null-order": "nulls-last"}],
    },
    "properties": {"format-version": "3"},
    "location": LOCATION,
    "uuid": UUID,
    "time_ms": TIME,
}


def campaign(examples: int) -> None:
    """Look for a document that raises anything but the errors that it may."""

    def each(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        run = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        return lambda check: run(given(*strategies)(check))()

    def updates_of(items: list[Document]) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(st.sampled_from(items), CHANGES), max_size=4)

    @each(st.sampled_from([*TABLES, VIEW]), CHANGES)
    def _(document: Document, changes: Any) -> None:
        check_reading(spoiled(document, changes), read_view if document is VIEW else read_table)

    @each(st.sampled_from(TABLES), updates_of(TABLE_UPDATES), CHANGES)
    def _(base: Document, updates: Any, changes: Any) -> None:
        items = spoiled([spoiled(update, some) for update, some in updates], changes[2:])
        check_updates(base, items, apply_table_updates, read_table)

    @each(updates_of(VIEW_UPDATES), CHANGES)
    def _(updates: Any, changes: Any) -> None:
        items = spoiled([spoiled(update, some) for update, some in updates], changes[2:])
        check_updates(VIEW, items, apply_view_updates, read_view)

    @each(st.sampled_from(REQUIREMENTS), CHANGES)
    def _(requirement: Document, changes: Any) -> None:
        check_requirement(spoiled(requirement, changes))

    @each(st.sampled_from(("schema", "partition_spec", "sort_order", "properties", "location", "uuid")), CHANGES)
    def _(part: str, changes: Any) -> None:
        check_creation(CREATION | {part: spoiled(CREATION[part], changes)})


def test_wrong_types_anywhere() -> None:
    campaign(25)


@pytest.mark.ci
def test_wrong_types_anywhere_at_length() -> None:
    campaign(3_000)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_deep_documents() -> None:
    def deep(levels: int) -> bytes:
        return encode_metadata(table())[:-1] + b',"x":' + b"[" * levels + b"1" + b"]" * levels + b"}"

    assert read_table(deep(250), "deep")["x"] == nested(250)
    for levels in (260, 700, 100_000):
        with pytest.raises(InvalidError, match="deep"):
            read_table(deep(levels), "deep")


def test_deep_updates() -> None:
    for update in (
        do("add-schema", schema=wider_schema(x=nested(900))),
        do("set-properties", updates={"a": "b"}, x=nested(900)),
    ):
        with pytest.raises(InvalidError, match="256 levels"):
            apply_table_updates(table(), [update], time_ms=TIME)
    with pytest.raises(InvalidError, match="256 levels"):
        apply_view_updates(view(), [do("add-view-version", view_version=version(2, x=nested(900)))], time_ms=TIME)
    with pytest.raises(InvalidError, match="256 levels"):
        table(schema=wider_schema(x=nested(900)))


def test_too_many_parts() -> None:
    columns = [field(number, f"c{number}", "int") for number in range(1, 32_770)]
    wide = {
        "type": "list",
        "element-id": 2,
        "element": {"type": "struct", "fields": columns[1:]},
        "element-required": True,
    }
    with pytest.raises(InvalidError, match="length <= 32768"):
        table(schema=schema(*columns))
    with pytest.raises(InvalidError, match="more than 32,768 columns"):
        table(schema=schema(field(40_000, "a", wide)))
    with pytest.raises(InvalidError, match="length <= 10000"):
        read_table(msgspec.json.encode(table() | {"schemas": [1] * 10_001}), "many")
    with pytest.raises(InvalidError, match="more than 8,000,000 values"):
        read_table(b"[" + b"1," * 8_000_000 + b"1]", "many")


def test_many_updates() -> None:
    """A client that expires snapshots names each in an update of its own: the work must not be their product."""
    numbers = range(1, 1_001)
    base = apply_table_updates(table(), [add_snapshot(number) for number in numbers] + [set_ref(1_000)], time_ms=TIME)
    expired = [do("remove-snapshots", snapshot_ids=[number]) for number in numbers[:-1]]
    assert [item["snapshot-id"] for item in apply_table_updates(base, expired, time_ms=TIME)["snapshots"]] == [1_000]
    with pytest.raises(InvalidError, match="updates add 1,001 schemas"):
        apply_table_updates(base, [do("add-spec", spec=SPEC)] * 1_001, time_ms=TIME)


def test_no_id_is_free() -> None:
    last = table() | {"schemas": [table()["schemas"][0], wider_schema(**{"schema-id": 2**31 - 1})], "last-column-id": 3}
    with pytest.raises(InvalidError, match="no schema-id is free"):
        apply_table_updates(last, [do("add-schema", schema=schema(field(3, "z", "int")))], time_ms=TIME)
    last = table() | {"last-partition-id": 2**31 - 1}
    with pytest.raises(InvalidError, match="no field-id is free"):
        apply_table_updates(last, [do("add-spec", spec=SPEC)], time_ms=TIME)


def test_metadata_that_cannot_be_written_are_refused() -> None:
    for value in ("\ud800", nested(5_000), object()):
        with pytest.raises(InvalidError, match="cannot be written"):
            encode_metadata({"a": value})
