"""Merge, revert and cherry-pick in parts: each part merges the three trees in its interval of keys."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from graveler.lake.committing.landing import Draft, give_back_turn, keeping_turn, look_at_head, written_before
from graveler.lake.committing.partial_result import merge_terms
from graveler.lake.committing.publish import AlreadyDoneError
from graveler.lake.committing.resplit import recut
from graveler.lake.deadline import Deadline
from graveler.lake.merging.inputs import trees_of
from graveler.lake.merging.named_tables import expect_named_tables, has_in
from graveler.lake.merging.three_way import (
    MergePlan,
    conflict_error,
    contested_tables,
    draft,
    land_built,
    split_at,
    strategy_by_key,
    with_tables,
)
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, MergeStrategies, PartialResult, SplitParameters
from graveler.operations.parts.division import AnotherRoundError, Results, Sizes, begun_result, planned
from graveler.operations.parts.joined_parts import Joined
from graveler.operations.parts.part_files import PartResult, Plan
from graveler.system.progress import ObjectProgress
from graveler.tree.apply import Interval
from graveler.tree.merge import MergeResult, TreeConflict
from graveler.tree.parts import clip, join_parts, merge_part, merge_points
from graveler.tree.tree import Tree


class ThreeWayWork:
    """The work of a merge, revert or cherry-pick. ``deadline`` is that of the operation, ``begun`` what a call had built before
    it."""

    def __init__(
        self,
        repository: RepositoryParts,
        plan: MergePlan,
        strategies: MergeStrategies,
        deadline: Deadline,
        begun: PartialResult | None = None,
    ) -> None:
        self._repository = repository
        self._undertaking = plan
        self._strategies = strategies
        self._deadline = deadline
        self._begun = begun
        self._tables: frozenset[bytes] = frozenset()
        """The keys of the tables that both sides changed, as far as they are known."""

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """See :class:`PartedWork`. Three metaranges read, the cost of finding base and head, and that of
        :func:`expect_named_tables`: as merge in one call."""
        done = written_before(self._repository, self._undertaking.landing)
        if done is not None:
            return Plan((), done=done.id)
        choose = self._undertaking.begin()
        head, destination = look_at_head(self._repository, self._undertaking.landing, keep=before is not None)
        try:
            chosen = choose(head)
        except AlreadyDoneError as merged:  # the pull request of this merge
            return Plan((), done=merged.commit_id)
        base, source = trees_of(self._repository, chosen.base, chosen.source)
        split = split_at(self._repository, head)
        trees = base, source, destination
        expect_named_tables(
            self._strategies, has_in(trees[::-1]), self._undertaking.source, self._undertaking.destination
        )
        terms = merge_terms(self._strategies, split)
        parts = planned(terms, trees, merge_points(*trees), sizes, before, self._begun)
        names = base.name(), source.name(), destination.name()
        return Plan(parts, head.id, names, recut=split_at(self._repository, chosen.source) != split, split=split)

    def run(self, plan: Plan, number: int, progress: ObjectProgress) -> PartResult:
        """See :class:`PartedWork`. Three metaranges, and the ranges of the interval that both sides changed; its new ranges
        written. For the part that the original call had already built, one metarange."""
        part = plan.parts[number]
        begun = begun_result(self._repository.trees, self._begun, part)
        if begun is not None:
            progress(begun.records, begun.bytes)
            return begun
        base, source, destination = map(self._repository.trees.load, plan.trees)
        merged = self._merge((base, source, destination), part.interval, self._split(plan), recuts=plan.recut)
        progress(part.load.records, part.load.bytes)
        done = merged.tree or self._repository.trees.empty()
        return PartResult(done.lasts, done.packed, merged.conflicts, part.load.records, part.load.bytes)

    def publish(self, plan: Plan, results: Results, sizes: Sizes) -> Commit:
        """See :class:`PartedWork`. One object read for each part, seams, and as merge in one call from there on; if the head has
        moved, also as :meth:`Joined.on`."""
        joined: Joined | None = None

        def build(head: Commit, before: Tree) -> Draft:
            nonlocal joined
            joined = joined or self._joined(plan, results(), head, sizes.in_place)
            chosen = self._undertaking.begin()(head)
            split = split_at(self._repository, head)
            is_cut = split, split_at(self._repository, chosen.source) != split
            if is_cut != (self._split(plan), plan.recut):
                raise AnotherRoundError
            base, source = trees_of(self._repository, chosen.base, chosen.source)
            conflicts: list[TreeConflict] = []

            def make(interval: Interval) -> Tree:
                merged = self._merge_beside_tables((base, source, before), interval, split, recuts=plan.recut)
                conflicts.extend(merged.conflicts)
                return merged.tree or self._repository.trees.empty()

            tree = joined.on((base, source, before), split, make)
            if conflicts:
                raise conflict_error(self._repository, self._undertaking, tuple(conflicts))
            trees = base, source, before
            tree = with_tables(self._repository, self._undertaking, chosen, trees, split, tree, self._tables)
            return draft(self._undertaking, chosen, tree, head, before)

        return land_built(self._repository, self._undertaking, build, self._deadline)

    def _joined(self, plan: Plan, results: Sequence[PartResult], head: Commit, limit: int) -> Joined:
        """Join the results of the parts on the head that was planned on. :class:`MergeConflictError`, if that is still the
        head."""
        if any(result.conflicts for result in results) and head.id != plan.head:
            raise AnotherRoundError  # some may have gone
        results = [self._beside_tables(plan, number, result) for number, result in enumerate(results)]
        conflicts = tuple(conflict for result in results for conflict in result.conflicts)
        if conflicts:
            raise conflict_error(self._repository, self._undertaking, conflicts)
        base, source, destination = map(self._repository.trees.load, plan.trees)
        reusable = [destination] if plan.recut else [destination, source]
        parts = (Tree(destination.store, result.lasts, result.packed) for result in results)
        tree = join_parts(destination.store, self._split(plan), parts, reusable)
        return Joined((base, source, destination), tree, limit)

    def _beside_tables(self, plan: Plan, number: int, result: PartResult) -> PartResult:
        """Return the result of a part, merged again without its tables if it has conflicts of tables."""
        if not contested_tables(result.conflicts):
            return result
        base, source, destination = map(self._repository.trees.load, plan.trees)
        interval = plan.parts[number].interval
        merged = self._merge_beside_tables((base, source, destination), interval, self._split(plan), recuts=plan.recut)
        done = merged.tree or self._repository.trees.empty()
        return PartResult(done.lasts, done.packed, merged.conflicts, result.records, result.bytes)

    def _merge_beside_tables(
        self, trees: tuple[Tree, Tree, Tree], interval: Interval, split: SplitParameters, *, recuts: bool
    ) -> MergeResult:
        """Merge an interval, and note the tables that both sides changed there: they have the destination's records."""
        merged = self._merge(trees, interval, split, recuts=recuts)
        tables = contested_tables(merged.conflicts)
        if not tables:
            return merged
        self._tables |= tables
        return self._merge(trees, interval, split, recuts=recuts)

    def _split(self, plan: Plan) -> SplitParameters:
        """Return the split parameters of the head that was planned on."""
        return plan.split or split_at(self._repository, self._repository.branches.commit(plan.head))

    def _merge(
        self, trees: tuple[Tree, Tree, Tree], interval: Interval, split: SplitParameters, *, recuts: bool
    ) -> MergeResult:
        base, source, destination = trees
        if recuts:
            source = recut(clip(source, interval, split), split)
        return merge_part(base, source, destination, interval, split, strategy_by_key(self._strategies, self._tables))

    def keeping(self) -> AbstractContextManager[None]:
        """See :class:`PartedWork`. Keeps the branch's turn, in a round that is not the first one."""
        return keeping_turn(self._repository, self._undertaking.landing)

    def give_up(self) -> None:
        """See :class:`PartedWork`. One table write."""
        give_back_turn(self._repository, self._undertaking.landing)
