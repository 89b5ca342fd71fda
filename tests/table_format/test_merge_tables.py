"""Merges of tables that PyIceberg wrote, read back by PyIceberg."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from graveler.table_format.merge_results import SideTaken, TableConflicts, TableState
from tests.table_format.iceberg_branches import Branches, Work, path_of, rows_of

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))


@pytest.fixture
def branches(tmp_path: Path) -> Branches:
    return Branches(tmp_path)


def append(*ids: int, day: str = "a", **columns: Any) -> Work:
    rows = [{"id": number, "day": day, **columns} for number in ids]

    def work(table: Table) -> None:
        names = [field.name for field in table.schema().fields]
        table.append(
            pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], table.schema().as_arrow())
        )

    return work


def delete(expression: str) -> Work:
    return lambda table: table.delete(expression)


def ids(state: TableState) -> list[int]:
    return [row["id"] for row in rows_of(state)]


def test_two_appends_are_both_in_the_result(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    source, destination = branches.fork(base, append(2), append(3)), branches.fork(base, append(4))
    branches.reads.clear()
    result, merged = branches.merged(base, source, destination, source_commit="c0ffee")
    assert ids(merged) == [1, 2, 3, 4]
    assert result.summary.opened_manifests == 3
    assert len([location for location in branches.reads if "snap-" not in location]) == 3
    snapshot = merged.metadata["snapshots"][-1]
    assert snapshot["parent-snapshot-id"] == destination.metadata["current-snapshot-id"]
    assert snapshot["sequence-number"] == merged.metadata["last-sequence-number"] == 4
    assert snapshot["summary"]["operation"] == "append"
    assert snapshot["summary"]["total-records"] == "4"
    assert snapshot["summary"]["graveler.source-commit"] == "c0ffee"
    assert merged.metadata["metadata-log"][-1]["metadata-file"] == destination.location
    assert branches.merge(base, source, destination, source_commit="c0ffee") == result
    assert result.summary.source.added_rows == 2
    assert ids(branches.fork(merged, append(5), delete("id == 2"))) == [1, 3, 4, 5]


def test_side_that_alone_changed_is_taken(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    changed = branches.fork(base, append(2))
    assert branches.merge(base, changed, base) == SideTaken("source", changed)
    assert branches.merge(base, base, changed) == SideTaken("destination", changed)
    assert branches.merge(base, changed, changed) == SideTaken("destination", changed)


def test_removed_files_in_other_partitions_are_both_removed(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1, 2), append(3, 4, day="b"), append(5, day="c"), partition_spec=BY_DAY)
    source = branches.fork(base, delete("id == 1"), append(6, day="d"))
    destination = branches.fork(base, delete("id == 3"), delete("day == 'c'"))
    _, merged = branches.merged(base, source, destination)
    assert ids(merged) == [2, 4, 6]
    assert merged.metadata["snapshots"][-1]["summary"]["operation"] == "overwrite"
    assert merged.metadata["snapshots"][-1]["summary"]["total-data-files"] == "3"
    back = branches.merged(source, base, merged)[1]
    assert ids(back) == [1, 2, 4]


def test_isolation_decides_about_rows_that_the_destination_added(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1, 2), partition_spec=BY_DAY)
    source, destination = branches.fork(base, delete("id == 1")), branches.fork(base, append(3))
    conflicts = branches.merge(base, source, destination)
    assert isinstance(conflicts, TableConflicts)
    assert [(conflict.kind, conflict.partition, conflict.source_rows) for conflict in conflicts.conflicts] == [
        ("isolation", "day=a", 2)
    ]
    assert ids(branches.merged(base, source, destination, isolation="snapshot")[1]) == [2, 3]
    assert ids(branches.merged(base, destination, source)[1]) == [2, 3]
    taken = branches.merge(base, source, destination, strategy="source-wins")
    assert isinstance(taken, SideTaken)
    assert (taken.side, taken.overridden) == ("source", conflicts.conflicts)


def test_columns_of_both_sides_are_merged(branches: Branches) -> None:
    def column(name: str) -> Work:
        def work(table: Table) -> None:
            with table.update_schema() as update:
                update.add_column(name, StringType())

        return work

    base = branches.create(SCHEMA, append(1))
    source = branches.fork(base, column("note"), append(2, note="x"))
    destination = branches.fork(
        base, append(3), lambda table: table.transaction().set_properties(a="b").commit_transaction()
    )
    _, merged = branches.merged(base, source, destination)
    assert rows_of(merged) == [
        {"id": 1, "day": "a", "note": None},
        {"id": 2, "day": "a", "note": "x"},
        {"id": 3, "day": "a", "note": None},
    ]
    assert merged.metadata["properties"]["a"] == "b"
    other = branches.fork(base, column("comment"))
    conflicts = branches.merge(base, source, other)
    assert isinstance(conflicts, TableConflicts)
    assert conflicts.conflicts[0].columns == ("comment", "note")
    same = branches.fork(base, column("note"), append(4, note="y"))
    assert [row["note"] for row in rows_of(branches.merged(base, source, same)[1])] == [None, "x", "y"]


def test_specs_of_both_sides_are_renumbered(branches: Branches) -> None:
    def spec(name: str) -> Work:
        def work(table: Table) -> None:
            with table.update_spec() as update:
                update.add_identity(name)

        return work

    base = branches.create(SCHEMA, append(1))
    source = branches.fork(base, spec("day"), append(2, day="b"))

    def there_and_back(table: Table) -> None:
        with table.update_spec() as update:
            update.remove_field("id")

    destination = branches.fork(base, spec("id"), append(3), there_and_back)
    _, merged = branches.merged(base, source, destination)
    assert ids(merged) == [1, 2, 3]
    assert len({spec["spec-id"] for spec in merged.metadata["partition-specs"]}) >= 3


def test_base_whose_manifests_are_gone_is_a_conflict(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    source, destination = branches.fork(base, append(2)), branches.fork(base, append(3))
    path_of(base.metadata["snapshots"][-1]["manifest-list"]).unlink()
    conflicts = branches.merge(base, source, destination)
    assert isinstance(conflicts, TableConflicts)
    assert conflicts.conflicts[0].kind == "base"


def test_dropped_and_remade_tables_are_conflicts(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    changed = branches.fork(base, append(2))
    other = TableState(changed.metadata | {"table-uuid": "00000000-0000-4000-8000-000000000000"}, "other")
    for states in ((base, None, changed), (base, changed, None), (None, changed, other), (base, changed, other)):
        conflicts = branches.merge(*states)
        assert isinstance(conflicts, TableConflicts)
        assert conflicts.conflicts[0].kind == "table"
    assert branches.merge(base, None, base) == SideTaken("source", None)


def test_tag_of_the_source_comes_with_its_snapshot_and_files(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))

    def tag(table: Table) -> None:
        number = table.refresh().metadata.current_snapshot_id
        assert number is not None
        table.manage_snapshots().create_tag(number, "v1").commit()

    source, destination = branches.fork(base, append(2), tag), branches.fork(base, append(3))
    result, merged = branches.merged(base, source, destination)
    assert merged.metadata["refs"]["v1"]["snapshot-id"] == source.metadata["current-snapshot-id"]
    assert ids(merged) == [1, 2, 3]
    snapshot = source.metadata["snapshots"][-1]
    assert snapshot["manifest-list"] in result.reached
    assert {location for location in result.reached if location.endswith(".parquet")} < {
        str(row["file_path"]) for row in StaticTable.from_metadata(source.location).inspect.files().to_pylist()
    }


def test_change_of_metadata_alone_makes_no_snapshot(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    source = branches.fork(base, lambda table: table.transaction().set_properties(a="b").commit_transaction())
    destination = branches.fork(base, append(2))
    result, merged = branches.merged(base, source, destination)
    assert not result.files
    assert merged.metadata["snapshots"] == destination.metadata["snapshots"]
    assert merged.metadata["properties"]["a"] == "b"
    assert result.summary.source.metadata == ("changed properties a",)
