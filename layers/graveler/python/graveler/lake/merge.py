"""Merge: bring what one ref changed since the common base into a branch."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Final

from graveler.errors import DirtyBranchError, InvalidError, MergeConflictError, NoChangesError
from graveler.history.commits import CommitStore, new_commit
from graveler.history.graph import merge_base
from graveler.history.refs import BranchState
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.publish import AlreadyDoneError, HeadMovedError, Publisher
from graveler.model import Commit, CommitID, Conflict, MergeStrategy, SplitParameters
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import Outcomes, TokenState
from graveler.tree.merge import TreeConflict, merge
from graveler.tree.record import RecordCodec, identity
from graveler.tree.tree import Tree, Trees

STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""Metadata of a merge commit that says by which strategy conflicts were decided; the clients' word."""


class CleanHeads:
    """Finds a branch's head for an operation that must not mix with uncommitted changes."""

    def __init__(
        self,
        branches: Branches,
        commits: CommitStore,
        staged: StagedChanges,
        outcomes: Outcomes,
        trees: Trees,
        clock: Clock,
    ) -> None:
        self._branches = branches
        self._commits = commits
        self._staged = staged
        self._outcomes = outcomes
        self._trees = trees
        self._clock = clock

    def wait_for(self, branch: str, operation: str) -> tuple[BranchState, Commit, Tree]:
        """The branch, its head and the head's tree, once no commit is at work on it.

        One table read of the branch, one for each token to see that nothing is staged. :class:`DirtyBranchError` if something
        is that changes anything: tombstones over nothing, and changes that the head has already, do not count.
        """
        backoff = Backoff(self._clock)
        while True:
            state = self._branches.state(branch)
            outcomes = self._outcomes.get_many(state.sealed) if state.sealed else []
            now = self._clock.now()
            if not any(o is not None and o.state is TokenState.SEALED and o.lease > now for o in outcomes):
                head = self._commits.get(state.commit_id)
                tree = self._trees.load(head.metarange)
                if is_dirty(state, self._staged, tree):
                    raise DirtyBranchError(branch, operation)
                return state, head, tree
            if not backoff.wait():
                raise busy(branch)


def is_dirty(state: BranchState, staged: StagedChanges, tree: Tree) -> bool:
    """Has the branch uncommitted changes, net of those that change nothing? Stops at the first one."""
    return any(
        changes_anything(tree.get(key), packed) for key, packed in staged.scan((state.open, *state.sealed[::-1]))
    )


def changes_anything(committed: bytes | None, staged: bytes | None) -> bool:
    """Is a staged record (None: a tombstone) a change of the committed one (None: there is none)?"""
    if committed is None or staged is None:
        return committed is not staged
    return identity(committed) != identity(staged)


class Merger:
    """Merges into branches of one repository."""

    def __init__(
        self,
        split: SplitParameters,
        commits: CommitStore,
        codec: RecordCodec,
        heads: CleanHeads,
        publisher: Publisher,
        trees: Trees,
        clock: Clock,
    ) -> None:
        self._split = split
        self._commits = commits
        self._codec = codec
        self._heads = heads
        self._publisher = publisher
        self._trees = trees
        self._clock = clock

    def merge(
        self,
        source: str,
        source_commit: CommitID,
        destination: str,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        strategy: MergeStrategy,
        *,
        request_id: str = "",
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.merge`."""
        done = self._publisher.done_before(request_id)
        if done is not None:
            return self._commits.get(done)
        operation = token_hex(16)
        said = dict(metadata)
        if strategy is not MergeStrategy.NONE:
            said[STRATEGY_KEY] = strategy.value
        backoff = Backoff(self._clock)
        while True:
            state, head, tree = self._heads.wait_for(destination, f"merging {source!r} into it")
            other = self._commits.get(source_commit)
            base = merge_base(self._commits, source_commit, head.id)
            if base is None:
                raise InvalidError(
                    f"{source!r} and {destination!r} have no common history, so there is no base to merge them on"
                )
            if base == source_commit:
                raise NoChangesError(f"nothing to merge: {destination!r} already has all commits of {source!r}")
            base_tree = self._trees.load(self._commits.get(base).metarange)
            result = merge(base_tree, self._trees.load(other.metarange), tree, self._split, strategy)
            if result.tree is None:
                raise MergeConflictError(source, destination, [self._conflict(c) for c in result.conflicts])
            name = self._trees.save(result.tree)
            commit = new_commit(
                [head, other],
                name,
                committer,
                message or f"Merge '{source}' into '{destination}'",
                int(self._clock.now()),
                said,
                operation,
            )
            try:
                self._publisher.publish(state, commit, "merge", request_id=request_id)
                return commit
            except AlreadyDoneError as error:
                return self._commits.get(error.commit_id)
            except HeadMovedError:
                if not backoff.wait():
                    raise busy(destination) from None

    def _conflict(self, conflict: TreeConflict) -> Conflict:
        base, source, destination = (
            None if packed is None else self._codec.decode(conflict.key, packed)
            for packed in (conflict.base, conflict.source, conflict.destination)
        )
        return Conflict(conflict.key.decode(), base, source, destination)
