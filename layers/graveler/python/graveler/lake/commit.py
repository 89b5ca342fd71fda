"""Commit: seal, apply, publish. The protocol of ``docs/concurrency.md``, in the shape in which it was searched exhaustively."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex
from threading import Event, Thread
from typing import Final

import msgspec

from graveler.errors import GravelerError, NoChangesError, PreconditionError
from graveler.history.commits import CommitStore, new_commit
from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.publish import MAX_TOKENS, AlreadyDoneError, HeadMovedError, Publisher
from graveler.model import Commit, SplitParameters, Token
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import Outcomes, TokenState, new_token, shard_count
from graveler.storage.tables import ConditionFailedError, Tables
from graveler.tree.apply import Change, Interval, apply, reapply
from graveler.tree.tree import Tree, Trees

LEASE: Final = 15.0
"""Seconds for which a sealed token is its owner's, renewed while it works."""


class Committer:
    """Commits the uncommitted changes of branches of one repository."""

    def __init__(
        self,
        split: SplitParameters,
        tables: Tables,
        refs: Refs,
        commits: CommitStore,
        branches: Branches,
        staged: StagedChanges,
        outcomes: Outcomes,
        publisher: Publisher,
        trees: Trees,
        clock: Clock,
    ) -> None:
        self._split = split
        self._tables = tables
        self._refs = refs
        self._commits = commits
        self._branches = branches
        self._staged = staged
        self._outcomes = outcomes
        self._publisher = publisher
        self._trees = trees
        self._clock = clock

    def commit(
        self,
        branch: str,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        *,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.commit`."""
        done = self._publisher.done_before(request_id)
        if done is not None:
            return self._commits.get(done)
        operation = token_hex(16)
        own = self._seal(branch, operation, allow_empty)
        attempt = _Attempt(self._split, self._staged)
        backoff = Backoff(self._clock)
        while True:
            state = self._branches.state(branch)
            if own is not None and own not in state.sealed:
                return self._taken_by_another(branch, own)
            tokens = self._tokens_up_to(own, state)
            if tokens is None:  # an older token's owner is at work: publish after it
                if not backoff.wait():
                    raise busy(branch)
                continue
            with self._keeping_lease(own, operation):
                head = self._commits.get(state.commit_id)
                before = self._trees.load(head.metarange)
                tree = attempt.build(before, tokens)
                try:
                    if tree.id() == before.id() and not allow_empty:
                        if tokens:
                            self._publisher.drop(state, tokens, operation)
                        raise NoChangesError(
                            f"nothing to commit on branch {branch!r}: what is staged there is the same as in the last commit"
                        )
                    name = self._trees.save(tree)
                    when = int(self._clock.now()) if created is None else created
                    commit = new_commit([head], name, committer, message, when, metadata, operation)
                    last = own is None or own in tokens
                    self._publisher.publish(
                        state, commit, "commit", applied=tokens, request_id=request_id if last else ""
                    )
                    if last:
                        return commit
                except AlreadyDoneError as error:
                    return self._commits.get(error.commit_id)
                except HeadMovedError:
                    if not backoff.wait():
                        raise busy(branch) from None

    def _seal(self, branch: str, operation: str, allow_empty: bool) -> Token | None:
        """Close the branch's open token, so that what is staged from now on belongs to the next commit.

        Returns the sealed token, or None if nothing was staged in the open one: then there is nothing to seal.
        """
        backoff = Backoff(self._clock)
        while True:
            state = self._branches.state(branch)
            if not self._staged.exists([state.open]):
                if not state.sealed and not allow_empty:
                    raise NoChangesError(f"nothing to commit on branch {branch!r}: no uncommitted changes")
                return None
            opened = new_token(shard_count(state.open))
            after = msgspec.structs.replace(state, open=opened, sealed=(*state.sealed, state.open))
            lease = self._clock.now() + LEASE
            writes = self._refs.move_branch_writes(state, after, None)
            writes.append(self._outcomes.seal_write(state.open, operation, lease))
            try:
                self._tables.transact(writes)
                return state.open
            except ConditionFailedError:
                seen = self._outcomes.get(state.open)
                if seen is not None and seen.owner == operation:
                    return state.open  # an earlier try, whose answer was lost
                if not backoff.wait():
                    raise busy(branch) from None

    def _tokens_up_to(self, own: Token | None, state: BranchState) -> tuple[Token, ...] | None:
        """The oldest sealed tokens, up to the own one, if they may be taken now: others' only when their lease ran out.

        None: wait. (Oldest first: publishing a newer one before would let the older one overwrite it later, promise C1.)
        """
        tokens = state.sealed if own is None else state.sealed[: state.sealed.index(own) + 1]
        tokens = tokens[:MAX_TOKENS]
        now = self._clock.now()
        others = tuple(token for token in tokens if token != own)
        for outcome in self._outcomes.get_many(others) if others else []:
            if outcome is not None and outcome.state is TokenState.SEALED and outcome.lease > now:
                return None
        return tokens

    def _taken_by_another(self, branch: str, own: Token) -> Commit:
        """What became of the own token, which is not on the branch any more."""
        outcome = self._outcomes.get(own)
        if outcome is not None and outcome.commit_id is not None:
            return self._commits.get(outcome.commit_id)
        if outcome is not None and outcome.state is TokenState.DROPPED:
            raise NoChangesError(
                f"nothing to commit on branch {branch!r}: what was staged is the same as in the last commit"
            )
        happened = "reset" if outcome is not None and outcome.state is TokenState.RESET else "deleted"
        raise PreconditionError(f"branch {branch!r} was {happened} while it was being committed; nothing was committed")

    @contextmanager
    def _keeping_lease(self, own: Token | None, operation: str) -> Iterator[None]:
        """Renews the lease of the own token while the body works, from a thread, so that long builds are not taken over."""
        if own is None:
            yield
            return
        stop = Event()

        def renew() -> None:
            while not stop.wait(LEASE / 3):
                write = self._outcomes.renew_write(own, operation, self._clock.now() + LEASE)
                try:
                    self._tables.put(write.key, write.item, write.condition)
                except GravelerError:
                    return  # adopted, or the table is out of reach: then others may do the same work, and the first one wins

        thread = Thread(target=renew, daemon=True, name="graveler-lease")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


class _Attempt:
    """Builds the tree of staged changes on a head; on another head it redoes only where the heads differ (promise C6)."""

    def __init__(self, split: SplitParameters, staged: StagedChanges) -> None:
        self._split = split
        self._staged = staged
        self._tokens: tuple[Token, ...] = ()
        self._head: Tree | None = None
        self._result: Tree | None = None

    def build(self, head: Tree, tokens: tuple[Token, ...]) -> Tree:
        """``head`` with what is staged under ``tokens`` (the oldest first)."""
        newest_first = tokens[::-1]

        def changes(interval: Interval) -> Iterable[Change]:
            after, upto = interval
            start = b"" if after is None else after + b"\0"
            return self._staged.scan(newest_first, start, None if upto is None else upto + b"\0")

        if self._head is None or self._result is None or tokens != self._tokens:
            result = apply(head, changes((None, None)), self._split)
        else:
            result = reapply(self._head, self._result, head, changes, self._split)
        self._head, self._result, self._tokens = head, result, tokens
        return result
