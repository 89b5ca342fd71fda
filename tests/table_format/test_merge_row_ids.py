"""Row IDs of rows that were rewritten, which are in the files themselves, as far as the metrics of manifests tell."""

from typing import Any

import pytest

from graveler.table_format.merge_results import MergedTable, MergeResult, TableConflicts
from graveler.table_format.plain_documents import Document
from tests.table_format.documents import field
from tests.table_format.small_tables import SmallTables, expired, file_of

ROW_ID = 2147483540


@pytest.fixture
def tables() -> SmallTables:
    return SmallTables()


def counts(*columns: int) -> Document:
    return {
        "value_counts": [{"key": column, "value": 2} for column in columns],
        "null_value_counts": [{"key": column, "value": 0} for column in columns],
    }


def bounds(lowest: int, highest: int) -> Document:
    return {
        "lower_bounds": [{"key": ROW_ID, "value": lowest.to_bytes(8, "little")}],
        "upper_bounds": [{"key": ROW_ID, "value": highest.to_bytes(8, "little")}],
    }


def base_of(tables: SmallTables) -> Document:
    return tables.table(3, file_of("file", "a", rows=2))


def rewritten(tables: SmallTables, base: Document, **metrics: Any) -> Document:
    """Return a table with rows that were added and then rewritten: they have the IDs 2 and 3."""
    table = tables.commit(base, file_of("new", "a", rows=2))
    return tables.commit(table, file_of("rewritten", "a", rows=2, **metrics), operation="overwrite", removed={"new"})


def appended(tables: SmallTables, base: Document, **metrics: Any) -> Document:
    """Return a table with rows that have the IDs 2 and 3."""
    return tables.commit(base, file_of("other", "a", rows=2, **metrics))


def kinds(result: MergeResult) -> list[str]:
    return [conflict.kind for conflict in result.conflicts] if isinstance(result, TableConflicts) else []


@pytest.mark.parametrize(
    ("columns", "properties", "is_merged"),
    [
        ((), {}, False),
        ((1, 2, 3), {}, True),
        ((1, 2, 3, ROW_ID), {}, False),
        ((1, 2), {}, False),
        ((1, 2, 3), {"write.metadata.metrics.default": "none"}, False),
        ((1, 2, 3), {"write.metadata.metrics.default": "counts"}, True),
    ],
)
def test_rewritten_file_without_row_ids_has_counts_of_all_columns(
    tables: SmallTables, columns: tuple[int, ...], properties: dict[str, str], is_merged: bool
) -> None:
    base = base_of(tables)
    base["properties"] |= properties
    result = tables.merge(base, rewritten(tables, base, **counts(*columns)), appended(tables, base))
    assert isinstance(result, MergedTable) == is_merged
    assert kinds(result) == ([] if is_merged else ["row-ids"])


def test_columns_that_are_counted_are_those_of_the_schema_at_the_time_of_writing(tables: SmallTables) -> None:
    base = base_of(tables)
    parts = [
        field(4, "nothing", "unknown"),
        field(5, "tags", {"type": "list", "element-id": 6, "element": "string", "element-required": False}),
        field(7, "place", {"type": "struct", "fields": [field(8, "street", "string")]}),
    ]
    schema = {**base["schemas"][0], "schema-id": 1, "fields": [*base["schemas"][0]["fields"], *parts]}
    wide = {**base, "schemas": [*base["schemas"], schema], "current-schema-id": 1, "last-column-id": 8}
    for table, columns, is_merged in (
        (base, (1, 2, 3), True),
        (wide, (1, 2, 3), False),
        (wide, (1, 2, 3, 8), True),
    ):
        source = rewritten(tables, table, **counts(*columns))
        later = {**source, "schemas": wide["schemas"], "current-schema-id": 1, "last-column-id": 8}
        for state in (source, later):
            assert isinstance(tables.merge(base, state, appended(tables, base)), MergedTable) == is_merged
        last = {**later["snapshots"][-1]}
        del last["schema-id"]
        unknown = {**later, "snapshots": [*later["snapshots"][:-1], last]}
        assert isinstance(tables.merge(base, unknown, appended(tables, base)), MergedTable) == is_merged


def test_files_of_new_rows_have_no_row_ids_in_themselves(tables: SmallTables) -> None:
    base = base_of(tables)
    for metrics in ({}, counts(1)):
        source = rewritten(tables, base, **counts(1, 2, 3), **bounds(1 << 30, (1 << 30) + 1))
        assert isinstance(tables.merge(base, source, appended(tables, base, **metrics)), MergedTable)


def test_rewritten_file_whose_row_ids_are_unknown_may_hold_those_of_the_source(tables: SmallTables) -> None:
    base = base_of(tables)
    source = rewritten(tables, base, **counts(1, 2, 3), **bounds(1 << 30, (1 << 30) + 1))
    table = tables.commit(base, file_of("other", "a", rows=2))
    for metrics, is_merged in ((counts(1, 2, 3), True), (counts(1), False), ({}, False)):
        destination = tables.commit(
            table, file_of("others", "a", rows=2, **metrics), operation="overwrite", removed={"other"}
        )
        assert isinstance(tables.merge(base, source, destination), MergedTable) == is_merged


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("metrics", [bounds(2, 3), {}])
def test_file_of_an_earlier_merge_may_hold_row_ids_of_a_third_branch(
    tables: SmallTables, metrics: Document, swapped: bool
) -> None:
    base = base_of(tables)
    third = rewritten(tables, base, **counts(1, 2, 3, ROW_ID), **metrics) if metrics else rewritten(tables, base)
    merged = tables.merge(base, third, {**base, "properties": {**base["properties"], "a": "b"}})
    assert isinstance(merged, MergedTable)
    assert merged.summary.operation == "append"
    assert "graveler.rewritten-rows" in merged.metadata["snapshots"][-1]["summary"]
    assert "rewritten" in tables.live_entries(merged.metadata)
    sides = [merged.metadata, appended(tables, base)]
    result = tables.merge(base, *(reversed(sides) if swapped else sides))
    assert isinstance(result, MergedTable) == swapped
    if isinstance(result, MergedTable):
        assert (tables.live_entries(result.metadata)["other"].first_row_id or 0) >= merged.metadata["next-row-id"]
    else:
        assert kinds(result) == ["row-ids"]


@pytest.mark.parametrize("columns", [(1, 2, 3), (1,), ()])
def test_new_rows_that_an_earlier_merge_brought_merge_again(tables: SmallTables, columns: tuple[int, ...]) -> None:
    base = base_of(tables)
    schema = {**base["schemas"][0], "schema-id": 1, "fields": [*base["schemas"][0]["fields"], field(4, "b", "long")]}
    wide = {**base, "schemas": [*base["schemas"], schema], "current-schema-id": 1, "last-column-id": 4}
    merged = tables.merge(base, appended(tables, base, **counts(*columns)), wide)
    assert isinstance(merged, MergedTable)
    assert merged.metadata["current-schema-id"] == 1
    assert "graveler.rewritten-rows" not in merged.metadata["snapshots"][-1]["summary"]
    destination = tables.commit(base, file_of("fourth", "a", rows=3))
    assert "row-ids" not in kinds(tables.merge(base, merged.metadata, destination))


@pytest.mark.parametrize("swapped", [False, True])
def test_file_may_hold_row_ids_that_an_expired_snapshot_gave(tables: SmallTables, swapped: bool) -> None:
    base = base_of(tables)
    sides = [expired(rewritten(tables, base)), appended(tables, base)]
    result = tables.merge(base, *(reversed(sides) if swapped else sides))
    assert isinstance(result, MergedTable) == swapped
    if isinstance(result, MergedTable):
        assert (tables.live_entries(result.metadata)["other"].first_row_id or 0) >= sides[0]["next-row-id"]
    else:
        assert kinds(result) == ["row-ids"]
