"""The division of an operation's work: its sizes, its bounds, and the interface of each kind of work to
:class:`graveler.operations.parts.rounds.Rounds`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from graveler.lake.committing.partial_result import part_name
from graveler.model import Commit, PartialResult
from graveler.operations.parts.part_files import PartResult, Plan, PlannedPart
from graveler.system.progress import ObjectProgress
from graveler.tree.parts import Piece, Point, cut, cut_at, cut_behind
from graveler.tree.tree import Tree, Trees


class AnotherRoundError(Exception):
    """The branch has another head or other changes than the plan assumed, or there is more to commit: plan again. For this
    package only."""


class Sizes(msgspec.Struct, frozen=True):
    """The limits on dividing work: into parts that read ``records`` each, at most ``parts``. The publishing step reads up to
    ``in_place`` records to follow a branch that has moved meanwhile; beyond that there is another round."""

    records: int = 500_000
    parts: int = 1_000
    in_place: int = 5_000_000


Results = Callable[[], Sequence[PartResult]]
"""Returns the results of all parts of a plan, in order."""


class PartedWork(Protocol):
    """The work of one operation, of one kind."""

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """Plan where to divide, on the branch's current head; ``before`` is the plan of the previous round, if there was one."""
        ...

    def run(self, plan: Plan, number: int, progress: ObjectProgress) -> PartResult:
        """Work on a part."""
        ...

    def publish(self, plan: Plan, results: Results, sizes: Sizes) -> Commit:
        """Publish the results of the parts; if the branch has moved a little, on its current head.
        :class:`AnotherRoundError`."""
        ...

    def keeping(self) -> AbstractContextManager[None]:
        """Keep this operation's claim on what others wait for, while the body works on a part."""
        ...

    def give_up(self) -> None:
        """Release what others wait for."""
        ...


def planned(
    terms: bytes,
    trees: Sequence[Tree],
    points: Sequence[Point],
    sizes: Sizes,
    before: Plan | None,
    begun: PartialResult | None = None,
) -> tuple[PlannedPart, ...]:
    """Return parts of similar work. They have the bounds of the round ``before``, if there was one, so that unchanged parts are
    already done. If a call had ``begun`` on these trees, its result is the first part. ``terms`` is everything that a part
    depends on besides the trees."""
    if before is None:
        if begun is not None and begun.part == part_name(terms, trees, (None, begun.upto)):
            pieces = cut_behind(begun.upto, points, sizes.parts, sizes.records)
        else:
            pieces = cut(points, sizes.parts, sizes.records)
    else:
        pieces = cut_at(points, [end for part in before.parts if (end := part.interval[1]) is not None])
    return tuple(_part(terms, trees, piece) for piece in pieces)


def _part(terms: bytes, trees: Sequence[Tree], piece: Piece) -> PlannedPart:
    return PlannedPart(piece.interval, piece.load, part_name(terms, trees, piece.interval))


def begun_result(trees: Trees, begun: PartialResult | None, part: PlannedPart) -> PartResult | None:
    """Return the result of the part that the original call had already built. One object read."""
    if begun is None or part.name != begun.part:
        return None
    tree = trees.load(begun.tree)
    return PartResult(tree.lasts, tree.packed, (), part.load.records, part.load.bytes)
