"""Commit in parts: each part applies the staged changes of its interval of keys to the head's tree.

The changes are sealed when the work is planned. A process that works on a part renews the lease on them, and leaves it running
for a while, for the next step; if no step follows, the next commit adopts them, like those of any commit that died.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from graveler.history.commits import check_info
from graveler.history.refs import BranchState
from graveler.history.split_parameters import split_of
from graveler.lake.clock import Backoff
from graveler.lake.committing.commit import (
    RestagedError,
    commit_of_changes,
    no_changes,
    publish_built,
    seal_once,
    staged_changes,
    taken_by_another,
)
from graveler.lake.committing.partial_result import commit_terms
from graveler.lake.committing.publish import done_before
from graveler.lake.committing.sealing import Sealed, holding, own_token, release, take_sealed
from graveler.lake.deadline import Deadline
from graveler.lake.merging.inputs import tree_of
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.model import Commit, SplitParameters, Token
from graveler.operations.parts.division import AnotherRoundError, Results, Sizes, begun_result, planned
from graveler.operations.parts.joined_parts import Joined
from graveler.operations.parts.part_files import PartResult, Plan
from graveler.operations.pinned_requests import Pinned
from graveler.requests import committing as requests
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import shard_count
from graveler.storage.tables.port import Check
from graveler.system.progress import ObjectProgress
from graveler.tree.apply import Change, Interval
from graveler.tree.parts import apply_part, apply_points, join_parts
from graveler.tree.tree import Tree

HANDOVER: Final = 20.0
"""Seconds for which the changes stay claimed between two steps; less than another commit's patience."""

_STRATA: Final = 64
_TAIL: Final = 256
_TELL: Final = 1_000
"""The number of changes between two progress reports."""


class CommitWork:
    """The work of one commit. Its request ID identifies it (promise C4), ``only_while`` is the condition for publishing it."""

    def __init__(
        self,
        repository: RepositoryParts,
        pinned: Pinned[requests.Commit],
        deadline: Deadline,
        only_while: Check | None,
    ) -> None:
        self._repository = repository
        self._request = pinned.request
        self._begun = pinned.begun
        self._actor = pinned.actor
        self._operation = pinned.owner or f"operation-{pinned.request.info.request_id}"
        self._deadline = deadline
        self._only_while = only_while

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """See :class:`PartedWork`. Seals, as commit in one call; reads the head's metarange, and a sample of what is staged: for
        each token one table read for each of :data:`_STRATA` places, and some more behind the last of the head's keys."""
        check_info(self._request.info, self._repository.clock.now())
        earlier = None if before is None else before.own
        sealed = seal_once(self._repository, self._request, self._operation)
        with holding(self._repository, sealed.own_token, self._operation, self._request.info.request_id, HANDOVER):
            state, tokens = self._wait_for_turn(sealed)
            if state is None or (not tokens and not self._request.allow_empty):
                try:
                    return self._finished_plan(sealed.own_token, earlier)
                except RestagedError:
                    return self.plan(sizes, before)
            head = self._repository.branches.commit(state.commit_id)
            tree = tree_of(self._repository, head)
            split = split_of(head, self._repository.split)
            points = apply_points(tree, sample(self._repository.staged, tokens, tree))
            parts = planned(commit_terms(tokens, split), (tree,), points, sizes, before, self._begun)
            return Plan(parts, head.id, (tree.name(),), tokens, sealed.own_token, split=split)

    def _wait_for_turn(self, sealed: Sealed) -> tuple[BranchState | None, tuple[Token, ...]]:
        """Return the branch once no older token belongs to another commit, and the tokens to take; None if this commit's own
        token is gone."""
        backoff = Backoff(self._repository.clock)
        while True:
            state = self._repository.branches.state(self._request.branch)
            tokens = tuple(token for token in state.sealed if token in sealed.tokens)
            if sealed.own_token is not None and sealed.own_token not in tokens:
                return None, ()
            if take_sealed(self._repository, tuple(token for token in tokens if token != sealed.own_token)) is not None:
                return state, tokens
            if not backoff.wait():
                raise busy(self._request.branch)

    def _finished_plan(self, token: Token | None, earlier: Token | None) -> Plan:
        """Return the plan for when nothing is left to commit: an earlier attempt, or another commit, took the changes, including
        those of the previous round, whose token was ``earlier``. :class:`RestagedError`."""
        if (done := done_before(self._repository, self._request.info.request_id)) is not None:
            return Plan((), done=done)
        if token is not None:
            return Plan((), done=taken_by_another(self._repository, self._request.branch, token).id)
        commit = commit_of_changes(self._repository, earlier)
        if commit is None:
            raise no_changes(self._request.branch)
        return Plan((), done=commit.id)

    def run(self, plan: Plan, number: int, progress: ObjectProgress) -> PartResult:
        """See :class:`PartedWork`. The head's metarange, the ranges that change in the interval, one table read for each shard
        and thousand changes; its new ranges written. For the part that the original call had already built, one metarange."""
        part = plan.parts[number]
        done = begun_result(self._repository.trees, self._begun, part)
        if done is not None:
            progress(done.records, done.bytes)
            return done
        count = 0
        scan = staged_changes(self._repository.staged, plan.tokens)

        def changes(interval: Interval) -> Iterator[Change]:
            nonlocal count
            for count, change in enumerate(scan(interval), 1):
                if count % _TELL == 0:
                    progress(_TELL, 0)
                yield change

        with holding(self._repository, plan.own, self._operation, self._request.info.request_id, HANDOVER):
            tree = apply_part(self._repository.trees.load(plan.trees[0]), changes, part.interval, self._cut(plan))
        progress(count % _TELL, part.load.bytes)
        return PartResult(tree.lasts, tree.packed, (), part.load.records, part.load.bytes)

    def publish(self, plan: Plan, results: Results, sizes: Sizes) -> Commit:
        """See :class:`PartedWork`. One object read for each part, seams, and as commit in one call from there on; if the head has
        moved, also as :meth:`Joined.on`, with the changes there."""
        joined: Joined | None = None
        changes = staged_changes(self._repository.staged, plan.tokens)

        def build(head: Commit, before: Tree, tokens: tuple[Token, ...]) -> Tree:
            nonlocal joined
            split = self._cut(plan)
            if tokens != plan.tokens or split_of(head, self._repository.split) != split:
                raise AnotherRoundError
            if joined is None:
                planned_on = self._repository.trees.load(plan.trees[0])
                parts = (Tree(before.store, result.lasts, result.packed) for result in results())
                tree = join_parts(before.store, split, parts, [planned_on])
                joined = Joined((planned_on,), tree, sizes.in_place)
            return joined.on((before,), split, lambda interval: apply_part(before, changes, interval, split))

        if plan.rest:
            raise AnotherRoundError
        try:
            return publish_built(
                self._repository,
                self._request,
                self._operation,
                plan.tokens,
                plan.own,
                build,
                self._deadline,
                self._only_while,
                self._actor,
                leave=HANDOVER,
            )
        except RestagedError:
            raise AnotherRoundError from None

    def _cut(self, plan: Plan) -> SplitParameters:
        """Return the split parameters of the head that the plan was made on."""
        return plan.split or split_of(self._repository.branches.commit(plan.head), self._repository.split)

    def keeping(self) -> AbstractContextManager[None]:
        """See :class:`PartedWork`. The sealed token claims the changes, and :meth:`run` renews its lease."""
        return nullcontext()

    def give_up(self) -> None:
        """See :class:`PartedWork`. The next commit takes what was sealed, at once. Two table reads, one write."""
        token = own_token(self._repository, self._repository.branches.state(self._request.branch), self._operation)
        if token is not None:
            release(self._repository, token, self._operation)


def sample(staged: StagedChanges, tokens: Sequence[Token], tree: Tree) -> list[tuple[bytes, int]]:
    """Return a sample of the staged keys, in ascending order, each with the number of changes that it stands for. For each token
    a table read for each of at most :data:`_STRATA` intervals of the tree's keys, and up to :data:`_TAIL` behind them."""
    count = min(len(tree), _STRATA)
    numbers = [len(tree) * index // count for index in range(count)] if count else []
    sampled: list[tuple[bytes, int]] = []
    for token in tokens:
        shards = shard_count(token)
        starts = [b"" if number == 0 else tree.lasts[number - 1] + b"\0" for number in numbers]
        stops = [*numbers[1:], len(tree)][: len(numbers)]
        ends = [tree.lasts[stop - 1] + b"\0" for stop in stops]
        for number, stop, (keys, more) in zip(
            numbers, stops, staged.sample(token, list(zip(starts, ends, strict=True))), strict=True
        ):
            sampled += [(key, shards) for key in keys]
            if more:  # assume that the rest of the interval is like its beginning
                reached = bisect_left(tree.lasts, keys[-1]) + 1
                weight = max(1, len(keys) * shards // (reached - number))
                sampled += [(tree.lasts[index], weight) for index in range(reached, stop)]
        start = tree.lasts[-1] + b"\0" if len(tree) else b""
        for _ in range(_TAIL):
            ((keys, more),) = staged.sample(token, [(start, None)])
            if keys:
                sampled.append((keys[-1], len(keys) * shards))
                start = keys[-1] + b"\0"
            if not more:
                break
    return sorted(sampled)
