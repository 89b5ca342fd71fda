"""Merges of sides that have work in common without a common commit, after a squash merge or a cherry-pick."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from graveler.errors import InvalidError, NotFoundError
from graveler.table_format.live_files import DATA, EQUALITY_DELETES, LiveFile
from graveler.table_format.merge_circumstances import Circumstances
from graveler.table_format.merge_decisions import Decision, decide
from graveler.table_format.merge_files import SequenceNumbers, merged_files
from graveler.table_format.merge_results import (
    MergedTable,
    MergeResult,
    MergeTerms,
    SideTaken,
    TableConflicts,
    TableState,
)
from graveler.table_format.merge_sides import Compaction, SideChanges
from graveler.table_format.merge_tables import merge_tables
from graveler.table_format.table_metadata import encode_metadata
from graveler.table_format.table_updates import apply_table_updates
from tests.table_format.iceberg_branches import Branches, Work, path_of, rows_of

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "amount", LongType()))
UNCHANGED: tuple[Work, ...] = ()
_HISTORY = "snapshots", "snapshot-log"


@pytest.fixture
def branches(tmp_path: Path) -> Branches:
    return Branches(tmp_path)


def append(*ids: int) -> Work:
    rows = pa.Table.from_pylist([{"id": number, "amount": number} for number in ids], SCHEMA.as_arrow())
    return lambda table: table.append(rows)


def delete(number: int) -> Work:
    return lambda table: table.delete(f"id == {number}")


def update(number: int) -> Work:
    row = pa.Table.from_pylist([{"id": number, "amount": -number}], SCHEMA.as_arrow())

    def work(table: Table) -> None:
        table.overwrite(row, f"id == {number}")

    return work


def amounts(state: TableState) -> dict[int, int]:
    rows = rows_of(state)
    assert len({row["id"] for row in rows}) == len(rows), "a row is doubled"
    return {row["id"]: row["amount"] for row in rows}


def brought(branches: Branches, base: TableState, source: TableState, destination: TableState) -> TableState:
    """Return the destination with the work of the source since the base, as a squash merge or a cherry-pick leaves it."""
    result = branches.merge(base, source, destination, isolation="snapshot", is_detached=True)
    return branches.write(result) if isinstance(result, MergedTable) else source


def merge(branches: Branches, *states: TableState) -> MergeResult:
    return branches.merge(*states, isolation="snapshot")


@pytest.mark.parametrize("between", [UNCHANGED, (append(7),)], ids=["alone", "beside another append"])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("work", "opposite_work", "expected"),
    [
        ((update(2),), (append(9),), {2: -2, 3: 3, 9: 9}),
        ((append(4),), (delete(2),), {3: 3, 4: 4}),
        ((delete(2),), UNCHANGED, {3: 3}),
        ((delete(2), append(2)), (append(9),), {2: 2, 3: 3, 9: 9}),
    ],
    ids=["update", "append", "delete", "anew"],
)
def test_work_after_a_squash_merge_is_merged_as_after_a_merge(
    branches: Branches,
    between: tuple[Work, ...],
    is_reversed: bool,
    work: tuple[Work, ...],
    opposite_work: tuple[Work, ...],
    expected: dict[int, int],
) -> None:
    base = branches.create(SCHEMA, append(1))
    source = branches.fork(base, append(2, 3))
    squashed = brought(branches, base, source, branches.fork(base, *between) if between else base)
    sides = branches.fork(source, *work), branches.fork(squashed, *opposite_work) if opposite_work else squashed
    result = merge(branches, base, *(reversed(sides) if is_reversed else sides))
    if isinstance(result, SideTaken):
        assert result.state is not None
        merged = result.state
    else:
        assert isinstance(result, MergedTable), result
        merged = branches.write(result)
    assert amounts(merged) == {1: 1, **({7: 7} if between else {}), **expected}


@pytest.mark.parametrize("between", [UNCHANGED, (append(7),)], ids=["alone", "beside another append"])
def test_work_that_was_reverted_after_a_squash_merge_is_brought_again(
    branches: Branches, between: tuple[Work, ...]
) -> None:
    base = branches.create(SCHEMA, append(1))
    source, before = branches.fork(base, append(2, 3)), branches.fork(base, *between) if between else base
    squashed = brought(branches, base, source, before)
    reverted = brought(branches, squashed, before, branches.fork(squashed, append(9)))
    rest = {1: 1, 9: 9, **({7: 7} if between else {})}
    assert amounts(reverted) == rest
    _, merged = branches.merged(base, branches.fork(source, update(2)), reverted, isolation="snapshot")
    assert amounts(merged) == rest | {2: -2, 3: 3}


def test_several_squash_merges_of_one_branch(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    source, destination = base, branches.fork(base, append(7))
    for number in range(20, 23):
        source = branches.fork(source, append(number), update(number))
        destination = branches.fork(brought(branches, base, source, destination), append(number + 10))
    source = branches.fork(source, update(20), delete(21))
    _, merged = branches.merged(base, source, destination, isolation="snapshot")
    assert amounts(merged) == {1: 1, 7: 7, 20: -20, 22: -22, 30: 30, 31: 31, 32: 32}


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("changes_source", [False, True])
@pytest.mark.parametrize("change", [update(3), delete(3)], ids=["update", "delete"])
def test_a_file_of_a_cherry_pick_that_one_side_changed_is_a_conflict(
    branches: Branches, change: Work, changes_source: bool, is_reversed: bool
) -> None:
    base = branches.create(SCHEMA, append(1))
    parent = branches.fork(base, append(2))
    picked = branches.fork(parent, append(3))
    main = brought(branches, parent, picked, branches.fork(base, append(7)))
    assert amounts(main) == {1: 1, 3: 3, 7: 7}
    source = branches.fork(picked, change if changes_source else append(4))
    destination = branches.fork(main, append(8) if changes_source else change)
    result = merge(branches, base, *((destination, source) if is_reversed else (source, destination)))
    assert isinstance(result, TableConflicts), result
    (reason,) = result.conflicts
    assert reason.kind == "file"
    assert "both sides have had 1 file of an earlier squash merge, cherry-pick or revert" in reason.sentence
    assert reason.source_rows + reason.destination_rows == 1


@pytest.mark.parametrize("is_detached", [False, True])
def test_a_branch_that_one_side_merged_is_no_cherry_pick(branches: Branches, is_detached: bool) -> None:
    base = branches.create(SCHEMA, append(1))
    sides = branches.fork(base, append(2)), branches.fork(base, append(7))
    _, main = branches.merged(base, *sides, isolation="snapshot", is_detached=is_detached)
    _, merged = branches.merged(base, main, branches.fork(base, append(9)), isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: 2, 7: 7, 9: 9}


def test_a_cherry_picked_file_that_nobody_changed_is_in_the_result_once(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    parent = branches.fork(base, append(2))
    picked = branches.fork(parent, append(3))
    main = brought(branches, parent, picked, branches.fork(base, append(7)))
    sides = branches.fork(picked, append(4)), branches.fork(main, append(8))
    _, merged = branches.merged(base, *sides, isolation="snapshot")
    assert amounts(merged) == {number: number for number in (1, 2, 3, 4, 7, 8)}


@pytest.mark.parametrize(("number", "is_refused"), [(3, True), (9, False)], ids=["newer than it", "older than it"])
def test_a_delete_by_values_that_is_newer_than_a_common_file_only_in_the_result_is_a_conflict(
    number: int, is_refused: bool
) -> None:
    partition = ((((1,), "identity"), 0),)
    delete = LiveFile("delete", EQUALITY_DELETES, partition, 1, sequence=2, snapshot_id=2)
    common = LiveFile("data", DATA, partition, 1, sequence=3, snapshot_id=3)
    picked = LiveFile("data", DATA, partition, 1, sequence=number, snapshot_id=4)
    source = SideChanges({file.key: file for file in (delete, common)}, {})
    destination = SideChanges({picked.key: picked}, {})
    numbers = SequenceNumbers(base=1, source=3, destination=3)
    terms = Circumstances(False, 1, numbers.of_added, lambda _: None, str)
    kinds = [conflict.kind for conflict in decide(source, destination, terms).conflicts]
    assert kinds == (["equality-deletes"] if is_refused else [])


def test_a_file_of_a_left_out_compaction_stays_if_the_source_has_it() -> None:
    """The source's snapshots have expired, so its compaction counts as a rewrite, and the destination's is left out."""
    before, after = (LiveFile(path, DATA, (), 2, sequence=1, snapshot_id=1) for path in ("before", "after"))
    source = SideChanges({after.key: after}, {before.key: before})
    destination = SideChanges({}, {}, (Compaction(5, {after.key: after}, {before.key: before}),))
    assert not merged_files(source, destination, Decision(()))


@pytest.mark.parametrize("is_reversed", [False, True])
def test_files_of_a_left_out_compaction_that_the_opposite_side_has_are_a_conflict(is_reversed: bool) -> None:
    """The opposite side brought the compaction by a cherry-pick; it has rows that the compacting side had added."""
    before, added, after = (
        LiveFile(path, DATA, (), 2, sequence=1, snapshot_id=1) for path in ("before", "new", "after")
    )
    compaction = Compaction(5, {after.key: after}, {before.key: before, added.key: added})
    compacted = SideChanges({added.key: added}, {}, (compaction,))
    opposite = SideChanges({after.key: after}, {before.key: before})
    terms = Circumstances(False, 1, SequenceNumbers(1, 2, 2).of_added, lambda _: None, str)
    sides = (compacted, opposite) if is_reversed else (opposite, compacted)
    (conflict,) = decide(*sides, terms).conflicts
    assert (conflict.kind, conflict.files) == ("file", ("after",))


def test_a_row_that_was_moved_by_its_value_and_deleted_at_the_destination_is_a_conflict() -> None:
    partitions = [((((1,), "identity"), value),) for value in (0, 1)]
    deletes = [
        LiveFile(path, EQUALITY_DELETES, partitions[0], 1, sequence=2, snapshot_id=2)
        for path in ("source", "destination")
    ]
    moved = LiveFile("moved", DATA, partitions[1], 1, sequence=2, snapshot_id=2)
    source = SideChanges({file.key: file for file in (deletes[0], moved)}, {})
    destination = SideChanges({deletes[1].key: deletes[1]}, {})
    terms = Circumstances(False, 1, SequenceNumbers(1, 2, 2).of_added, lambda _: None, str)
    assert [conflict.kind for conflict in decide(source, destination, terms).conflicts] == ["equality-deletes"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_state_that_lacks_the_work_of_the_base_is_not_common(branches: Branches, is_reversed: bool) -> None:
    """Both sides merged one branch, and had a snapshot in common before."""
    first = branches.create(SCHEMA, append(1))
    dev = branches.fork(first, append(2), append(3))
    fork = branches.fork(first, append(8))
    main = merged_regularly(branches, first, dev, fork)
    release = merged_regularly(branches, first, dev, branches.fork(fork, append(9)))
    sides = branches.fork(main, update(2), delete(3)), branches.fork(release, append(6))
    _, merged = branches.merged(dev, *(reversed(sides) if is_reversed else sides), isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: -2, 6: 6, 8: 8, 9: 9}


def merged_regularly(branches: Branches, *states: TableState) -> TableState:
    """Return the destination with the source, by a merge that leaves a common commit."""
    return branches.merged(*states, isolation="snapshot")[1]


@pytest.mark.parametrize("works", [(update(3), update(3)), (delete(3), update(3)), (update(3), delete(3))])
def test_a_cherry_picked_file_that_both_sides_rewrote_is_a_conflict(
    branches: Branches, works: tuple[Work, Work]
) -> None:
    base = branches.create(SCHEMA, append(1))
    parent = branches.fork(base, append(2))
    picked = branches.fork(parent, append(3))
    main = brought(branches, parent, picked, branches.fork(base, append(7)))
    result = merge(branches, base, branches.fork(picked, works[0]), branches.fork(main, works[1]))
    assert isinstance(result, TableConflicts), result
    assert "both sides have had 1 file" in result.conflicts[0].sentence


def test_a_cherry_picked_file_that_both_sides_deleted_is_gone(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    parent = branches.fork(base, append(2))
    picked = branches.fork(parent, append(3))
    main = brought(branches, parent, picked, branches.fork(base, append(7)))
    _, merged = branches.merged(base, branches.fork(picked, delete(3)), branches.fork(main, delete(3)))
    assert amounts(merged) == {1: 1, 2: 2, 7: 7}


def test_a_part_of_what_was_squashed_is_common(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    part = branches.fork(base, append(6, 7))
    main = brought(branches, base, branches.fork(part, update(6), delete(7)), branches.fork(base, append(8)))
    _, merged = branches.merged(base, branches.fork(part, append(9)), main, isolation="snapshot")
    assert amounts(merged) == {1: 1, 6: -6, 8: 8, 9: 9}


@pytest.mark.parametrize("is_detached", [False, True])
def test_a_part_of_what_was_merged_is_not_picked_again(branches: Branches, is_detached: bool) -> None:
    base = branches.create(SCHEMA, append(1))
    part = branches.fork(base, append(6))
    sides = branches.fork(part, update(6)), branches.fork(base, append(8))
    _, main = branches.merged(base, *sides, isolation="snapshot", is_detached=is_detached)
    result = merge(branches, base, part, main)
    assert isinstance(result, SideTaken)
    assert result.state == main


def test_a_row_that_two_reverts_brought_back_and_one_side_changed_is_a_conflict(branches: Branches) -> None:
    before = branches.create(SCHEMA, append(1, 2))
    wrong = branches.fork(before, delete(2))
    main = branches.fork(brought(branches, wrong, before, branches.fork(wrong, append(8))), update(2))
    assert amounts(main) == {1: 1, 2: -2, 8: 8}
    result = merge(branches, wrong, before, main)
    assert isinstance(result, TableConflicts), result


@pytest.mark.parametrize("between", [UNCHANGED, (append(9),)], ids=["at once", "later"])
def test_a_squash_merge_that_was_reverted_may_be_done_again(branches: Branches, between: tuple[Work, ...]) -> None:
    base = branches.create(SCHEMA, append(1))
    source, before = branches.fork(base, append(2)), branches.fork(base, append(7))
    squashed = brought(branches, base, source, before)
    reverted = brought(branches, squashed, before, branches.fork(squashed, *between) if between else squashed)
    again = brought(branches, base, source, reverted)
    _, merged = branches.merged(base, branches.fork(source, update(2)), again, isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: -2, 7: 7, **({9: 9} if between else {})}


@pytest.mark.parametrize("work", [append(3), update(2)], ids=["append", "update"])
@pytest.mark.parametrize("is_detached", [False, True])
def test_a_squash_merge_onto_work_that_was_taken_as_it_was_is_no_revert(
    branches: Branches, work: Work, is_detached: bool
) -> None:
    """The snapshot that both sides have is one of the destination's own line, as that of a revert."""
    base = branches.create(SCHEMA, append(1))
    main = branches.fork(base, append(2))
    source, destination = branches.fork(main, work), branches.fork(main, append(7), update(1))
    result = branches.merge(base, source, destination, isolation="snapshot", is_detached=is_detached)
    assert isinstance(result, MergedTable), result
    again = branches.merge(base, source, branches.write(result), isolation="snapshot")
    assert isinstance(again, SideTaken), again
    last = branches.fork(source, append(4))
    _, merged = branches.merged(base, last, branches.fork(branches.write(result), update(2)), isolation="snapshot")
    assert amounts(merged)[4] == 4


def both_ways(branches: Branches) -> tuple[TableState, TableState, TableState, TableState]:
    """Return a base, a state with row 6 and the states of two sides, each of which squashed the work of the other one. Row 6 was
    changed before."""
    base = branches.create(SCHEMA, append(1))
    part = branches.fork(base, append(6))
    dev, main = branches.fork(part, update(6)), branches.fork(base, append(8))
    dev = brought(branches, base, main, dev)
    return base, part, dev, brought(branches, base, dev, main)


def test_a_part_of_what_was_squashed_both_ways_is_not_picked_again(branches: Branches) -> None:
    base, part, _, main = both_ways(branches)
    main = branches.fork(main, append(9))
    result = merge(branches, base, part, main)
    assert isinstance(result, SideTaken), result
    assert result.state == main


@pytest.mark.parametrize("works", [(update(8), append(9)), (append(9), update(8)), (delete(6), append(9))])
def test_squash_merges_both_ways_have_the_work_of_both_in_common(branches: Branches, works: tuple[Work, Work]) -> None:
    base, _, dev, main = both_ways(branches)
    _, merged = branches.merged(base, branches.fork(dev, works[0]), branches.fork(main, works[1]), isolation="snapshot")
    present = amounts(merged)
    assert present in ({1: 1, 6: -6, 8: -8, 9: 9}, {1: 1, 8: 8, 9: 9})


def test_work_that_came_by_a_third_branch_is_not_merged_again(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    dev, third = branches.fork(base, append(6)), branches.fork(base, append(7))
    third = branches.fork(brought(branches, base, dev, third), update(6))
    main = brought(branches, base, third, branches.fork(base, append(8)))
    _, merged = branches.merged(base, branches.fork(dev, append(9)), main, isolation="snapshot")
    assert amounts(merged) == {1: 1, 6: -6, 7: 7, 8: 8, 9: 9}


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("work", [update(3), append(4)], ids=["conflict", "both"])
def test_a_snapshot_of_both_sides_is_common_though_one_of_them_expired_it(
    branches: Branches, work: Work, is_reversed: bool
) -> None:
    base = branches.create(SCHEMA, append(1))
    part = branches.fork(base, append(2, 3))
    sides = expired(branches, branches.fork(part, delete(2))), branches.fork(part, work)
    result = merge(branches, base, *(reversed(sides) if is_reversed else sides))
    if isinstance(result, MergedTable):
        assert amounts(branches.write(result)) == {1: 1, 3: 3, 4: 4}
    else:
        assert isinstance(result, TableConflicts), result
        assert "both sides removed 1 file" in result.conflicts[0].sentence


def expired(branches: Branches, state: TableState) -> TableState:
    """Return a state without snapshots but its current one, as Iceberg's ``expire_snapshots`` leaves it."""
    number = state.metadata["current-snapshot-id"]
    parts = {name: [part for part in state.metadata[name] if part["snapshot-id"] == number] for name in _HISTORY}
    location = f"{state.location}.expired.json"
    path_of(location).write_bytes(encode_metadata({**state.metadata, **parts}))
    return branches.state(location)


def test_a_table_that_was_taken_after_a_merge_of_the_base_is_common(branches: Branches) -> None:
    """The line of both sides begins before the base, which one side merged, and the other took over."""
    first = branches.create(SCHEMA, append(1))
    main = branches.fork(first, append(8))
    dev = branches.fork(merged_regularly(branches, first, main, branches.fork(first, append(2))), append(3))
    successor = branches.fork(dev, delete(2))
    _, merged = branches.merged(main, successor, branches.fork(dev, append(9)), isolation="snapshot")
    assert amounts(merged) == {1: 1, 3: 3, 8: 8, 9: 9}


def test_a_later_part_of_what_was_squashed_is_not_picked_again(branches: Branches) -> None:
    """The snapshot before the part is one since which the squash merge brought all, and not the one at which it began."""
    base = branches.create(SCHEMA, append(1))
    former = branches.fork(base, append(5))
    part = branches.fork(former, append(6))
    main = brought(branches, base, branches.fork(part, update(6)), branches.fork(base, append(8)))
    result = merge(branches, former, part, main)
    assert isinstance(result, SideTaken), result
    assert result.state == main


def test_a_delete_that_one_side_reverted_after_squash_merges_is_taken_back(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    part = branches.fork(base, append(2, 6))
    wrong = branches.fork(part, delete(6))
    dev = brought(branches, part, base, branches.fork(part, append(3)))  # a revert
    main = brought(branches, base, dev, wrong)
    dev = brought(branches, base, main, dev)
    assert amounts(main) == amounts(dev) == {1: 1, 2: 2, 3: 3}
    sides = brought(branches, wrong, part, main), branches.fork(dev, append(9))
    _, merged = branches.merged(base, *sides, isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: 2, 3: 3, 6: 6, 9: 9}


@pytest.mark.parametrize("third_work", [delete(6), update(6)], ids=["removed", "rewritten"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_work_of_a_third_branch_that_it_changed_between_two_squash_merges_is_a_conflict(
    branches: Branches, is_reversed: bool, third_work: Work
) -> None:
    base = branches.create(SCHEMA, append(1))
    third = branches.fork(base, append(5, 6))
    early = brought(branches, base, third, branches.fork(base, append(7)))
    late = brought(branches, base, branches.fork(third, third_work), branches.fork(base, append(8)))
    result = merge(branches, base, *((early, late) if is_reversed else (late, early)))
    assert isinstance(result, TableConflicts), result
    assert "both sides have had 1 file" in result.conflicts[0].sentence


def expired_by_the_catalog(branches: Branches, state: TableState) -> TableState:
    """Return a state whose snapshots but the current one a catalog of ours has removed."""
    number = state.metadata["current-snapshot-id"]
    removed = [part["snapshot-id"] for part in state.metadata["snapshots"] if part["snapshot-id"] != number]
    removal = {"action": "remove-snapshots", "snapshot-ids": removed}
    metadata = apply_table_updates(state.metadata, [removal], time_ms=state.metadata["last-updated-ms"])
    location = f"{state.location}.expired.json"
    path_of(location).write_bytes(encode_metadata(metadata))
    return branches.state(location)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("work", "opposite_work", "expected"),
    [
        (append(4), append(9), {2: 2, 3: 3, 4: 4, 7: 7, 9: 9}),
        (update(2), append(9), {2: -2, 3: 3, 7: 7, 9: 9}),
        (append(4), update(2), {2: -2, 3: 3, 4: 4, 7: 7}),
        (delete(2), append(9), {3: 3, 7: 7, 9: 9}),
        (update(2), update(7), {2: -2, 3: 3, 7: -7}),
        (update(2), update(3), {2: -2, 3: -3, 7: 7}),
    ],
    ids=["appends", "update", "update of what was brought", "delete", "updates", "updates of one file"],
)
@pytest.mark.parametrize("expires", [(False, True), (True, False), (True, True)], ids=["destination", "source", "both"])
def test_work_after_a_squash_merge_that_has_expired_is_merged_once_or_refused(
    branches: Branches,
    expires: tuple[bool, bool],
    work: Work,
    opposite_work: Work,
    expected: dict[int, int],
    is_reversed: bool,
) -> None:
    base = branches.create(SCHEMA, append(1))
    source = branches.fork(base, append(2, 3))
    squashed = brought(branches, base, source, branches.fork(base, append(7)))
    sides = [branches.fork(source, work), branches.fork(squashed, opposite_work)]
    sides = [
        expired_by_the_catalog(branches, side) if expired else side
        for side, expired in zip(sides, expires, strict=True)
    ]
    result = merge(branches, base, *(reversed(sides) if is_reversed else sides))
    if isinstance(result, MergedTable):
        assert amounts(branches.write(result)) == {1: 1, **expected}
    else:
        assert isinstance(result, TableConflicts), result
        assert 4 not in expected or 9 not in expected, "two appends merge"
        assert "earlier squash merge" in result.conflicts[0].sentence


def test_snapshots_of_one_side_that_expired_after_a_squash_merge_from_elsewhere_do_not_matter(
    branches: Branches,
) -> None:
    base = branches.create(SCHEMA, append(1))
    main = brought(branches, base, branches.fork(base, append(6)), branches.fork(base, append(7)))
    dev = expired_by_the_catalog(branches, branches.fork(base, append(2), update(2)))
    _, merged = branches.merged(base, dev, main, isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: -2, 6: 6, 7: 7}


def test_a_squash_merge_that_was_reverted_has_expired_with_its_revert(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    source, before = branches.fork(base, append(2, 3)), branches.fork(base, append(7))
    squashed = brought(branches, base, source, before)
    reverted = branches.fork(brought(branches, squashed, before, branches.fork(squashed, append(9))), append(8))
    main = expired_by_the_catalog(branches, reverted)
    _, merged = branches.merged(base, branches.fork(source, update(2)), main, isolation="snapshot")
    assert amounts(merged) == {1: 1, 2: -2, 3: 3, 7: 7, 8: 8, 9: 9}


def test_a_merge_has_the_notes_of_both_sides(branches: Branches) -> None:
    base = branches.create(SCHEMA, append(1))
    sides = [branches.fork(base, append(number), append(number + 1)) for number in (2, 4)]
    removed = [side.metadata["snapshots"][-2]["snapshot-id"] for side in sides]
    expired_sides = [expired_by_the_catalog(branches, side) for side in sides]
    _, merged = branches.merged(base, *expired_sides, isolation="snapshot")
    notes = [note["snapshot-id"] for note in merged.metadata["graveler.expired-snapshots"]]
    assert notes == [base.metadata["current-snapshot-id"], removed[1], removed[0]]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("is_detached", [False, True])
@pytest.mark.parametrize(("work", "rows"), [(update(3), {2: 2, 3: -3}), (delete(3), {2: 2})], ids=["update", "delete"])
def test_a_state_with_a_revert_that_one_side_took_as_it_was_is_common(
    branches: Branches, work: Work, rows: dict[int, int], is_detached: bool, is_reversed: bool
) -> None:
    first = branches.create(SCHEMA, append(1), append(2))
    before = branches.fork(first, append(3))
    wrong = branches.fork(before, append(6))
    main = branches.fork(first, delete(1))
    dev = branches.merged(first, main, wrong, isolation="snapshot", is_detached=is_detached)[1]
    dev = brought(branches, wrong, before, dev)
    squashed = brought(branches, main, dev, main)
    assert squashed == dev
    changed = branches.fork(dev, work)
    for side, appended in ((squashed, {}), (branches.fork(squashed, append(9)), {9: 9})):
        sides = (changed, side) if is_reversed else (side, changed)
        result = merge(branches, main, *sides)
        assert not isinstance(result, TableConflicts), result
        merged = branches.write(result) if isinstance(result, MergedTable) else result.state
        assert merged is not None
        assert amounts(merged) == rows | appended


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("work", [update(5), delete(5)], ids=["update", "delete"])
@pytest.mark.parametrize("reverts_at_once", [False, True])
def test_a_row_that_one_side_changed_and_took_as_it_was_before_is_a_conflict_after_a_revert(
    branches: Branches, work: Work, reverts_at_once: bool, is_reversed: bool
) -> None:
    base = branches.create(SCHEMA, append(1))
    before = branches.fork(base, append(5))
    wrong = branches.fork(before, append(7))
    main = brought(branches, base, wrong, base)
    assert main == wrong
    dev = branches.fork(wrong, append(8))
    dev = dev if reverts_at_once else branches.fork(dev, work)
    dev = brought(branches, wrong, before, dev)
    dev = branches.fork(dev, work) if reverts_at_once else dev
    result = merge(branches, base, *((main, dev) if is_reversed else (dev, main)))
    assert isinstance(result, TableConflicts), result


@pytest.mark.parametrize(
    ("between", "rows"),
    [
        (UNCHANGED, {1: 1, 2: 2, 9: 9}),
        ((append(7),), {1: 1, 2: 2, 7: 7, 9: 9}),
        ((delete(9),), {1: 1, 2: 2}),
        ((delete(2),), {1: 1, 2: 2, 9: 9}),
    ],
    ids=["at once", "append", "delete of another row", "delete of its row"],
)
def test_a_commit_that_was_reverted_may_be_picked_again(
    branches: Branches, between: tuple[Work, ...], rows: dict[int, int]
) -> None:
    before = branches.create(SCHEMA, append(9))
    commit = branches.fork(before, append(1, 2))
    main = branches.fork(commit, *between) if between else commit
    again = brought(branches, before, commit, brought(branches, commit, before, main))
    assert amounts(again) == rows


@pytest.mark.parametrize("error", [NotFoundError, InvalidError], ids=["gone", "outside"])
def test_a_new_table_whose_earlier_metadata_cannot_be_read_is_merged_by_its_rows(
    branches: Branches, error: type[Exception]
) -> None:
    """Metadata that both sides registered may lie outside of the table's folder."""
    before = branches.create(SCHEMA, append(1))
    sides = branches.fork(before, append(2)), branches.fork(before, append(3))

    refused = []

    def read_file(location: str) -> bytes:
        if location == before.location:
            refused.append(location)
            raise error(location)
        return branches.read_file(location)

    result = merge_tables(None, *sides, read_file, MergeTerms(branches.folder, isolation="snapshot"))
    assert isinstance(result, MergedTable), result
    assert amounts(branches.write(result)) == {1: 1, 2: 2, 3: 3}
    assert refused == [before.location]
