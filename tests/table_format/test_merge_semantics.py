"""Merges of the model: the rows of a merge are those of the work done in order, or there is a conflict with a reason.

``GRAVELER_TABLE_MERGES=n`` makes n random merges instead of the short form.
"""

import os
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest

from graveler.model import TableReason
from graveler.table_format.merge_circumstances import Circumstances
from graveler.table_format.merge_decisions import decide
from graveler.table_format.merge_files import SequenceNumbers
from tests.table_format.merge_model import (
    Branch,
    Merge,
    Operation,
    World,
    base_of,
    changes_of,
    in_order,
    merge,
    multiset,
)

MERGES = int(os.environ.get("GRAVELER_TABLE_MERGES", "1500"))

ALPHABET = [
    Operation("append", 0, 1),
    Operation("append", 1, 3),
    *(Operation("delete", 0, 1, way) for way in ("copy", "position", "equality")),
    Operation("delete", 0, 2, "position"),
    *(Operation("update", 0, key, way) for key, way in product((1, 2), ("copy", "position"))),
    Operation("upsert", 0, 1),
    Operation("overwrite", 0, 5),
    Operation("compact", 0),
    Operation("delete", 1, 1, "copy"),
]


def check(base: Branch, source: Branch, destination: Branch, *, isolated: bool = True, remembers: bool = True) -> Merge:
    result = merge(base, source, destination, isolated=isolated, remembers=remembers)
    if result.branch is None:
        for conflict in result.decision.conflicts:
            check_reason(conflict, base, source, destination, remembers=remembers)
    else:
        assert multiset(result.branch) == in_order(destination, source, isolated=isolated), [
            source.work,
            destination.work,
        ]
    return result


def check_reason(conflict: TableReason, base: Branch, source: Branch, destination: Branch, *, remembers: bool) -> None:
    """Check that both sides changed rows of one partition, and that the source removed some or brought back some."""
    steps = (*source.steps, *destination.steps)
    changed = {file.path for step in steps for file in (*step.added.values(), *step.removed.values())}
    assert conflict.files
    assert changed.issuperset(conflict.files)
    if not remembers:
        return  # its compactions count as rewrites
    assert {operation.verb for operation, _ in source.work} - {"append"} or conflict.kind == "position-deletes"
    assert destination.work
    partitions = {operation.partition for operation, _ in source.work} & {
        operation.partition for operation, _ in destination.work
    }
    assert partitions or not base.world.partitioned, conflict


def branches(
    world: World, before: list[Operation], source: list[Operation], destination: list[Operation]
) -> list[Branch]:
    base = base_of(world, before)
    sides = [base.fork("source"), base.fork("destination")]
    for side, operations in zip(sides, (source, destination), strict=True):
        for operation in operations:
            side.write(operation)
    return [base, *sides]


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("isolated", [False, True])
def test_each_pair_of_operations_merges_as_done_in_order_or_conflicts(vectors: bool, isolated: bool) -> None:
    outcomes = {True: 0, False: 0}
    for source, destination in product(ALPHABET, repeat=2):
        world = World(vectors=vectors)
        result = check(*branches(world, [], [source], [destination]), isolated=isolated)
        outcomes[result.branch is None] += 1
    assert min(outcomes.values()) > len(ALPHABET)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
def test_random_histories_merge_as_done_in_order_or_conflict(partitioned: bool, vectors: bool) -> None:
    for seed in range(MERGES // 4):
        random = Random(f"{seed}-{partitioned}-{vectors}")
        world = World(partitioned=partitioned, vectors=vectors)
        histories = [random.choices(ALPHABET, k=random.randint(low, high)) for low, high in ((0, 2), (1, 3), (1, 3))]
        base, source, destination = branches(world, *histories)
        check(base, source, destination, isolated=random.random() < 0.5, remembers=random.random() < 0.8)


def by_rows(base: Branch, source: Branch, destination: Branch) -> Counter[tuple[Any, ...]]:
    """Return the destination's rows without those that the source removed, with those that it added."""
    before, after = multiset(base), multiset(source)
    return multiset(destination) - (before - after) + (after - before)


@pytest.mark.parametrize("vectors", [False, True])
def test_later_merges_of_one_branch_and_reverts_merge_by_rows_or_conflict(vectors: bool) -> None:
    merged = 0
    for seed in range(MERGES // 2):
        random = Random(f"later-{seed}-{vectors}")
        histories = [random.choices(ALPHABET, k=random.randint(low, high)) for low, high in ((0, 1), (1, 2), (0, 2))]
        base, source, destination = branches(World(vectors=vectors), *histories)
        head = merge(base, source, destination).branch
        if head is None:
            continue
        for operation in random.choices(ALPHABET, k=random.randint(0, 2)):
            head.write(operation)
        later = source.fork("source")
        for operation in random.choices(ALPHABET, k=random.randint(1, 2)):
            later.write(operation)
        for states in ((source, later, head), (source, head, later), (source, base, head), (source, base, later)):
            result = merge(*states)
            if result.branch is not None:
                merged += 1
                assert multiset(result.branch) == by_rows(*states), [histories, later.work, head.work]
    assert merged > MERGES // 8


def test_positions_that_cannot_be_read_are_a_conflict_that_says_what_is_missing() -> None:
    base, source, destination = branches(
        World(partitioned=False),
        [],
        [Operation("delete", 0, 1, "position"), Operation("append", 0, 3)],
        [Operation("delete", 0, 1, "position")],
    )
    changes = [changes_of(side, base) for side in (source, destination)]
    numbers = SequenceNumbers(base.last, source.last, destination.last)
    terms = Circumstances(False, base.last, numbers.of_added, lambda _: None, str, missing_reader="install it")
    conflicts = decide(changes[0], changes[1], terms).conflicts
    assert [conflict.kind for conflict in conflicts] == ["position-deletes"]
    assert "may have rows in common (install it)" in conflicts[0].sentence


def test_a_merge_back_does_not_delete_rows_that_were_newer_than_the_delete() -> None:
    append, delete = Operation("append", 0, 1), Operation("delete", 0, 1, "equality")
    base, source, destination = branches(World(), [], [append, append], [delete, Operation("upsert", 0, 1)])
    merged = merge(base, source, destination).branch
    assert merged is not None
    later = source.fork("source")
    later.write(Operation("append", 1, 3))
    conflicts = merge(source, merged, later).decision.conflicts
    assert {conflict.kind for conflict in conflicts} == {"equality-deletes"}
    assert all("an earlier merge changed" in conflict.sentence for conflict in conflicts)


@pytest.mark.parametrize("vectors", [False, True])
def test_a_row_that_the_destination_deleted_is_not_replaced_by_the_source(*, vectors: bool) -> None:
    """By its files, an update that deletes by values is an insertion of rows that may not have been there."""
    states = branches(World(vectors=vectors), [], [Operation("upsert", 0, 1)], [Operation("delete", 0, 1, "position")])
    conflicts = merge(*states, isolated=False).decision.conflicts
    assert [conflict.kind for conflict in conflicts] == ["equality-deletes"]
