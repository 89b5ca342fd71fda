"""The effect of an import on its destinations: how many objects it adds, replaces, removes, and leaves unchanged."""

from collections.abc import Callable

from graveler.model import Totals
from graveler.tree.listing import prefix_end
from graveler.tree.record import identity
from graveler.tree.summary import TotalsCounter, total_between
from graveler.tree.tree import Tree

Compare = Callable[[Tree, Tree], Totals]
"""Returns what turns the first tree's objects at an import's destination into the second tree, all of which lies there."""


def compare_here(destination: bytes, is_prefix: bool) -> Compare:
    """Return a function that compares trees at a destination in this process. Cost: the ranges there that differ and overlap
    others; for one object a block or two."""

    def compare_object(before: Tree, tree: Tree) -> Totals:
        old, new = before.get(destination), tree.get(destination)
        counter = TotalsCounter()
        if old is None or new is None or identity(old) != identity(new):
            counter.add(old, new)
        return counter.totals()

    def compare_prefix(before: Tree, tree: Tree) -> Totals:
        return total_between(before, tree, destination, prefix_end(destination))

    return compare_prefix if is_prefix else compare_object
