"""Common cuts of several trees: between such cuts, each stretch of ranges can be compared or merged by itself."""

from collections.abc import Iterator, Sequence
from typing import Final

from graveler.tree.common_run import equal_contents
from graveler.tree.cursor import Cursor
from graveler.tree.store import ENOUGH, TASK
from graveler.tree.tree import Tree

_COMPARED: Final = 1024
"""Ranges that are compared at once."""
Stretch = list[tuple[int, int]]
"""For each tree, its ranges from the first number up to, not including, the second."""


def worth_sharing(cursors: Sequence[Cursor]) -> bool:
    """Return whether the cursors stand at a common cut, and have read so much that it pays to share the rest."""
    if sum(cursor.records_read for cursor in cursors) < ENOUGH or not all(cursor.at_start for cursor in cursors):
        return False
    store = cursors[0].tree.store
    cuts = {cursor.tree.lasts[cursor.number - 1] if cursor.number else b"" for cursor in cursors}
    return len(cuts) == 1 and all(cursor.tree.store is store for cursor in cursors)


def stretches(trees: Sequence[Tree], numbers: Sequence[int]) -> Iterator[Stretch]:
    """Cut the trees from these ranges on, which begin behind a common cut, into stretches of some :data:`TASK` records to read.
    Ranges that two of the trees have in common need not be read, and count for nothing. 1 µs for each range that not all have."""
    starts, positions = list(numbers), list(numbers)
    work = pending = 0
    aligned = True
    while all(number < len(tree) for number, tree in zip(positions, trees, strict=True)):
        if aligned:
            tree, number = trees[0], positions[0]
            run = _COMPARED  # so that what only some have in common is not looked at again and again
            for other, other_number in zip(trees[1:], positions[1:], strict=True):
                run = equal_contents(tree, number, other, other_number, run)
            if run:
                positions = [number + run for number in positions]
                continue
        lasts = [tree.lasts[number] for number, tree in zip(positions, trees, strict=True)]
        smallest = min(lasts)
        ending = [n for n, last in enumerate(lasts) if last == smallest]
        together = len(ending) == len(trees)
        if not (
            together
            and aligned
            and len({tree.range_id(n) for n, tree in zip(positions, trees, strict=True)}) < len(trees)
        ):
            pending += sum(trees[n].info(positions[n]).count for n in ending)
        for n in ending:
            positions[n] += 1
        aligned = together
        if together:
            work, pending = work + pending, 0
            if work >= TASK:
                yield list(zip(starts, positions, strict=True))
                starts, work = list(positions), 0
    yield [(number, len(tree)) for number, tree in zip(starts, trees, strict=True)]


def cut_out(tree: Tree, ranges: tuple[int, int]) -> Tree:
    """Return some ranges of a tree, as a tree."""
    return Tree(tree.store, tree.lasts[slice(*ranges)], tree.packed[slice(*ranges)])
