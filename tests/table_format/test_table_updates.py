"""Updates of tables: each alone, all of a commit together, and the laws that all of them keep."""

import copy
from typing import Any

import msgspec
import pytest

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import (
    current_schema,
    encode_metadata,
    read_table,
    snapshot_by_id,
)
from graveler.table_format.table_requirements import RequirementError
from graveler.table_format.table_updates import apply_table_updates
from tests.table_format.documents import (
    LOCATION,
    TIME,
    UUID,
    add_snapshot,
    field,
    schema,
    set_ref,
    snapshot,
    table,
)

LATER = TIME + 60_000
PREVIOUS = LOCATION + "/metadata/previous.json"


def apply(base: Document | None, *updates: Any, time_ms: int = LATER, **more: Any) -> Document:
    """Apply updates, and check that the base did not change, and that the result can be read."""
    before = copy.deepcopy(base)
    document = apply_table_updates(base, updates, time_ms=time_ms, **more)
    assert base == before
    assert read_table(encode_metadata(document), "result") == document
    return document


def do(action: str, **fields: Any) -> Document:
    return {"action": action, **{name.replace("_", "-"): value for name, value in fields.items()}}


def wider_schema(**more: Any) -> Document:
    return schema(*table()["schemas"][0]["fields"], field(3, "at", "timestamp"), **more)


SPEC = {"fields": [{"source-id": 1, "name": "bucket", "transform": "bucket[4]"}]}
ORDER = {"fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}
KEY = {"key-id": "k", "encrypted-key-metadata": "AA=="}
STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "s3://lake/s.puffin",
    "file-size-in-bytes": 9,
    "file-footer-size-in-bytes": 3,
    "blob-metadata": [],
}
PARTITIONS = {"snapshot-id": 1, "statistics-path": "s3://lake/p.parquet", "file-size-in-bytes": 9}


def test_a_commit_logs_the_former_metadata_file() -> None:
    base = table()
    document = apply(base, do("set-properties", updates={"a": "1"}), previous_location=PREVIOUS)
    assert document["metadata-log"] == [{"timestamp-ms": TIME, "metadata-file": PREVIOUS}]
    assert (document["last-updated-ms"], document["properties"]) == (LATER, {"a": "1"})
    names = {"write.metadata.previous-versions-max": "2"}
    for number in range(3):
        names["a"] = str(number)
        document = apply(document, do("set-properties", updates=dict(names)), previous_location=f"{PREVIOUS}{number}")
    assert [entry["metadata-file"] for entry in document["metadata-log"]] == [f"{PREVIOUS}1", f"{PREVIOUS}2"]
    with pytest.raises(InvalidError, match="must be a number"):
        apply(
            base,
            do("set-properties", updates={**names, "write.metadata.previous-versions-max": "x"}),
            previous_location=PREVIOUS,
        )


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [do("set-properties", updates={})],
        [do("set-properties", updates={"owner": "me"})],
        [do("remove-properties", removals=["none"])],
        [do("assign-uuid", uuid=UUID.upper())],
        [do("upgrade-format-version", format_version=2)],
        [do("set-location", location=LOCATION + "/")],
        [do("add-schema", schema=table()["schemas"][0] | {"schema-id": 9}, last_column_id=1)],
        [
            do("set-current-schema", schema_id=0),
            do("set-default-spec", spec_id=0),
            do("set-default-sort-order", sort_order_id=0),
        ],
        [do("add-spec", spec={"fields": []}), do("add-sort-order", sort_order={"fields": []})],
        [do("remove-snapshots", snapshot_ids=[7]), do("remove-snapshot-ref", ref_name="main")],
        [do("remove-statistics", snapshot_id=7), do("remove-partition-statistics", snapshot_id=7)],
        [do("remove-schemas", schema_ids=[7]), do("remove-partition-specs", spec_ids=[7])],
        [do("remove-encryption-key", key_id="k")],
    ],
)
def test_updates_that_change_nothing_return_the_same_document(updates: list[Document]) -> None:
    base = table(properties={"owner": "me"})
    assert apply(base, *updates, previous_location=PREVIOUS) is base


def test_schemas_specs_and_orders_are_added_once() -> None:
    adding = [
        do("ADD-schema", schema=wider_schema(**{"schema-id": 0})),
        do("set-current-schema", schema_id=-1),
        do("add-spec", spec=SPEC),
        do("set-default-spec", spec_id=-1),
        do("add-sort-order", sort_order=ORDER | {"order-id": 0}),
        do("set-default-sort-order", sort_order_id=-1),
    ]
    document = apply(table(), *adding, *adding)
    assert [item["schema-id"] for item in document["schemas"]] == [0, 1]
    assert [item["spec-id"] for item in document["partition-specs"]] == [0, 1]
    assert [item["order-id"] for item in document["sort-orders"]] == [0, 1]
    assert (document["current-schema-id"], document["default-spec-id"], document["default-sort-order-id"]) == (1, 1, 1)
    assert (document["last-column-id"], document["last-partition-id"]) == (3, 1000)
    assert document["partition-specs"][1]["fields"][0]["field-id"] == 1000
    adding = [update for update in adding if not update["action"].startswith("set")]
    assert apply(document, *adding) is document
    former = apply(document, do("set-current-schema", schema_id=0), do("set-default-spec", spec_id=0))
    last = [do("set-current-schema", schema_id=-1), do("set-default-spec", spec_id=-1)]
    assert apply(former, *adding, *last, time_ms=LATER)["default-spec-id"] == 1


def test_equal_partition_fields_have_equal_ids() -> None:
    both = {"fields": [*SPEC["fields"], {"source-id": 2, "name": "short", "transform": "truncate[2]"}]}
    last = {"fields": [both["fields"][1]]}
    document = apply(table(), do("add-spec", spec=SPEC), do("add-spec", spec=both), do("add-spec", spec=last))
    assert [[part["field-id"] for part in spec["fields"]] for spec in document["partition-specs"]] == [
        [],
        [1000],
        [1000, 1001],
        [1001],
    ]
    with pytest.raises(InvalidError, match="sequential IDs that are required in v1"):
        apply(table(1), do("add-spec", spec={"fields": [{**SPEC["fields"][0], "field-id": 1001}]}))
    with pytest.raises(InvalidError, match="Cannot use field id more than once"):
        apply(table(), do("add-spec", spec={"fields": [{**item, "field-id": 5} for item in both["fields"]]}))


def test_the_first_version_repeats_the_current_parts_until_it_is_upgraded() -> None:
    document = apply(table(1), do("add-schema", schema=wider_schema()), do("set-current-schema", schema_id=-1))
    assert document["schema"] == document["schemas"][1]
    document = apply(document, do("add-spec", spec=SPEC), do("set-default-spec", spec_id=1))
    assert document["partition-spec"] == document["partition-specs"][1]["fields"]
    second = apply(document, do("upgrade-format-version", format_version=2))
    assert "schema" not in second
    assert "partition-spec" not in second
    assert second["last-sequence-number"] == 0
    third = apply(second, do("upgrade-format-version", format_version=3))
    assert (third["next-row-id"], third["current-snapshot-id"]) == (0, None)
    for base, version, words in (
        (third, 2, "Cannot downgrade v3 table to v2"),
        (third, 4, "unsupported format version: v4"),
    ):
        with pytest.raises(InvalidError, match=words):
            apply(base, do("upgrade-format-version", format_version=version))


def test_an_upgraded_table_needs_a_uuid() -> None:
    base = {name: value for name, value in table(1).items() if name != "table-uuid"}
    upgrade = do("upgrade-format-version", format_version=2)
    with pytest.raises(InvalidError, match="UUID is required in format v2"):
        apply(base, upgrade)
    assert apply(base, upgrade, uuid=UUID) == apply(base, do("assign-uuid", uuid=UUID), upgrade)
    with pytest.raises(InvalidError, match="Cannot reassign uuid"):
        apply(table(), do("assign-uuid", uuid=UUID.replace("9", "8")))


def test_snapshots_and_refs() -> None:
    document = apply(table(), add_snapshot(1, unknown=1), set_ref(1, unknown=2))
    assert document["snapshots"] == [snapshot(1, unknown=1)]
    assert document["refs"] == {"main": {"snapshot-id": 1, "type": "branch", "unknown": 2}}
    assert document["snapshot-log"] == [{"timestamp-ms": TIME + 1, "snapshot-id": 1}]
    assert (document["current-snapshot-id"], document["last-sequence-number"], document["last-updated-ms"]) == (
        1,
        1,
        TIME + 1,
    )
    document = apply(document, set_ref(1, "tag", type="tag", **{"max-ref-age-ms": 5}), set_ref(1, "b"))
    assert document["last-updated-ms"] == LATER
    assert apply(document, set_ref(1, "b"), set_ref(1, "tag", type="tag", **{"max-ref-age-ms": 5})) is document
    removed = apply(document, do("remove-snapshot-ref", ref_name="main"))
    assert (removed["current-snapshot-id"], set(removed["refs"])) == (-1, {"tag", "b"})
    assert snapshot_by_id(removed, 1) is not None


def test_a_snapshot_that_was_current_only_within_the_commit_is_not_logged() -> None:
    document = apply(table(), add_snapshot(1), set_ref(1), add_snapshot(2), set_ref(2))
    assert [entry["snapshot-id"] for entry in document["snapshot-log"]] == [2]
    document = apply(document, set_ref(1), set_ref(2, "main", **{"max-ref-age-ms": 1}))
    assert [entry["snapshot-id"] for entry in document["snapshot-log"]] == [2, 1, 2]


def test_removed_snapshots_take_refs_statistics_and_older_history_with_them() -> None:
    document = table()
    for number in (1, 2, 3):
        document = apply(document, add_snapshot(number), set_ref(number), time_ms=TIME + number)
    document = apply(document, set_ref(2, "old"), do("set-statistics", statistics=STATISTICS | {"snapshot-id": 2}))
    document = apply(document, do("set-partition-statistics", partition_statistics=PARTITIONS | {"snapshot-id": 2}))
    document = apply(document, do("remove-snapshots", snapshot_ids=[2, 99]))
    assert [item["snapshot-id"] for item in document["snapshots"]] == [1, 3]
    assert [entry["snapshot-id"] for entry in document["snapshot-log"]] == [3]
    assert (set(document["refs"]), document["statistics"], document["partition-statistics"]) == ({"main"}, [], [])
    emptied = apply(document, do("remove-snapshots", snapshot_ids=[3, 1]))
    assert (emptied["current-snapshot-id"], emptied["refs"], emptied["snapshot-log"]) == (-1, {}, [])


def test_the_log_never_goes_back_in_time() -> None:
    base = apply(table(), add_snapshot(1), set_ref(1)) | {"last-updated-ms": LATER}
    document = apply(base, add_snapshot(2), set_ref(2), time_ms=TIME)
    assert (document["last-updated-ms"], document["snapshot-log"][-1]["timestamp-ms"]) == (LATER, LATER)
    with pytest.raises(InvalidError, match="over a day after"):
        apply(base, add_snapshot(2, **{"timestamp-ms": LATER + 86_400_001}))


@pytest.mark.parametrize(
    ("added", "stale"),
    [
        (add_snapshot(6, 5, **{"parent-snapshot-id": 5}), True),
        (add_snapshot(6, 4), True),
        (add_snapshot(6, 5), False),
        (add_snapshot(6, 9, **{"parent-snapshot-id": 5}), False),
        ({"action": "add-snapshot", "snapshot": {**snapshot(6), "sequence-number": None}}, True),
    ],
)
def test_old_sequence_numbers_are_refused(added: Document, stale: bool) -> None:
    base = apply(table(), add_snapshot(5), set_ref(5))
    if not stale:
        assert apply(base, added)["last-sequence-number"] == added["snapshot"]["sequence-number"]
        return
    with pytest.raises(
        RequirementError, match="Validation failed, please retry: Cannot add snapshot with sequence number"
    ):
        apply(base, added)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sequence-number": 2**63 - 1}, "far above the table's last, 5; use 6"),
        ({"summary": {"operation": "odd"}}, "'odd'; use one of append, replace, overwrite, delete"),
    ],
)
def test_snapshots_that_no_client_can_build_on_are_refused(fields: Document, words: str) -> None:
    base = apply(table(), add_snapshot(5), set_ref(5))
    with pytest.raises(InvalidError, match=words):
        apply(base, add_snapshot(6, **fields))


def test_row_ids_of_the_third_version() -> None:
    base = apply(table(3), add_snapshot(1, **{"first-row-id": 0, "added-rows": 30}))
    assert base["next-row-id"] == 30
    assert apply(base, add_snapshot(2, **{"first-row-id": 35, "added-rows": 1}))["next-row-id"] == 36
    with pytest.raises(RequirementError, match="first-row-id is behind table next-row-id: 29 < 30"):
        apply(base, add_snapshot(2, **{"first-row-id": 29, "added-rows": 1}))
    for rows, words in (
        ({}, "first-row-id is null"),
        ({"first-row-id": 30}, "Invalid added-rows"),
        ({"first-row-id": 30, "added-rows": -1}, ">= 0"),
        ({"first-row-id": 30, "added-rows": 2**63 - 1}, "above 2\\^63"),
    ):
        with pytest.raises(InvalidError, match=words):
            apply(base, add_snapshot(2, **rows))


def test_snapshots_of_the_first_version_have_no_sequence_number() -> None:
    inline = {
        "action": "add-snapshot",
        "snapshot": {**snapshot(1, 0), "manifest-list": None, "manifests": ["s3://lake/m.avro"]},
    }
    document = apply(table(1), inline, set_ref(1))
    assert "sequence-number" not in document["snapshots"][0]
    with pytest.raises(InvalidError, match="Sequence number must be 0 in v1"):
        apply(table(1), add_snapshot(1))
    with pytest.raises(InvalidError, match="has no manifest-list"):
        apply(table(2), inline)


def test_statistics_and_keys() -> None:
    added = [
        do("set-statistics", statistics=STATISTICS, snapshot_id=1),
        do("set-partition-statistics", partition_statistics=PARTITIONS),
        do("add-encryption-key", encryption_key=KEY),
    ]
    document = apply(table(), *added)
    assert (document["statistics"], document["partition-statistics"]) == ([STATISTICS], [PARTITIONS])
    assert document["encryption-keys"] == [KEY]
    assert apply(document, *added, do("add-encryption-key", encryption_key=KEY | {"encrypted-by-id": "x"})) is document
    other = STATISTICS | {"statistics-path": "s3://lake/t.puffin"}
    assert apply(document, do("set-statistics", statistics=other))["statistics"] == [other]
    document = apply(
        document,
        do("remove-statistics", snapshot_id=1),
        do("remove-partition-statistics", snapshot_id=1),
        do("remove-encryption-key", key_id="k"),
    )
    assert (document["statistics"], document["partition-statistics"], document["encryption-keys"]) == ([], [], [])


def test_properties_have_two_spellings() -> None:
    document = apply(table(), do("set-properties", updated={"a": "1", "b": "2"}))
    assert apply(document, do("remove-properties", removed=["a", "c"]))["properties"] == {"b": "2"}
    assert apply(document, do("remove-properties", removals=["b"]))["properties"] == {"a": "1"}


def creation(version: int) -> list[Document]:
    return [
        do("assign-uuid", uuid=UUID),
        do("upgrade-format-version", format_version=version),
        do("add-schema", schema=table()["schemas"][0]),
        do("set-current-schema", schema_id=-1),
        do("add-spec", spec={"spec-id": 0, "fields": []}),
        do("set-default-spec", spec_id=-1),
        do("add-sort-order", sort_order={"order-id": 0, "fields": []}),
        do("set-default-sort-order", sort_order_id=-1),
        do("set-location", location=LOCATION),
        do("set-properties", updates={"a": "1"}),
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_updates_make_a_table(version: int) -> None:
    built = apply(None, *creation(version), time_ms=TIME)
    properties = {"a": "1", "format-version": str(version)}
    assert built == table(version, properties=properties)
    assert apply(None, *creation(version)[1:], time_ms=TIME, uuid=UUID) == built
    with_rows = add_snapshot(1, 0 if version == 1 else 1, **{"first-row-id": 0, "added-rows": 3})
    assert apply(None, *creation(version), with_rows, set_ref(1))["current-snapshot-id"] == 1


@pytest.mark.parametrize("absent", ["add-schema", "add-spec", "add-sort-order", "set-location", "assign-uuid"])
def test_a_new_table_needs_all_its_parts(absent: str) -> None:
    updates = [update for update in creation(2) if update["action"] != absent]
    with pytest.raises(InvalidError):
        apply(None, *updates)
    with pytest.raises(InvalidError):
        apply(None)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (do("fly"), "unknown update 'fly': nothing was changed"),
        (do("add-view-version"), "unknown update 'add-view-version'"),
        ({}, "Missing field: action"),
        (3, "must be a JSON object"),
        (do("add-schema"), "missing required field `schema`"),
        (do("add-schema", schema=schema(field(1, "a", "blob"))), "Cannot parse type string"),
        (do("set-current-schema", schema_id=5), "unknown schema: 5"),
        (do("set-current-schema", schema_id=-1), "Cannot set last added schema"),
        (do("set-default-spec", spec_id=5), "unknown spec: 5"),
        (do("set-default-sort-order", sort_order_id=5), "unknown sort order: 5"),
        (do("set-default-sort-order", sort_order_id=-1), "Cannot set last added sort order"),
        (do("remove-schemas", schema_ids=[0]), "Cannot remove the current schema"),
        (do("remove-partition-specs", spec_ids=[0]), "Cannot remove the default partition spec"),
        (do("set-properties", updates={"format-version": "3"}), "reserved properties, but got format-version"),
        (do("set-properties"), "has no updates"),
        (do("remove-properties"), "has no removals"),
        (set_ref(7), "Cannot set main to unknown snapshot: 7"),
        (set_ref(1, type="tag"), "main must be a branch"),
        (set_ref(1, "t", type="tag", **{"min-snapshots-to-keep": 1}), "Tags do not support"),
        (set_ref(1, **{"min-snapshots-to-keep": 0}), ">= 1"),
        (set_ref(1, type="twig"), "twig"),
        (add_snapshot(1), "Snapshot already exists for id: 1"),
        (do("assign-uuid", uuid="x"), "assign-uuid"),
    ],
)
def test_an_update_that_fails_changes_nothing(update: Any, words: str) -> None:
    base = apply(table(), add_snapshot(1))
    with pytest.raises(InvalidError, match=words):
        apply(base, do("set-properties", updates={"a": "1"}), update)


def test_a_current_schema_fits_the_default_spec() -> None:
    base = apply(table(), do("add-spec", spec=SPEC), do("set-default-spec", spec_id=-1))
    narrow = schema(field(2, "name", "string"))
    with pytest.raises(InvalidError, match="Cannot find source column for partition field: 1"):
        apply(base, do("add-schema", schema=narrow), do("set-current-schema", schema_id=-1))
    dropped = apply(
        base, do("add-schema", schema=narrow), do("set-default-spec", spec_id=0), do("set-current-schema", schema_id=1)
    )
    assert current_schema(dropped)["fields"] == narrow["fields"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_is_replaced(version: int) -> None:
    """The updates of a client that creates or replaces: the new schema comes before the spec that fits it."""
    rows = {"first-row-id": 0, "added-rows": 3}
    base = apply(table(version), do("add-spec", spec=SPEC), do("set-default-spec", spec_id=-1))
    base = apply(base, do("add-sort-order", sort_order=ORDER), do("set-default-sort-order", sort_order_id=-1))
    base = apply(base, add_snapshot(1, 0 if version == 1 else 1, **rows), set_ref(1))
    document = apply(
        base,
        do("remove-snapshot-ref", ref_name="main"),
        do("add-schema", schema=schema(field(3, "day", "date"))),
        do("set-current-schema", schema_id=-1),
        do("add-spec", spec={"fields": [{"source-id": 3, "name": "year", "transform": "year"}]}),
        do("set-default-spec", spec_id=-1),
        do("add-sort-order", sort_order={"order-id": 0, "fields": []}),
        do("set-default-sort-order", sort_order_id=-1),
        add_snapshot(2, 0 if version == 1 else 2, **{**rows, "first-row-id": 3}),
        set_ref(2),
    )
    assert (document["current-snapshot-id"], document["default-spec-id"], document["default-sort-order-id"]) == (
        2,
        2,
        0,
    )
    assert [item["snapshot-id"] for item in document["snapshots"]] == [1, 2]


def test_transforms_that_nobody_knows_are_kept_and_not_added() -> None:
    odd = {"source-ids": [1, 2], "field-id": 1000, "name": "both", "transform": "zorder[2]"}
    base = read_table(
        encode_metadata(table(3) | {"partition-specs": [{"spec-id": 0, "fields": [odd]}], "last-partition-id": 1000}),
        "m",
    )
    document = apply(base, do("add-schema", schema=wider_schema()), do("set-current-schema", schema_id=-1))
    assert document["partition-specs"] == [{"spec-id": 0, "fields": [odd]}]
    with pytest.raises(InvalidError, match=r"Unknown transform for partition field: zorder\[2\] of 2 columns"):
        apply(table(3), do("add-spec", spec={"fields": [odd]}))


def test_parts_that_did_not_change_are_shared() -> None:
    base = table()
    for number in range(1, 50):
        base = apply_table_updates(base, [add_snapshot(number), set_ref(number)], time_ms=LATER)
    document = apply_table_updates(base, [add_snapshot(50)], time_ms=LATER)
    assert all(left is right for left, right in zip(base["snapshots"], document["snapshots"], strict=False))
    shared = [name for name in base if base[name] is document[name]]
    assert {"schemas", "partition-specs", "snapshot-log", "refs", "properties"} <= set(shared)


def test_fields_that_nobody_knows_survive() -> None:
    unknown = {"x": [1, {"y": None}], "2": 2**70}
    base = read_table(
        msgspec.json.encode(
            table() | {"new": unknown, "properties": {"a": "1"}, "snapshots": [snapshot(1, 0, new=unknown)]}
        ),
        "m",
    )
    document = apply(base, add_snapshot(2, new=unknown), set_ref(2), do("add-schema", schema=wider_schema(new=unknown)))
    assert document["new"] == document["snapshots"][0]["new"] == document["snapshots"][1]["new"] == unknown
    assert document["schemas"][1]["new"] == unknown
