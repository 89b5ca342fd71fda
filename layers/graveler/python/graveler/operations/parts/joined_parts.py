"""The joined results of the parts, and their update for a head to which the branch has moved meanwhile (promise C6)."""

from collections.abc import Callable, Sequence

from graveler.model import SplitParameters
from graveler.operations.parts.division import AnotherRoundError
from graveler.tree.apply import Interval
from graveler.tree.parts import changed_intervals, load_in, with_replaced_intervals
from graveler.tree.tree import Tree


class Joined:
    """The tree that parts made of ``trees``: those of the head that was planned on, and others. For one step, which may find the
    branch at several heads, one after the other."""

    def __init__(self, trees: Sequence[Tree], joined: Tree, limit: int) -> None:
        self._trees = trees
        self._made = joined
        self._limit = limit

    def on(self, trees: Sequence[Tree], split: SplitParameters, make: Callable[[Interval], Tree]) -> Tree:
        """Return the tree that the parts would have made of these trees. Where all trees are unchanged, the joined tree stays;
        ``make`` builds the rest, by intervals.

        Nothing is opened where they are the same. Otherwise the ranges of these trees in the intervals that differ, and some
        at their seams. :class:`AnotherRoundError` if these ranges have more records than the limit: then it is work for
        parts again.
        """
        anew = changed_intervals(zip(self._trees, trees, strict=True))
        if anew:
            if load_in(trees, anew).records > self._limit:
                raise AnotherRoundError
            self._made = with_replaced_intervals(self._made, anew, make, split, trees)
        self._trees = trees
        return self._made
