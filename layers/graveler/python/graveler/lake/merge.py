"""Merge: bring what one ref changed since the common base into a branch."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Final

from graveler.errors import InvalidError, MergeConflictError, NoChangesError
from graveler.history.commits import CommitStore, new_commit
from graveler.history.expressions import resolve
from graveler.history.graph import merge_base
from graveler.history.refs import Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clean_heads import CleanHeads
from graveler.lake.clock import Backoff, Clock
from graveler.lake.publish import HeadMovedError, Publisher
from graveler.model import Commit, Conflict, MergeStrategy, MetarangeName, SplitParameters
from graveler.tree.merge import TreeConflict, merge
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Trees

STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""Metadata of a merge commit that says by which strategy conflicts were decided; the clients' word."""


class Merger:
    """Merges into branches of one repository."""

    def __init__(
        self,
        split: SplitParameters,
        refs: Refs,
        commits: CommitStore,
        branches: Branches,
        codec: RecordCodec,
        heads: CleanHeads,
        publisher: Publisher,
        trees: Trees,
        clock: Clock,
    ) -> None:
        self._split = split
        self._refs = refs
        self._commits = commits
        self._branches = branches
        self._codec = codec
        self._heads = heads
        self._publisher = publisher
        self._trees = trees
        self._clock = clock

    def merge(
        self,
        source: str,
        destination: str,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        strategy: MergeStrategy,
        *,
        request_id: str = "",
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.merge`."""
        said = dict(metadata)
        if strategy is not MergeStrategy.NONE:
            said[STRATEGY_KEY] = strategy.value
        message = message or f"Merge '{source}' into '{destination}'"
        operation = token_hex(16)

        def make() -> Commit:
            other = self._branches.commit(resolve(source, self._refs, self._commits).commit_id)
            return self._merge(source, other, destination, message, committer, said, strategy, operation, request_id)

        new_commit([], MetarangeName(""), committer, message, 0, said, operation)  # refuses what no commit can say
        return self._publisher.once(request_id, make)

    def _merge(
        self,
        source: str,
        other: Commit,
        destination: str,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        strategy: MergeStrategy,
        operation: str,
        request_id: str,
    ) -> Commit:
        backoff = Backoff(self._clock)
        while True:
            state, head, tree = self._heads.wait_for(destination, f"merging {source!r} into it")
            base = merge_base(self._commits, other.id, head.id)
            if base is None:
                raise InvalidError(
                    f"{source!r} and {destination!r} have no common history, so there is no base to merge them on"
                )
            if base == other.id:
                raise NoChangesError(f"nothing to merge: {destination!r} already has all commits of {source!r}")
            base_tree = self._trees.load(self._commits.get(base).metarange)
            result = merge(base_tree, self._trees.load(other.metarange), tree, self._split, strategy)
            if result.tree is None:
                raise MergeConflictError(source, destination, [self._conflict(c) for c in result.conflicts])
            name = self._trees.save(result.tree)
            now = int(self._clock.now())
            commit = new_commit([head, other], name, committer, message, now, metadata, operation)
            try:
                self._publisher.publish(state, commit, "merge", sources=[other.id], request_id=request_id)
                return commit
            except HeadMovedError:
                if not backoff.wait():
                    raise busy(destination) from None

    def _conflict(self, conflict: TreeConflict) -> Conflict:
        base, source, destination = (
            None if packed is None else self._codec.decode(conflict.key, packed)
            for packed in (conflict.base, conflict.source, conflict.destination)
        )
        return Conflict(conflict.key.decode(), base, source, destination)
