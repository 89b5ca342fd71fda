"""Merges of partition specs: IDs of fields, by which readers find the values of partitions."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType

from graveler.table_format.manifest_lists import manifests_of
from graveler.table_format.manifests import read_manifest
from graveler.table_format.merge_results import TableConflicts, TableState
from graveler.table_format.merge_specs import SpecMerge, merge_specs
from graveler.table_format.partition_specs import field_ids, same_spec
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import default_spec
from tests.table_format.iceberg_branches import Branches, Work, rows_of

SCHEMA = Schema(NestedField(1, "p", StringType()), NestedField(2, "k", LongType()), NestedField(3, "x", StringType()))
BY_P = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))


@pytest.fixture
def branches(tmp_path: Path) -> Branches:
    return Branches(tmp_path)


def append(p: str, k: int) -> Work:
    def work(table: Table) -> None:
        table.append(pa.Table.from_pylist([{"p": p, "k": k, "x": f"x{k}"}], table.schema().as_arrow()))

    return work


def added(name: str, column: str, transform: Transform[Any, Any]) -> Work:
    def work(table: Table) -> None:
        with table.update_spec() as update:
            update.add_field(column, transform, name)

    return work


def removed(*names: str) -> Work:
    def work(table: Table) -> None:
        with table.update_spec() as update:
            for name in names:
                update.remove_field(name)

    return work


def renamed(name: str, new_name: str) -> Work:
    def work(table: Table) -> None:
        with table.update_spec() as update:
            update.rename_field(name, new_name)

    return work


def tagged(table: Table) -> None:
    number = table.refresh().metadata.current_snapshot_id
    assert number is not None
    table.manage_snapshots().create_tag(number, "v1").commit()


def check_ids(branches: Branches, state: TableState) -> None:
    """Check that each manifest has the field IDs of the table's spec, in its header and in the schema of its entries."""
    specs = {spec["spec-id"]: spec for spec in state.metadata["partition-specs"]}
    for manifest in manifests_of(state.metadata["snapshots"][-1], branches.read_file):
        opened = read_manifest(branches.read_file(manifest.path), manifest)
        header = {"fields": json.loads(opened.metadata["partition-spec"])}
        assert field_ids(header) == opened.partition_ids == field_ids(specs[opened.spec_id])


@pytest.mark.parametrize("version", [1, 2])
def test_a_field_that_one_side_renamed_keeps_its_id(branches: Branches, version: int) -> None:
    base = branches.create(SCHEMA, append("a", 1), partition_spec=BY_P, properties={"format-version": str(version)})
    source, destination = branches.fork(base, renamed("p", "part"), append("a", 2)), branches.fork(base, append("b", 3))
    for sides in ((source, destination), (destination, source)):
        _, merged = branches.merged(base, *sides)
        assert [(field["field-id"], field["name"]) for field in default_spec(merged.metadata)["fields"]] == [
            (1000, "part")
        ]
        check_ids(branches, merged)
        assert [row["k"] for row in rows_of(merged)] == [1, 2, 3]
        filtered = StaticTable.from_metadata(merged.location).scan("p == 'a'").to_arrow()["k"].to_pylist()
        assert sorted(filtered) == [1, 2]


UNLIKE = (
    (added("k", "k", IdentityTransform()), removed("k"), added("x", "x", IdentityTransform())),
    (
        added("k_bucket", "k", BucketTransform(4)),
        added("k_hundreds", "k", TruncateTransform(100)),
        removed("k_bucket", "k_hundreds"),
        added("x", "x", IdentityTransform()),
    ),
)
"""Two ways to the same spec, which give its last field different IDs."""


def test_manifests_of_a_spec_with_other_field_ids_are_written_anew(branches: Branches) -> None:
    base = branches.create(SCHEMA, append("a", 1), partition_spec=BY_P)
    source, destination = (branches.fork(base, *UNLIKE[side], append("a", 2 + side)) for side in (0, 1))
    assert default_spec(source.metadata)["fields"] != default_spec(destination.metadata)["fields"]
    for sides in ((source, destination), (destination, source)):
        _, merged = branches.merged(base, *sides)
        assert default_spec(merged.metadata) == default_spec(sides[1].metadata)
        check_ids(branches, merged)
        assert [row["k"] for row in rows_of(merged)] == [1, 2, 3]


def test_a_snapshot_for_a_ref_is_no_copy_if_its_fields_have_other_ids(branches: Branches) -> None:
    base = branches.create(SCHEMA, append("a", 1), partition_spec=BY_P)
    source = branches.fork(base, *UNLIKE[0], append("a", 2), tagged)
    conflicts = branches.merge(base, source, branches.fork(base, *UNLIKE[1], append("b", 3)))
    assert isinstance(conflicts, TableConflicts)
    assert ["ref 'v1' needs a snapshot" in conflict.sentence for conflict in conflicts.conflicts] == [True]
    renaming = branches.fork(base, renamed("p", "part"), append("a", 2), tagged)
    _, merged = branches.merged(base, renaming, branches.fork(base, append("b", 3)))
    assert merged.metadata["refs"]["v1"]["snapshot-id"] == renaming.metadata["current-snapshot-id"]


Fields = tuple[tuple[int, str, str, int], ...]
"""Fields of a spec: ID, name, transform, and source column."""


def specs_of(specs: tuple[Fields, ...]) -> list[Document]:
    names = "field-id", "name", "transform", "source-id"
    return [
        {"spec-id": number, "fields": [dict(zip(names, field, strict=True)) for field in fields]}
        for number, fields in enumerate(specs)
    ]


def merged_specs(source: tuple[Fields, ...], destination: tuple[Fields, ...], version: int = 2) -> SpecMerge:
    def metadata(specs: tuple[Fields, ...]) -> Document:
        last = max((field[0] for fields in specs for field in fields), default=999)
        return {"partition-specs": specs_of(specs), "last-partition-id": last}

    return merge_specs(metadata(source), metadata(destination), version)


P: Fields = ((1000, "p", "identity", 1),)
VOID_P: Fields = ((1000, "p", "void", 1),)
K: Fields = ((1001, "k", "identity", 2),)
X: Fields = ((1001, "x", "identity", 3),)


@pytest.mark.parametrize("version", [1, 2])
def test_a_field_that_became_void_keeps_its_id(version: int) -> None:
    result = merged_specs((P, VOID_P + X), (P,), version)
    assert [field_ids(spec) for spec in result.specs] == [(1000,), (1000, 1001)]
    assert (result.spec_ids, result.renumbered, result.last_partition_id) == ({0: 0, 1: 1}, False, 1001)
    result = merged_specs((P, P + X), (P, VOID_P), version)
    assert [field_ids(spec) for spec in result.specs] == [(1000,), (1000,), (1000, 1001)]
    assert (result.spec_ids, result.renumbered) == ({0: 0, 1: 2}, True)


def test_a_field_that_comes_back_beside_its_void_one_has_its_new_id() -> None:
    back: Fields = (*VOID_P, (1001, "p", "identity", 1))
    assert field_ids(merged_specs((P, VOID_P, back), (P,)).specs[-1]) == (1000, 1001)


def test_a_void_field_of_another_former_transform_has_another_id() -> None:
    bucket: Fields = ((1001, "k", "bucket[4]", 2),)
    void: Fields = ((1001, "k", "void", 2),)
    result = merged_specs((P, P + K, P + void + ((1002, "x", "identity", 3),)), (P, P + bucket, P + void))
    assert [field_ids(spec) for spec in result.specs[3:]] == [(1000, 1003), (1000, 1003, 1002)]
    assert not result.conflicts


def test_equal_fields_have_one_id() -> None:
    result = merged_specs((P, P + K, (*P, (1002, "x", "identity", 3))), (P, X, (*X, (1002, "k", "identity", 2))))
    assert [field_ids(spec) for spec in result.specs[3:]] == [(1000, 1002), (1000, 1001)]
    assert result.renumbered


def test_fields_of_version_1_that_have_one_id_are_a_conflict() -> None:
    (conflict,) = merged_specs((P, P + X), (P, P + K), 1).conflicts
    assert "ID 1001 to partition field 'x', and the destination to 'k'" in conflict.sentence
    shared = merged_specs((P, P + X, P + K), (P, P + X), 1)
    assert (shared.conflicts, [field_ids(spec) for spec in shared.specs]) == ((), [(1000,), (1000, 1001), (1000, 1001)])


def test_ids_end() -> None:
    last: Fields = ((2**31 - 1, "k", "identity", 2),)
    assert merged_specs((P, last), (P, ((2**31 - 1, "x", "identity", 3),))).conflicts
    assert not merged_specs((P, last), (P,)).conflicts


def evolved(random: Random, specs: list[Fields], version: int) -> None:
    """Change the last spec as clients do: add, remove or rename a field."""
    fields = list(specs[-1])
    live = [index for index, field in enumerate(fields) if field[2] != "void"]
    action = random.choice(("add", "add", "remove", "rename"))
    if action == "add":
        column, transform = random.randint(1, 3), random.choice(("identity", "bucket[4]", "bucket[8]"))
        name = f"c{column}_{transform}{random.choice(('', '_x'))}"
        if any((field[3], field[2]) == (column, transform) or field[1] == name for field in fields):
            return
        ids = {field[1:]: field[0] for spec in specs for field in spec}
        last = max((field[0] for spec in specs for field in spec), default=999)
        number = ids.get((name, transform, column), last + 1)
        if version == 1 or number in {field[0] for field in fields}:
            number = 1000 + len(fields) if version == 1 else last + 1
        fields.append((number, name, transform, column))
    elif live:
        index = random.choice(live)
        number, name, transform, column = fields[index]
        if action == "rename":
            fields[index] = number, f"{name}_r", transform, column
        elif version == 1 or random.random() < 0.3:
            fields[index] = number, name, "void", column
        else:
            del fields[index]
    if tuple(fields) not in specs:
        specs.append(tuple(fields))


def are_unambiguous(specs: Sequence[Document]) -> bool:
    """Return whether each ID is that of one column and one transform, apart from ``void``, and no spec has it twice."""
    fields = [field for spec in specs for field in spec["fields"]]
    columns = {(field["field-id"], field["source-id"]) for field in fields}
    transforms = {(field["field-id"], field["transform"]) for field in fields if field["transform"] != "void"}
    return all(len({number for number, _ in pairs}) == len(pairs) for pairs in (columns, transforms)) and all(
        len(set(field_ids(spec))) == len(spec["fields"]) for spec in specs
    )


@pytest.mark.parametrize("version", [1, 2])
def test_histories_of_specs_merge_to_one_field_for_each_id(version: int) -> None:
    merged = 0
    for seed in range(1_000):
        random = Random(f"specs-{version}-{seed}")
        base: list[Fields] = [()]
        for _ in range(random.randint(0, 3)):
            evolved(random, base, version)
        sides = list(base), list(base)
        for side in sides:
            for _ in range(random.randint(0, 4)):
                evolved(random, side, version)
        source, destination = (specs_of(tuple(side)) for side in sides)
        if not are_unambiguous(source) or not are_unambiguous(destination):
            continue
        result = merged_specs(tuple(sides[0]), tuple(sides[1]), version)
        if result.conflicts:
            assert version == 1
            assert not are_unambiguous([*destination, *source])
            continue
        merged += 1
        by_id = {spec["spec-id"]: spec for spec in result.specs}
        assert len(by_id) == len(result.specs)
        assert are_unambiguous(result.specs), (seed, sides)
        assert list(result.specs[: len(destination)]) == destination
        assert all(same_spec(spec, by_id[result.spec_ids[spec["spec-id"]]]) for spec in source)
        if sides[1] == base:
            assert list(result.specs) == source
        if version == 1:
            assert all(field_ids(spec) == tuple(range(1000, 1000 + len(spec["fields"]))) for spec in result.specs)
    assert merged > 500
