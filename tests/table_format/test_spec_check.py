"""The checker of tables: none of PyIceberg's violates the specification, and each rule reports what violates it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from graveler.errors import NotFoundError
from graveler.table_format.avro_files import read_avro_file, write_avro_file
from graveler.table_format.avro_types import writer
from graveler.table_format.live_files import EQUALITY_DELETES, POSITION_DELETES
from graveler.table_format.manifest_lists import DELETES, ManifestFile, PartitionSummary
from graveler.table_format.manifests import ADDED, DELETED, EXISTING
from graveler.table_format.plain_documents import Document
from graveler.table_format.spec_check import check_table
from tests.table_format.tables import History, read_file
from tests.table_format.written_files import SCHEMA, SPEC, Files


def test_tables_of_pyiceberg_follow_the_specification(history: History) -> None:
    for state in history.states:
        assert check_table(state, read_file) == []


def _problems(metadata: Document, read: Callable[[str], bytes]) -> str:
    return "\n".join(map(str, check_table(metadata, read)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"current-schema-id": 9}, "current-schema-id is 9"),
        ({"default-spec-id": 9}, "default-spec-id is 9"),
        ({"default-sort-order-id": 9}, "default-sort-order-id is 9"),
        ({"last-column-id": 1}, "last-column-id is 1, and a column has 7"),
        ({"last-partition-id": 1000}, "last-partition-id is 1000"),
        ({"last-sequence-number": 1}, "above the table's last-sequence-number, 1"),
        ({"last-updated-ms": 0}, "younger"),
        ({"current-snapshot-id": 7}, "current-snapshot-id is 7, which does not exist"),
        ({"refs": {"x": {"snapshot-id": 7, "type": "tag"}}}, "ref x: it names snapshot 7"),
        ({"snapshot-log": [{"snapshot-id": 7, "timestamp-ms": 0}]}, "snapshot-log: it has snapshot 7"),
        (
            {
                "metadata-log": [
                    {"metadata-file": "a", "timestamp-ms": 1 << 40},
                    {"metadata-file": "b", "timestamp-ms": 0},
                ]
            },
            "metadata-log: it is not in the order",
        ),
        ({"statistics": [{"snapshot-id": 7}]}, "statistics are of snapshot 7"),
        ({"partition-specs": []}, "which the table does not have"),
    ],
)
def test_metadata(history: History, change: dict[str, Any], problem: str) -> None:
    assert problem in _problems(history.states[-1] | change, read_file)


def test_ids_that_stand_twice(history: History) -> None:
    state = deepcopy(history.states[-1])
    state["schemas"].append(state["schemas"][0])
    state["snapshots"][1]["sequence-number"] = 1
    problems = _problems(state, read_file)
    assert "schemas have schema-id 0 twice" in problems
    assert "two snapshots have sequence number 1" in problems
    assert "sequence number 1 is not above its parent's, 1" in problems
    assert "above the snapshot's 1" in problems
    assert "its own manifest" in problems


def test_totals(history: History) -> None:
    state = deepcopy(history.states[-1])
    state["snapshots"][-1]["summary"]["total-records"] = "999"
    state["snapshots"][-1]["schema-id"] = 99
    assert [violation.problem.partition(",")[0] for violation in check_table(state, read_file)] == [
        "schema-id is 99",
        "total-records of its summary is 999",
    ]


def test_missing_and_damaged_files(history: History) -> None:
    manifest_list = history.states[-1]["snapshots"][-1]["manifest-list"]

    def read(location: str) -> bytes:
        if location == manifest_list:
            raise NotFoundError("it is not there")
        return read_file(location)[:-1] if location.endswith("m0.avro") else read_file(location)

    problems = _problems(history.states[-1], read)
    assert "its manifest list cannot be read: it is not there" in problems
    assert "it cannot be read" in problems


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "{",
        "null",
        "5",
        "[1]",
        "[[]]",
        '[{"field-id": null}]',
        '[{"field-id": 1e999}]',
        '[{"field-id": NaN}]',
        "[" * 10_000,
    ],
)
def test_a_damaged_header_of_a_manifest_is_a_problem(history: History, spec: str) -> None:
    def read(location: str) -> bytes:
        contents = read_file(location)
        if "-m0" not in location:
            return contents
        file = read_avro_file(contents, location)
        write = writer(file.type)
        header = {key: value for key, value in file.metadata.items() if not key.startswith("avro.")}
        header |= {"partition-spec": spec, "padding": "x" * len(contents)}  # not shorter than its list says
        return write_avro_file(header, file.schema, [write(record) for record in file.records()])

    problems = check_table(history.states[-1], read)
    assert any(problem.place.startswith("manifest ") and "it is not a manifest" in str(problem) for problem in problems)


def _table(snapshots: list[Document], version: int = 2, **fields: Any) -> Document:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {
        "format-version": version,
        "last-updated-ms": 100,
        "last-column-id": 1,
        "last-sequence-number": max(snapshot["sequence-number"] for snapshot in snapshots),
        "schemas": [SCHEMA],
        "current-schema-id": 0,
        "partition-specs": [SPEC],
        "default-spec-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": snapshots,
        "current-snapshot-id": snapshots[-1]["snapshot-id"],
    } | named


def test_a_small_table_is_right() -> None:
    files = Files()
    vector = {
        "content": POSITION_DELETES,
        "format": "PUFFIN",
        "content_offset": 4,
        "content_size": 5,
        "referenced_data_file": "s3://b/a",
    }
    data = files.manifest("m1", 1, 1, 3, a=(ADDED, 1), b=(ADDED, 1))
    deletes = files.manifest("m2", 2, 2, 3, DELETES, v=(ADDED, 2, vector))
    summary = {
        "total-files-size": "23",
        "total-position-deletes": "1",
        "total-data-files": "2",
        "total-delete-files": "1",
    }
    numbered = msgspec.structs.replace(data, first_row_id=0)
    snapshot = files.snapshot(2, [numbered, deletes], 1, 3, summary=summary, first_row_id=0, added_rows=2)
    assert check_table(_table([snapshot], 3, next_row_id=2), files.read) == []
    problems = _problems(_table([snapshot], 3, next_row_id=1), files.read)
    assert "its rows end at 2, above the table's next-row-id, 1" in problems
    assert "data file s3://b/b has row IDs to 2" in problems


Vary = dict[str, Any]


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ({"added_files": 3}, "added_files in the list is 3, but the files have 1"),
        ({"existing_files": 0}, "existing_files in the list is 0, but the files have 1"),
        ({"deleted_rows": 2}, "deleted_rows in the list is 2, but the files have 1"),
        ({"min_sequence_number": 2}, "min_sequence_number in the list is 2, but the files have 1"),
        ({"length": 5}, "its length in the list is 5"),
        ({"partitions": (PartitionSummary(True),)}, "1 summaries for 0 partition fields"),
        ({"sequence_number": 9}, "above the snapshot's 2"),
        ({"sequence_number": 1}, "its own manifest"),
        ({"added_snapshot_id": 1}, "snapshot 2 added it, in a manifest of 1"),
        ({"spec_id": 1}, "it cannot be read"),
    ],
)
def test_lists_that_disagree_with_manifests(described: dict[str, Any], problem: str) -> None:
    files = Files()
    manifest = files.manifest("m", 2, 2, a=(ADDED, 2), b=(EXISTING, 1), c=(DELETED, 1))
    listed: ManifestFile = msgspec.structs.replace(manifest, **described)
    assert _problems(_table([files.snapshot(2, [manifest])]), files.read) == ""
    assert problem in _problems(_table([files.snapshot(2, [listed])]), files.read)


def _vector(path: str) -> dict[str, Any]:
    return {"content": POSITION_DELETES, "content_offset": 4, "content_size": 5, "referenced_data_file": path}


@pytest.mark.parametrize(
    ("content", "entries", "problem"),
    [
        (0, {"a": (EXISTING, None)}, "no sequence number"),
        (0, {"a": (EXISTING, 3)}, "are above its manifest's, 2"),
        (0, {"a": (ADDED, 1)}, "added with file sequence number 1"),
        (DELETES, {"a": (ADDED, 2, {"content": EQUALITY_DELETES})}, "without equality_ids"),
        (DELETES, {"a": (ADDED, 2, _vector("s3://b/gone"))}, "data file s3://b/gone, which is not live"),
        (
            DELETES,
            {"a": (ADDED, 2, _vector("s3://b/x")), "b": (ADDED, 2, _vector("s3://b/x"))},
            "data file s3://b/x has 2 deletion vectors",
        ),
        (0, {"x": (ADDED, 2)}, "file s3://b/x is live 2 times"),
        (0, {"a": (ADDED, 2, {"first_row_id": 0})}, "share row IDs from 0 on"),
        (0, {"a": (ADDED, 2, {"first_row_id": 50})}, "above the table's next-row-id"),
    ],
)
def test_entries(content: int, entries: dict[str, Any], problem: str) -> None:
    files = Files()
    data = msgspec.structs.replace(files.manifest("x", 2, 2, 3, x=(ADDED, 2)), first_row_id=0)
    changed = msgspec.structs.replace(files.manifest("m", 2, 2, 3, content, **entries), first_row_id=10)
    table = _table([files.snapshot(2, [data, changed], None, 3, first_row_id=0, added_rows=1)], 3, next_row_id=20)
    assert problem in _problems(table, files.read)
    assert problem not in _problems(_table([files.snapshot(2, [data], None, 3)], 3, next_row_id=20), files.read)


def test_rows_without_ids_and_vectors_of_version_2() -> None:
    files = Files()
    data = files.manifest("x", 2, 2, 3, x=(ADDED, 2))
    deletes = files.manifest("v", 2, 2, 3, DELETES, v=(ADDED, 2, _vector("s3://b/x")))
    table = _table([files.snapshot(2, [data, deletes], None, 3, first_row_id=0)], 3, next_row_id=20)
    problems = _problems(table, files.read)
    assert "data file s3://b/x has no row IDs" in problems
    assert "first-row-id without added-rows" in problems
    assert "in a table before version 3" in _problems(table | {"format-version": 2}, files.read)


def test_an_upgraded_table_gives_row_ids_to_its_manifests() -> None:
    files = Files()
    manifest = files.manifest("m", 1, 1, a=(ADDED, 1))
    numbered = msgspec.structs.replace(manifest, first_row_id=0)
    upgraded = files.snapshot(2, [numbered], 1, 3, first_row_id=0, added_rows=1)
    table = _table([files.snapshot(1, [manifest]), upgraded], 3, next_row_id=1)
    assert check_table(table, files.read) == []
    assert check_table(table | {"snapshots": table["snapshots"][::-1]}, files.read) == [], "whatever their order"
    renumbered = [msgspec.structs.replace(manifest, first_row_id=5)]
    tagged = files.snapshot(3, renumbered, 1, 3, first_row_id=5, added_rows=1)
    forked = _table([*table["snapshots"], tagged], 3, next_row_id=9)
    assert check_table(forked, files.read) == [], "each line of snapshots gives its own"
    later = files.snapshot(3, renumbered, 2, 3)
    changed = _table([files.snapshot(1, [manifest]), upgraded, later], 3, next_row_id=9)
    assert "two manifest lists describe it differently" in _problems(changed, files.read)


def test_manifests_that_two_lists_describe_differently() -> None:
    files = Files()
    manifest = files.manifest("m", 1, 1, a=(ADDED, 1))
    other = msgspec.structs.replace(manifest, added_rows=5)
    table = _table([files.snapshot(1, [manifest, manifest]), files.snapshot(2, [other], 1)])
    problems = _problems(table, files.read)
    assert "two manifest lists describe it differently" in problems
    assert "its list has manifest s3://b/m twice" in problems


def test_fields_of_partitions_with_other_ids_than_their_spec(history: History) -> None:
    state = deepcopy(history.states[-1])
    assert any(spec["fields"] for spec in state["partition-specs"])
    for spec in state["partition-specs"]:
        for part in spec["fields"]:
            part["field-id"] += 7
    problems = _problems(state | {"last-partition-id": 2000}, read_file)
    assert "the partition fields of its header have the IDs (1000" in problems
    assert "the partition fields of its schema have the IDs (1000" in problems
