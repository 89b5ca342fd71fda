"""Merges of tables whose metadata lack what earlier snapshots had, or whose files are damaged."""

from typing import Any

import pytest

from graveler.table_format.merge_results import MergedTable, SideTaken, TableConflicts
from graveler.table_format.plain_documents import Document
from tests.table_format.small_tables import AddedFile, SmallTables, expired, file_of

BY_KEY = {"field-id": 1001, "name": "key", "transform": "identity", "source-id": 2}
BY_VALUE = {"field-id": 1002, "name": "value", "transform": "identity", "source-id": 3}


@pytest.fixture
def tables() -> SmallTables:
    return SmallTables(drops_manifests=True)


def base_of(tables: SmallTables) -> Document:
    return tables.table(2, file_of("a", "a"), file_of("b", "b"))


def compacted(tables: SmallTables, base: Document, *early: AddedFile) -> Document:
    """Return a table whose files were compacted into a new spec, and the former one removed with its snapshots."""
    table = tables.commit(base, *early) if early else base
    table = tables.with_spec(table, 1, BY_KEY)
    removed = {"a", "b", *(added.file["path"] for added in early)}
    return expired(tables.commit(table, file_of("c", 7, rows=2, spec_id=1), operation="replace", removed=removed))


def without_former_specs(metadata: Document) -> Document:
    """Return a table that keeps its snapshots, and only its default spec."""
    return {**metadata, "partition-specs": metadata["partition-specs"][-1:]}


@pytest.mark.parametrize("swapped", [False, True])
def test_compaction_out_of_a_spec_that_one_side_removed_changes_no_row(tables: SmallTables, swapped: bool) -> None:
    base = base_of(tables)
    sides = [compacted(tables, base), tables.commit(base, file_of("d", "a"))]
    result = tables.merge(base, *(reversed(sides) if swapped else sides), isolation="serializable")
    assert isinstance(result, MergedTable)
    assert {path: entry.spec_id for path, entry in tables.live_entries(result.metadata).items()} == {"c": 1, "d": 0}


@pytest.mark.parametrize("swapped", [False, True])
def test_compaction_out_of_a_spec_that_one_side_removed_is_left_out_if_the_other_changed_its_files(
    tables: SmallTables, swapped: bool
) -> None:
    base = base_of(tables)
    changed = tables.commit(base, file_of("a2", "a"), operation="overwrite", removed={"a"})
    sides = [compacted(tables, base), changed]
    result = tables.merge(base, *(reversed(sides) if swapped else sides))
    assert isinstance(result, MergedTable)
    assert {path: entry.spec_id for path, entry in tables.live_entries(result.metadata).items()} == {"a2": 0, "b": 0}


@pytest.mark.parametrize("swapped", [False, True])
def test_compaction_out_of_a_spec_that_nobody_knows_counts_as_a_rewrite(tables: SmallTables, swapped: bool) -> None:
    base = base_of(tables)
    table = tables.commit(tables.with_spec(base, 1, BY_KEY), file_of("e", 7, spec_id=1))
    table = tables.with_spec(table, 2, BY_VALUE)
    table = tables.commit(table, file_of("c", "v", rows=3, spec_id=2), operation="replace", removed={"a", "b", "e"})
    sides = [without_former_specs(table), tables.commit(base, file_of("d", "a"))]
    result = tables.merge(base, *(reversed(sides) if swapped else sides))
    assert isinstance(result, MergedTable)
    assert set(tables.live_entries(result.metadata)) == {"c", "d"}
    changed = tables.commit(base, file_of("a2", "a"), operation="overwrite", removed={"a"})
    sides = [sides[0], changed]
    result = tables.merge(base, *(reversed(sides) if swapped else sides))
    assert isinstance(result, TableConflicts)
    assert {conflict.kind for conflict in result.conflicts} == {"file"}


def test_compaction_out_of_a_spec_whose_number_is_another_one_of_the_other_side_counts_as_a_rewrite(
    tables: SmallTables,
) -> None:
    base = base_of(tables)
    other = tables.with_spec(base, 1, BY_VALUE)
    other = tables.commit(other, file_of("d", "a", spec_id=1))
    table = tables.commit(tables.with_spec(base, 1, BY_KEY), file_of("e", 7, spec_id=1))
    table = tables.with_spec(table, 2, BY_VALUE | {"name": "part"})
    table = tables.commit(table, file_of("c", "v", rows=3, spec_id=2), operation="replace", removed={"a", "b", "e"})
    for sides in ((without_former_specs(table), other), (other, without_former_specs(table))):
        result = tables.merge(base, *sides)
        assert not isinstance(result, MergedTable) or set(tables.live_entries(result.metadata)) == {"c", "d"}


def test_manifest_of_a_spec_whose_column_no_schema_has_is_written_anew(tables: SmallTables) -> None:
    base = base_of(tables)
    current = {**base["schemas"][0], "schema-id": 1, "fields": base["schemas"][0]["fields"][1:]}
    table = tables.with_spec({**base, "schemas": [current], "current-schema-id": 1}, 1)
    for snapshot in table["snapshots"]:
        del snapshot["schema-id"]
    source = tables.commit(table, file_of("s", spec_id=1))
    source = {**source, "schemas": base["schemas"]}
    source = {
        **tables.commit({**source, "current-schema-id": 0}, operation="delete", removed={"a"}),
        "schemas": [current],
    }
    source["current-schema-id"] = 1
    source["snapshots"][-1]["schema-id"] = 1
    destination = tables.commit({**table, "format-version": 3, "next-row-id": 0}, file_of("d", spec_id=1))
    result = tables.merge(table, source, destination)
    assert isinstance(result, MergedTable)
    assert set(tables.live_entries(result.metadata)) == {"b", "s", "d"}
    assert tables.live_entries(result.metadata)["b"].partition == ("b",)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("is_list", [False, True])
def test_damaged_file_is_a_conflict_that_names_it(tables: SmallTables, number: int, is_list: bool) -> None:
    base = base_of(tables)
    states = [
        base,
        tables.commit(base, file_of("s", "s"), operation="overwrite", removed={"a"}),
        tables.commit(base, file_of("d", "d"), operation="overwrite", removed={"b"}),
    ]
    location = states[number]["snapshots"][-1]["manifest-list"]
    location = location if is_list else tables.manifests(states[number])[0].path
    tables.files[location] = tables.files[location][:-20]
    result = tables.merge(*states)
    assert isinstance(result, TableConflicts)
    assert [conflict.kind for conflict in result.conflicts] == ["file"]
    assert location in result.conflicts[0].sentence
    assert "damaged" in result.conflicts[0].sentence
    results = [tables.merge(*states, strategy=strategy) for strategy in ("source-wins", "destination-wins")]
    assert [side.side for side in results if isinstance(side, SideTaken) and side.overridden] == [
        "source",
        "destination",
    ]


def test_file_of_a_spec_that_its_table_does_not_have_is_a_conflict_that_names_its_manifest(tables: SmallTables) -> None:
    base = base_of(tables)
    source = tables.commit(tables.with_spec(base, 1, BY_KEY), file_of("s", 7, spec_id=1))
    damaged: dict[str, Any] = {**source, "partition-specs": base["partition-specs"], "default-spec-id": 0}
    result = tables.merge(base, damaged, tables.commit(base, file_of("d", "a")))
    assert isinstance(result, TableConflicts)
    assert [conflict.kind for conflict in result.conflicts] == ["file"]
    assert tables.manifests(source)[-1].path in result.conflicts[0].sentence


def test_property_with_which_no_merge_can_be_written_is_a_conflict(tables: SmallTables) -> None:
    base = base_of(tables)
    source = tables.commit({**base, "properties": {"write.metadata.previous-versions-max": "many"}}, file_of("s", "a"))
    destination = tables.commit(base, file_of("d", "a"))
    result = tables.merge(base, source, destination)
    assert isinstance(result, TableConflicts)
    assert [conflict.kind for conflict in result.conflicts] == ["metadata"]
    assert "write.metadata.previous-versions-max" in result.conflicts[0].sentence
    assert isinstance(tables.merge(base, source, destination, strategy="source-wins"), SideTaken)
