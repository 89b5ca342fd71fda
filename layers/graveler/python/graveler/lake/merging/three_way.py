"""Three-way merge into a branch head, shared by merge, revert and cherry-pick."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from graveler.errors import MergeConflictError, NoChangesError, TooMuchWorkError
from graveler.history.split_parameters import split_of
from graveler.lake.committing.landing import Build, Draft, Landing, land
from graveler.lake.committing.partial_result import keep, merge_terms
from graveler.lake.committing.resplit import as_cut
from graveler.lake.context import Context
from graveler.lake.deadline import Deadline
from graveler.lake.merging.inputs import conflict_of, trees_of
from graveler.lake.merging.named_tables import expect_named_tables, has_in
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, CommitID, MergeStrategies, MergeStrategy, SplitParameters, TableMerge
from graveler.system.progress import no_object_progress
from graveler.tree.has_difference import covers_differ
from graveler.tree.merge import TreeConflict, merge
from graveler.tree.parts import merge_points, total_load
from graveler.tree.tree import Tree
from graveler.tree.writer import StoppedError
from graveler.values.merge_strategies import strategy_for
from graveler.values.reserved_paths import END, FILES, RESERVED, is_table


class ThreeWay(msgspec.Struct, frozen=True):
    """The inputs of a three-way merge. ``base`` and ``source`` are commits; None means the empty tree. ``merged`` are parents of
    the commit besides the head; ``required_commits`` are commits that no branch is known to hold, and that must not have
    expired."""

    base: Commit | None
    source: Commit | None
    strategies: MergeStrategies = MergeStrategies()
    merged: tuple[Commit, ...] = ()
    required_commits: tuple[CommitID, ...] = ()


Choose = Callable[[Commit], ThreeWay]
"""Returns the merge inputs for a given head. :class:`NoChangesError` if there is nothing to merge."""


class MergePlan(msgspec.Struct, frozen=True):
    """A merge, revert or cherry-pick. ``begin`` is called once, before the branch is read, and the function that it returns for
    each head that the branch then has. ``source`` and ``destination`` are their names in messages about conflicts; ``nothing``,
    unless it is empty, is the message if the head's tree turns out unchanged."""

    landing: Landing
    begin: Callable[[], Choose]
    source: str
    destination: str
    nothing: str = ""

    def check(self, result: Tree, before: Tree) -> Tree:
        """Return the result; :class:`NoChangesError` if it must differ from the tree before, and does not."""
        if self.nothing and result.id() == before.id():
            raise NoChangesError(self.nothing)
        return result


def land_three_way(repository: RepositoryParts, plan: MergePlan, context: Context) -> Commit:
    """Land the merge and return its commit. :class:`MergeConflictError`, :class:`NoChangesError`; :class:`TooMuchWorkError` if
    more records would have to be read than the context allows, or at the end of a range when its ``stop`` demands it; others as
    :func:`expect_named_tables` and :func:`land`."""

    progress = None if context.progress is no_object_progress else context.progress

    def prepare() -> Build:
        choose = plan.begin()

        def build(head: Commit, before: Tree) -> Draft:
            chosen = choose(head)
            base, source = trees_of(repository, chosen.base, chosen.source)
            if context.limit is not None:
                load = total_load(merge_points(base, source, before))
                if load.records > context.limit:
                    verb = plan.landing.verb
                    raise TooMuchWorkError(f"{verb} on {head.id[:12]}", load.records, context.limit)
            split = split_of(head, repository.split)
            as_here = as_cut(source, split_at(repository, chosen.source), split)
            try:
                result = merge(base, as_here, before, split, strategy_by_key(chosen.strategies), context.stop, progress)
                tables = contested_tables(result.conflicts)
                expect_named_tables(
                    chosen.strategies, has_in((before, source, base)), plan.source, plan.destination, tables
                )
                if tables:
                    decided = strategy_by_key(chosen.strategies, tables)
                    result = merge(base, as_here, before, split, decided, context.stop, progress)
            except StoppedError as stopped:
                partial_result = keep(
                    repository.trees, stopped, merge_terms(chosen.strategies, split), (base, source, before)
                )
                raise TooMuchWorkError(
                    f"{plan.landing.verb} on {head.id[:12]}", partial_result=partial_result
                ) from None
            if result.tree is None:
                raise conflict_error(repository, plan, result.conflicts)
            tree = result.tree
            tree = with_tables(repository, plan, chosen, (base, source, before), split, tree, tables)
            return draft(plan, chosen, tree, head, before)

        return build

    return land(repository, plan.landing.by(context), prepare)


def contested_tables(conflicts: Iterable[TreeConflict]) -> frozenset[bytes]:
    """Return the keys of the tables that both sides of a merge of trees changed."""
    return frozenset(conflict.key for conflict in conflicts if is_table(conflict.key))


def with_tables(
    repository: RepositoryParts,
    plan: MergePlan,
    chosen: ThreeWay,
    trees: tuple[Tree, Tree, Tree],
    split: SplitParameters,
    tree: Tree,
    keys: frozenset[bytes],
) -> Tree:
    """Return a merged tree with the merges of the tables at these keys, by rows; ``trees`` are base, source and destination.
    Cost as of :meth:`graveler.lake.merging.table_merges.TableMerges.merged`; nothing where only one side changed entries of the
    catalog. :class:`MergeConflictError`."""
    if not keys and not all(covers_differ(trees[0], side, RESERVED, END) for side in trees[1:]):
        return tree
    from graveler.lake.merging.table_merges import TableMerges  # few merges meet in a table

    source = CommitID("" if chosen.source is None else chosen.source.id)
    strategies = chosen.strategies
    strategy = strategy_by_prefix(strategies)
    merges = TableMerges(repository, trees, source, strategy, strategies.isolation, is_detached=not chosen.merged)
    merged, tables = merges.merged(tree, keys, split)
    if tables:
        places = sorted(table.path.encode() for table in tables)
        conflicts = tuple(TreeConflict(key, *(side.get(key) for side in trees)) for key in places)
        raise conflict_error(repository, plan, conflicts, tables)
    return merged


def split_at(repository: RepositoryParts, commit: Commit | None) -> SplitParameters:
    """Return the split parameters of a commit's tree (the repository's own for None)."""
    return repository.split if commit is None else split_of(commit, repository.split)


def conflict_error(
    repository: RepositoryParts, plan: MergePlan, conflicts: tuple[TreeConflict, ...], tables: Sequence[TableMerge] = ()
) -> MergeConflictError:
    """Return the error that lists these conflicts, and those of tables."""
    shown = [conflict_of(repository, conflict) for conflict in conflicts]
    return MergeConflictError(plan.source, plan.destination, shown, tables)


def land_built(
    repository: RepositoryParts,
    plan: MergePlan,
    build: Callable[[Commit, Tree], Draft],
    deadline: Deadline,
) -> Commit:
    """Land a tree that was built elsewhere and return its commit; ``build`` returns it for a head. Otherwise as
    :func:`land_three_way`."""
    return land(repository, plan.landing, lambda: build, deadline)


def draft(plan: MergePlan, chosen: ThreeWay, result: Tree, head: Commit, before: Tree) -> Draft:
    """Return the draft of a tree that is merged into a head. :class:`NoChangesError`."""
    durable = [head.metarange]
    if (
        chosen.source is not None and chosen.source.id in chosen.required_commits
    ):  # else a collector might remove it meanwhile
        durable.append(chosen.source.metarange)
    source, base = (CommitID("" if commit is None else commit.id) for commit in (chosen.source, chosen.base))
    return Draft(
        plan.check(result, before), chosen.merged, chosen.required_commits, durable=durable, source=source, base=base
    )


class strategy_by_prefix:  # noqa: N801 - a function, but one that can be sent to another process
    """The strategy for each key."""

    def __init__(self, strategies: MergeStrategies) -> None:
        self._strategies = strategies

    def __call__(self, key: bytes) -> MergeStrategy:
        return strategy_for(self._strategies, key.decode())


class strategy_by_key(strategy_by_prefix):  # noqa: N801 - as the one above
    """The strategy of a merge of trees for each key: none for a table, which is merged by its rows, so that the merge reports it;
    once that is ``decided``, the destination's. Links of tables' files are the destination's: both sides' link the same file, and
    where the destination has none, the merge of the table takes over the source's."""

    def __init__(self, strategies: MergeStrategies, decided: frozenset[bytes] = frozenset()) -> None:
        super().__init__(strategies)
        self._decided = decided

    def __call__(self, key: bytes) -> MergeStrategy:
        if is_table(key):
            return MergeStrategy.DEST_WINS if key in self._decided else MergeStrategy.NONE
        return MergeStrategy.DEST_WINS if key.startswith(FILES) else super().__call__(key)
