"""Merges of the model's tables, written as real metadata and manifests.

``GRAVELER_TABLE_MERGES=n`` makes n random merges instead of the short form.
"""

import os
from itertools import pairwise
from random import Random

import pytest

from graveler.table_format.live_files import LiveFile
from graveler.table_format.merge_results import MergedTable, MergeTerms, SideTaken, TableConflicts, TableState
from graveler.table_format.merge_tables import merge_tables
from graveler.table_format.plain_documents import Document
from graveler.table_format.spec_check import check_table
from tests.table_format.merge_model import Operation, World, base_of, in_order, merge, multiset
from tests.table_format.test_merge_semantics import ALPHABET, branches
from tests.table_format.written_model import FOLDER, WrittenTables, row_ids

MERGES = int(os.environ.get("GRAVELER_TABLE_MERGES", "80"))


def check_numbers(tables: WrittenTables, before: TableState, after: TableState) -> None:
    """Check the numbers of a merged state: of its snapshot, its files, its rows, and the totals of files."""
    entries = tables.live_entries(after)
    snapshot = after.metadata["snapshots"][-1]
    last = after.metadata["last-sequence-number"]
    assert snapshot["sequence-number"] == last > before.metadata["last-sequence-number"]
    assert snapshot["parent-snapshot-id"] == before.metadata["current-snapshot-id"]
    assert all(0 < (entry.sequence_number or 0) <= (entry.file_sequence_number or 0) <= last for entry in entries)
    ranges = row_ids(entries)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), ranges
    if tables.version > 2:
        assert len(ranges) == sum(entry.content == 0 for entry in entries)
        assert ranges[-1:] <= [(after.metadata["next-row-id"],) * 2] if ranges else True
    vectors = [entry.referenced_data_file for entry in entries if entry.is_deletion_vector]
    assert len(set(vectors)) == len(vectors)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
def test_written_tables_merge_as_the_model_does(partitioned: bool, vectors: bool) -> None:
    merged = 0
    for seed in range(MERGES // 4):
        random = Random(f"written-{seed}-{partitioned}-{vectors}")
        world = World(partitioned=partitioned, vectors=vectors)
        histories = [random.choices(ALPHABET, k=random.randint(low, high)) for low, high in ((0, 2), (1, 3), (1, 3))]
        base, source, destination = branches(world, *histories)
        tables = WrittenTables(world)
        state = tables.base(base)
        states = state, tables.fork(state, source), tables.fork(state, destination)
        isolated = random.random() < 0.5
        expected = merge(base, source, destination, isolated=isolated)
        terms = MergeTerms(
            FOLDER,
            isolation="serializable" if isolated else "snapshot",
            read_positions=tables.read_positions,
        )
        tables.reads.clear()
        result = merge_tables(*states, tables.read_file, terms)
        assert len(tables.reads) == len(set(tables.reads)) or vectors
        if isinstance(result, MergedTable):
            merged += 1
            after = tables.write(result)
            assert not check_table(after.metadata, tables.read_file)
            assert multiset(tables.branch(after)) == in_order(destination, source, isolated=isolated), histories
            if len(after.metadata["snapshots"]) > len(states[2].metadata["snapshots"]):
                check_numbers(tables, states[2], after)
            assert merge_tables(*states, tables.read_file, terms) == result
            later = merge_tables(states[1], states[0], after, tables.read_file, terms)
            if isinstance(later, MergedTable):
                tables.branch(tables.write(later))
        elif isinstance(result, TableConflicts):
            kinds = {conflict.kind for conflict in result.conflicts}
            assert (expected.branch is None) == bool(kinds - {"row-ids"})
        else:
            assert isinstance(result, SideTaken)
            assert multiset(destination) == in_order(destination, source, isolated=isolated) or not destination.steps
    assert merged > MERGES // 40


def test_only_manifests_that_differ_are_opened() -> None:
    world = World()
    base = base_of(world, [])
    tables = WrittenTables(world)
    state = tables.base(base, other_manifests=1000)
    sides = [base.fork("source"), base.fork("destination")]
    for partition, side in enumerate(sides):
        side.write(Operation("append", partition, 3))
    states = state, tables.fork(state, sides[0]), tables.fork(state, sides[1])
    tables.reads.clear()
    result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    assert (len(tables.reads), result.summary.opened_manifests) == (5, 2)
    assert len(result.files) == 2


def test_history_that_expired_does_not_change_a_merge_of_appends() -> None:
    world = World()
    base, source, destination = branches(world, [], [ALPHABET[0], ALPHABET[0]], [ALPHABET[1]])
    tables = WrittenTables(world)
    state = tables.base(base)
    states = state, tables.fork(state, source), tables.fork(state, destination)
    expired = [
        TableState({**part.metadata, "snapshots": part.metadata["snapshots"][-1:], "snapshot-log": []}, part.location)
        for part in states
    ]
    result = merge_tables(expired[0], expired[1], expired[2], tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    assert multiset(tables.branch(tables.write(result))) == in_order(destination, source, isolated=True)


def test_omitted_compaction_is_in_the_summary() -> None:
    world = World()
    base, source, destination = branches(
        world, [ALPHABET[0]], [Operation("compact", 0), ALPHABET[1]], [Operation("delete", 0, 1, "position")]
    )
    tables = WrittenTables(world)
    state = tables.base(base)
    states = state, tables.fork(state, source), tables.fork(state, destination)
    result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    assert [(part.side, part.files, part.rows) for part in result.summary.omitted] == [("source", 2, 3)]
    assert result.summary.operation == "append"
    swapped = merge_tables(states[0], states[2], states[1], tables.read_file, MergeTerms(FOLDER, isolation="snapshot"))
    assert isinstance(swapped, MergedTable)
    assert [(part.side, part.files, part.rows) for part in swapped.summary.omitted] == [("destination", 2, 3)]
    assert multiset(tables.branch(tables.write(swapped))) == in_order(source, destination, isolated=False)


def test_row_ids_of_a_block_of_its_own_are_kept() -> None:
    world = World(vectors=True)
    base, source, destination = branches(world, [], [ALPHABET[0], Operation("update", 0, 1, "copy")], [ALPHABET[1]])
    tables = WrittenTables(world)
    state = tables.base(base)
    block = 1 << 40
    begun = TableState({**state.metadata, "next-row-id": block}, "begun")
    states = state, tables.fork(begun, source), tables.fork(state, destination)
    result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    assert result.metadata["next-row-id"] > block
    after = tables.write(result)
    check_numbers(tables, states[2], after)
    assert not check_table(after.metadata, tables.read_file)
    assert {start for start, _ in row_ids(tables.live_entries(after))} > {
        start for start, _ in row_ids(tables.live_entries(states[1])) if start >= block
    }
    conflicts = merge_tables(state, tables.fork(state, source), states[2], tables.read_file, MergeTerms(FOLDER))
    assert isinstance(conflicts, TableConflicts)
    assert [conflict.kind for conflict in conflicts.conflicts] == ["row-ids"]


def test_upgrade_on_one_side_is_in_the_result() -> None:
    for upgraded in (0, 1):
        world = World()
        base, *sides = branches(world, [], [ALPHABET[0]], [ALPHABET[1]])
        tables = WrittenTables(world)
        state = tables.base(base)
        forks = []
        for index, side in enumerate(sides):
            tables.version = 3 if index == upgraded else 2
            begun = {**state.metadata, "next-row-id": 0, "format-version": 3} if index == upgraded else state.metadata
            forks.append(tables.fork(TableState(begun, "begun"), side))
        result = merge_tables(state, forks[0], forks[1], tables.read_file, MergeTerms(FOLDER))
        assert isinstance(result, MergedTable)
        tables.version = 3
        after = tables.write(result)
        check_numbers(tables, forks[1], after)
        newest = {**after.metadata, "snapshots": after.metadata["snapshots"][-1:]}  # older lists have no row IDs
        assert not check_table(newest, tables.read_file)
        assert after.metadata["format-version"] == 3


def test_row_ids_begin_behind_those_of_a_snapshot_that_comes_with_a_tag() -> None:
    world = World(vectors=True)
    base, source, destination = branches(world, [], [ALPHABET[0]], [])
    tables = WrittenTables(world)
    state = tables.base(base)
    states = [tables.fork(state, side) for side in (source, destination)]
    changed = states[0].metadata
    tag = {"snapshot-id": changed["current-snapshot-id"], "type": "tag"}
    back = {  # rolled back, but for the tag
        **state.metadata,
        **{name: changed[name] for name in ("snapshots", "last-sequence-number", "next-row-id")},
        "refs": {**state.metadata["refs"], "v1": tag},
    }
    properties = {**states[1].metadata, "properties": {**state.metadata["properties"], "a": "b"}}
    result = merge_tables(
        state, TableState(back, "back"), TableState(properties, "properties"), tables.read_file, MergeTerms(FOLDER)
    )
    assert isinstance(result, MergedTable)
    assert result.metadata["next-row-id"] == changed["next-row-id"] > state.metadata["next-row-id"]
    assert not check_table(result.metadata, tables.read_file)


def test_a_merge_back_gives_no_row_id_twice() -> None:
    world = World(vectors=True)
    base, source, destination = branches(world, [], [ALPHABET[0]], [ALPHABET[0]])
    tables = WrittenTables(world)
    state = tables.base(base)
    states = state, tables.fork(state, source), tables.fork(state, destination)
    result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    merged = tables.write(result)
    properties = {**states[1].metadata["properties"], "a": "b"}
    later = TableState({**states[1].metadata, "properties": properties}, "later")
    back = merge_tables(states[1], merged, later, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(back, MergedTable)
    after = tables.write(back)
    ranges = row_ids(tables.live_entries(after))
    assert len(ranges) == 4
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), ranges
    assert not check_table(after.metadata, tables.read_file)


def test_compaction_that_may_hold_row_ids_of_the_destination_is_left_out() -> None:
    for destination_rows, omitted in (([ALPHABET[1]], [("source", 3)]), ([], [])):
        world = World(vectors=True)
        rows = [ALPHABET[0], ALPHABET[0]]
        base, source, destination = branches(
            world, [], [*rows, Operation("compact", 0)], [Operation("delete", 1, 1, "position"), *destination_rows]
        )
        tables = WrittenTables(world)
        state = tables.base(base)
        states = state, tables.fork(state, source), tables.fork(state, destination)
        result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
        assert isinstance(result, MergedTable)
        assert [(part.side, part.files) for part in result.summary.omitted] == omitted
        after = tables.write(result)
        check_numbers(tables, states[2], after)
        assert multiset(tables.branch(after)) == in_order(destination, source, isolated=True)


def test_source_that_upgraded_the_table_may_rewrite_rows() -> None:
    world = World()
    base, source, destination = branches(world, [], [ALPHABET[0], Operation("update", 0, 1, "copy")], [ALPHABET[1]])
    tables = WrittenTables(world)
    state = tables.base(base)
    ours = tables.fork(state, destination)
    tables.version = 3
    upgraded = {**state.metadata, "next-row-id": 0, "format-version": 3}
    theirs = tables.fork(TableState(upgraded, "upgraded"), source)
    result = merge_tables(state, theirs, ours, tables.read_file, MergeTerms(FOLDER, isolation="snapshot"))
    assert isinstance(result, MergedTable)
    after = tables.write(result)
    check_numbers(tables, ours, after)
    starts = {start for start, _ in row_ids(tables.live_entries(theirs))}
    assert starts & {start for start, _ in row_ids(tables.live_entries(after))}, "rewritten files hold IDs of theirs"


@pytest.mark.parametrize(
    ("nulls", "highest", "is_merged"), [(1, None, True), (0, None, False), (0, 0, True), (1, 1 << 30, True)]
)
def test_rewritten_files_without_row_ids_of_the_destination_merge(
    nulls: int, highest: int | None, is_merged: bool
) -> None:
    world = World(vectors=True)
    base, source, destination = branches(world, [], [ALPHABET[0], Operation("update", 0, 1, "copy")], [ALPHABET[1]])
    tables = WrittenTables(world)
    state = tables.base(base)
    ours = tables.fork(state, destination)
    row_id = 2147483540

    def metrics(file: LiveFile) -> Document:
        counts = {"value_counts": [{"key": row_id, "value": 1}], "null_value_counts": [{"key": row_id, "value": nulls}]}
        bounds = [] if highest is None else [{"key": row_id, "value": highest.to_bytes(8, "little")}]
        return {**counts, "lower_bounds": bounds, "upper_bounds": bounds}

    tables.metrics = metrics
    theirs = tables.fork(state, source)
    result = merge_tables(state, theirs, ours, tables.read_file, MergeTerms(FOLDER, isolation="snapshot"))
    assert isinstance(result, MergedTable) == is_merged
    if isinstance(result, TableConflicts):
        assert [conflict.kind for conflict in result.conflicts] == ["row-ids"]


@pytest.mark.parametrize("is_free", [True, False])
def test_a_merge_back_of_rows_that_were_rewritten_since(is_free: bool) -> None:
    """The rows have row IDs that the other branch never had, as it numbers its own in a block; or that it has given to others."""
    world = World(vectors=True)
    base, source, destination = branches(world, [], [ALPHABET[0]], [ALPHABET[1]])
    tables = WrittenTables(world)
    state = tables.base(base)
    begun = TableState({**state.metadata, "next-row-id": 1 << 40}, "begun") if is_free else state
    states = state, tables.fork(begun, source), tables.fork(state, destination)
    result = merge_tables(*states, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(result, MergedTable)
    main = tables.write(result)
    rewriting = tables.branch(main).fork("later")
    rewriting.write(Operation("update", 1, 3, "copy"))
    number = state.metadata["next-row-id"].to_bytes(8, "little")
    bounds = [{"key": 2147483540, "value": number}]
    tables.metrics = lambda _: {"lower_bounds": bounds, "upper_bounds": bounds}
    later = tables.fork(main, rewriting)
    tables.metrics = lambda _: {}
    properties = {**states[1].metadata, "properties": {**state.metadata["properties"], "a": "b"}}
    last = TableState(properties, "last")
    back = merge_tables(states[1], later, last, tables.read_file, MergeTerms(FOLDER))
    assert isinstance(back, MergedTable if is_free else TableConflicts)
    if isinstance(back, MergedTable):
        assert multiset(tables.branch(tables.write(back))) == multiset(rewriting)
    else:
        assert [conflict.kind for conflict in back.conflicts] == ["row-ids"]
