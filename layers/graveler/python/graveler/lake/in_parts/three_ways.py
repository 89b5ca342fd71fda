"""Merge, revert and cherry-pick in parts: each merges the three trees in its interval of keys."""

import msgspec

from graveler.lake.deadline import Deadline
from graveler.lake.importing.progress import Progress
from graveler.lake.in_parts.files import PartResult, Plan
from graveler.lake.in_parts.work import AnotherRoundError, Results, Sizes, planned
from graveler.lake.landing import Draft, Lander
from graveler.lake.recut import recut
from graveler.lake.sides import Sides
from graveler.lake.three_way import ThreeWayLander, Undertaking, draft, strategy_by_key
from graveler.model import Commit, MergeStrategies
from graveler.tree.parts import clip, join_parts, merge_part, merge_points
from graveler.tree.tree import Tree, Trees


class ThreeWayWork:
    """One merge, revert or cherry-pick. ``until`` is the deadline of the operation."""

    def __init__(
        self,
        undertaking: Undertaking,
        strategies: MergeStrategies,
        sides: Sides,
        trees: Trees,
        lander: Lander,
        three_way: ThreeWayLander,
        until: Deadline,
    ) -> None:
        self._undertaking = undertaking
        self._strategies = strategies
        self._sides = sides
        self._trees = trees
        self._lander = lander
        self._three_way = three_way
        self._until = until

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """See :class:`Work`. Three metaranges read, and what finding base and head takes: as merge in one call."""
        done = self._lander.written_before(self._undertaking.landing)
        if done is not None:
            return Plan((), done=done.id)
        choose = self._undertaking.begin()
        head, destination = self._lander.look(self._undertaking.landing)
        chosen = choose(head)
        base, source = self._sides.tree(chosen.base), self._sides.tree(chosen.source)
        split = self._three_way.split_of(head)
        what = b"merge\0" + msgspec.msgpack.encode((self._strategies, split))
        parts = planned(what, (base, source, destination), merge_points(base, source, destination), sizes, before)
        names = base.name(), source.name(), destination.name()
        return Plan(parts, head.id, names, recut=self._three_way.split_of(chosen.source) != split, split=split)

    def run(self, plan: Plan, number: int, progress: Progress) -> PartResult:
        """See :class:`Work`. Three metaranges, and the ranges of the interval that both sides changed; its new ranges written."""
        part = plan.parts[number]
        base, source, destination = map(self._trees.load, plan.trees)
        split = plan.split or self._three_way.split_of(self._sides.commit(plan.head))
        if plan.recut:
            source = recut(clip(source, part.interval, split), split)
        merged = merge_part(base, source, destination, part.interval, split, strategy_by_key(self._strategies))
        progress(part.load.records, part.load.bytes)
        done = merged.tree or self._trees.empty()
        return PartResult(done.lasts, done.packed, merged.conflicts, part.load.records, part.load.bytes)

    def publish(self, plan: Plan, results: Results) -> Commit:
        """See :class:`Work`. One object read for each part, seams, and as merge in one call from there on."""

        def build(head: Commit, before: Tree) -> Draft:
            if head.id != plan.head:
                raise AnotherRoundError
            found = results()
            conflicts = tuple(conflict for result in found for conflict in result.conflicts)
            if conflicts:
                raise self._three_way.conflicts(self._undertaking, conflicts)
            split = self._three_way.split_of(head)
            known = [before] if plan.recut else [before, self._trees.load(plan.trees[1])]
            parts = (Tree(before.store, result.lasts, result.packed) for result in found)
            joined = join_parts(before.store, split, parts, known)
            return draft(self._undertaking, self._undertaking.begin()(head), joined, before)

        return self._three_way.land_built(self._undertaking, build, self._until)

    def give_up(self) -> None:
        """See :class:`Work`. Nobody waits for a merge."""
