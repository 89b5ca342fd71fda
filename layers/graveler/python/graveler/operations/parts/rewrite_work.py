"""Rewriting in parts: each part splits an interval of the head's ranges again, by other split parameters."""

from bisect import bisect_right
from contextlib import AbstractContextManager

import msgspec

from graveler.lake.committing.landing import Draft, Landing, give_back_turn, keeping_turn, land, look_at_head
from graveler.lake.committing.publish import commit_of_request
from graveler.lake.committing.resplit import recut
from graveler.lake.committing.rewrite import expect_other_split, rewrite_draft
from graveler.lake.deadline import Deadline
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, SplitParameters
from graveler.operations.parts.division import Results, Sizes, planned
from graveler.operations.parts.joined_parts import Joined
from graveler.operations.parts.part_files import PartResult, Plan
from graveler.system.progress import ObjectProgress
from graveler.tree.apply import Interval
from graveler.tree.parts import Load, Point, join_parts
from graveler.tree.split import validate_split
from graveler.tree.tree import Tree


class RewriteWork:
    """The work of a rewrite by the parameters ``split``. ``deadline`` is the deadline of the operation."""

    def __init__(
        self,
        repository: RepositoryParts,
        landing: Landing,
        split: SplitParameters,
        deadline: Deadline,
    ) -> None:
        self._repository = repository
        self._landing = landing
        self._split = split
        self._deadline = deadline

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """See :class:`PartedWork`. The head's metarange read. Parts end where ranges do, and their union has to be all of them:
        so they are divided again each round, and have the name of an earlier part where nothing moved."""
        validate_split(self._split)
        done = commit_of_request(self._repository, self._landing.info.request_id)
        if done is not None:
            return Plan((), done=done.id)
        head, tree = look_at_head(self._repository, self._landing, keep=before is not None)
        expect_other_split(self._repository, self._landing.branch, head, tree, self._split)
        infos = (tree.info(number) for number in range(len(tree)))
        points = [Point(info.last, Load(info.count, 1, info.size)) for info in infos]
        terms = b"rewrite\0" + msgspec.msgpack.encode(self._split)
        return Plan(planned(terms, (tree,), points, sizes, before), head.id, (tree.name(),))

    def run(self, plan: Plan, number: int, progress: ObjectProgress) -> PartResult:
        """See :class:`PartedWork`. The metarange, and the ranges of the interval; as much written."""
        part = plan.parts[number]
        done = recut(_ranges(self._repository.trees.load(plan.trees[0]), part.interval), self._split)
        progress(part.load.records, part.load.bytes)
        return PartResult(done.lasts, done.packed, (), part.load.records, part.load.bytes)

    def publish(self, plan: Plan, results: Results, sizes: Sizes) -> Commit:
        """See :class:`PartedWork`. One object read for each part, seams, and as merge in one call from there on; if the head has
        moved, also as :meth:`Joined.on`."""
        joined: Joined | None = None

        def build(head: Commit, before: Tree) -> Draft:
            nonlocal joined
            expect_other_split(self._repository, self._landing.branch, head, before, self._split)
            if joined is None:
                parts = (Tree(before.store, result.lasts, result.packed) for result in results())
                tree = join_parts(before.store, self._split, parts)
                joined = Joined((self._repository.trees.load(plan.trees[0]),), tree, sizes.in_place)
            tree = joined.on((before,), self._split, lambda interval: recut(_ranges(before, interval), self._split))
            return rewrite_draft(self._repository, tree, self._split)

        return land(self._repository, self._landing, lambda: build, self._deadline)

    def keeping(self) -> AbstractContextManager[None]:
        """See :class:`PartedWork`. Keeps the branch's turn, in a round that is not the first one."""
        return keeping_turn(self._repository, self._landing)

    def give_up(self) -> None:
        """See :class:`PartedWork`. One table write."""
        give_back_turn(self._repository, self._landing)


def _ranges(tree: Tree, interval: Interval) -> Tree:
    """Return the ranges whose last key lies in an interval: of adjacent intervals each range is in one. (A bound of an
    earlier round may lie inside of a range by now; the parts' trees are adjacent all the same.)"""
    after, upto = interval
    start = 0 if after is None else bisect_right(tree.lasts, after)
    stop = len(tree) if upto is None else bisect_right(tree.lasts, upto)
    return Tree(tree.store, tree.lasts[start:stop], tree.packed[start:stop])
