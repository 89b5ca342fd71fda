"""Merge: bring what one ref changed since the common base into a branch, or only say what that would do."""

from collections.abc import Mapping
from typing import Final

from graveler.errors import InvalidError, MergeConflictError, NoChangesError
from graveler.history.commits import CommitStore
from graveler.history.graph import merge_base
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.rules import Intent
from graveler.lake.sides import Sides
from graveler.model import Commit, MergePreview, MergeStrategies, MergeStrategy, SplitParameters
from graveler.tree.merge import TreeConflict, merge, preview
from graveler.tree.summary import TotalsCounter
from graveler.tree.tree import Tree

STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""Metadata of a merge commit that says by which strategy conflicts were decided; the clients' word."""


class Merger:
    """Merges into branches of one repository."""

    def __init__(self, split: SplitParameters, commits: CommitStore, sides: Sides, lander: Lander) -> None:
        self._split = split
        self._commits = commits
        self._sides = sides
        self._lander = lander

    def merge(
        self,
        source: str,
        destination: str,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        strategies: MergeStrategies,
        *,
        squash: bool = False,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.merge`."""
        strategy_of = strategy_by_key(strategies)
        said = dict(metadata)
        if strategies.default is not MergeStrategy.NONE:
            said[STRATEGY_KEY] = strategies.default.value
        landing = Landing(
            destination,
            "merge",
            f"merging {source!r} into it",
            message or f"Merge '{source}' into '{destination}'",
            committer,
            said,
            request_id,
            created,
            Intent(direct=False, force=force),
        )

        def prepare() -> Build:
            other = self._sides.at(source)  # the source is what it was when the merge began

            def build(head: Commit, before: Tree) -> Draft:
                base = self._base(source, other, destination, head, allow_empty=allow_empty)
                result = merge(self._sides.tree(base), self._sides.tree(other), before, self._split, strategy_of)
                if result.tree is None:
                    conflicts = [self._sides.conflict(found) for found in result.conflicts]
                    raise MergeConflictError(source, destination, conflicts)
                merged = [] if squash or other.id == head.id else [other]
                return Draft(result.tree, merged, [other.id])

            return build

        return self._lander.land(landing, prepare)

    def preview(self, source: str, destination: str, strategies: MergeStrategies) -> MergePreview:
        """See :meth:`graveler.lake.repository.OpenRepository.preview_merge`."""
        other, head = self._sides.at(source), self._sides.at(destination)
        base = self._base(source, other, destination, head, allow_empty=True)
        counter = TotalsCounter()
        conflicts = []
        trees = self._sides.tree(base), self._sides.tree(other), self._sides.tree(head)
        for item in preview(*trees, strategy_by_key(strategies)):
            if isinstance(item, TreeConflict):
                conflicts.append(self._sides.conflict(item))
            else:
                counter.add(item[1], item[2])
        return MergePreview(base.id, counter.totals(), tuple(conflicts))

    def _base(self, source: str, other: Commit, destination: str, head: Commit, *, allow_empty: bool) -> Commit:
        base = merge_base(self._commits, other.id, head.id)
        if base is None:
            raise InvalidError(
                f"{source!r} and {destination!r} have no common history, so there is no base to merge them on"
            )
        if base == other.id and not allow_empty:
            raise NoChangesError(f"nothing to merge: {destination!r} already has all commits of {source!r}")
        return self._commits.get(base)


class strategy_by_key:  # noqa: N801 - a function, but one that can be sent to another process
    """The strategy for each key: that of the longest prefix, else the default."""

    def __init__(self, strategies: MergeStrategies) -> None:
        pairs = ((prefix.encode(), chosen) for prefix, chosen in strategies.by_prefix)
        self._ordered = sorted(pairs, key=lambda pair: -len(pair[0]))
        self._default = strategies.default

    def __call__(self, key: bytes) -> MergeStrategy:
        return next((chosen for prefix, chosen in self._ordered if key.startswith(prefix)), self._default)
