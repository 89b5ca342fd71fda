"""Renaming a branch, so that nothing staged under its old name afterwards reaches it under the new one (promise C1).

A process that remembers the branch's open token puts an item under it first and reads the branch afterwards. If a renamed branch
kept its tokens, such a put would replace what is staged on it, although the writer is told that its branch is gone. So a
rename stages the uncommitted changes again, under a token that the old name never had:

1. **Close.** One transaction marks the branch. From now on nothing is acknowledged on it: writers, and whoever changes it, wait.
2. **Stage again** what its tokens hold under a fresh token, the oldest first, items as they are.
3. **Move.** One transaction removes the old name and creates the new one with the fresh token, on condition that the branch is
   still exactly as it was marked. The old tokens' outcome says where what they held went.

If the branch changes in between (a commit that was at work publishes), all begins again with another token. If the process dies,
the mark's lease runs out, and the next process that wants to change the branch opens it again under its old name.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

import msgspec

from graveler.errors import (
    AlreadyExistsError,
    ForbiddenError,
    GravelerError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.history.commits import CommitStore
from graveler.history.owners import Owners
from graveler.history.refs import BranchState, Refs, Renaming
from graveler.lake.applications import Applications
from graveler.lake.branches import RENAME_LEASE, Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.rules import Intent
from graveler.lake.traces import Traces
from graveler.model import Branch, Repository
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import TokenState
from graveler.storage.tables import Absent, Check, ConditionFailedError, Tables, Write


class Renamer:
    """Renames branches of one repository."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        refs: Refs,
        commits: CommitStore,
        branches: Branches,
        staged: StagedChanges,
        traces: Traces,
        clock: Clock,
    ) -> None:
        self._repository = repository
        self._tables = tables
        self._refs = refs
        self._commits = commits
        self._branches = branches
        self._staged = staged
        self._traces = traces
        self._clock = clock
        self._owners = Owners(tables, repository.uid)
        self._applications = Applications(tables, repository.uid, refs, commits)

    def rename(self, old: str, new: str, by: str, *, force: bool = False) -> Branch:
        """See :meth:`graveler.lake.repository.OpenRepository.rename_branch`."""
        if old == self._repository.default_branch:
            raise ForbiddenError(
                f"branch {old!r} is the default branch of repository {self._repository.name!r} and cannot be renamed"
            )
        self._refs.branch_key(new)
        intent = Intent(direct=True, force=force)
        state = self._branches.state(old, intent)
        if old == new:
            raise AlreadyExistsError("branch", new)
        backoff = Backoff(self._clock)
        operation = token_hex(16)
        while True:
            try:
                with self._closed(state, new, force=force) as closed:
                    self._applications.copy(old, new)  # what is published from now on moves the head: begin again
                    return self._move(self._stage_again(closed), new, by, operation, force=force)
            except _ChangedError:
                if not backoff.wait():
                    raise busy(old) from None
            state = self._branches.state(old, intent)

    @contextmanager
    def _closed(self, state: BranchState, new: str, *, force: bool) -> Iterator[BranchState]:
        """Mark the branch while the body works; open it again if the body fails. One transaction."""
        mark = Renaming(self._staged.first_token(), token_hex(8))
        closed = msgspec.structs.replace(state, renaming=mark)
        free = Check(self._refs.branch_key(new), Absent())
        try:
            self._tables.transact(
                [*self._refs.move_branch_writes(state, closed, None), free, self._branches.here_check(force=force)]
            )
        except (ConditionFailedError, UnavailableError) as error:
            if self._refs.branch(state.name) != closed:  # else only the answer was lost
                if not isinstance(error, ConditionFailedError):
                    raise
                if 1 in error.failures:
                    raise AlreadyExistsError("branch", new) from None
                if 2 in error.failures:
                    raise self._branches.not_here(error.failures[2]) from None
                raise _ChangedError from None
        try:
            yield closed
        except BaseException:
            with suppress(GravelerError):  # it has changed, or the lease runs out
                self._open_again(closed)
            raise

    def _open_again(self, closed: BranchState) -> None:
        """Take this rename's mark from the branch. One table read, one transaction."""
        now = self._refs.branch(closed.name)
        mine = closed.renaming
        if now is not None and now.renaming is not None and mine is not None and now.renaming.into == mine.into:
            self._tables.transact(self._branches.end_rename_writes(now))

    def _stage_again(self, closed: BranchState) -> BranchState:
        """Stage all that the branch's tokens hold under the mark's token, renewing the mark's lease; the branch as it is then."""
        assert closed.renaming is not None
        renewed = self._clock.monotonic()
        for _ in self._staged.stage_again((*closed.sealed, closed.open), closed.renaming.into):
            if self._clock.monotonic() - renewed > RENAME_LEASE / 3:
                beat = msgspec.structs.replace(closed.renaming, beat=token_hex(8))
                after = msgspec.structs.replace(closed, renaming=beat)
                try:
                    self._tables.transact(self._refs.move_branch_writes(closed, after, None))
                except ConditionFailedError:
                    if self._refs.branch(closed.name) != after:
                        raise _ChangedError from None
                closed, renewed = after, self._clock.monotonic()
        return closed

    def _move(self, closed: BranchState, new: str, by: str, operation: str, *, force: bool) -> Branch:
        """Give the branch its new name. One transaction. :class:`_ChangedError` if it is not as it was marked."""
        assert closed.renaming is not None
        into = closed.renaming.into
        tokens = (*closed.sealed, closed.open)
        event = self._branches.event("rename branch", by, operation)
        number = self._branches.next_number(new)
        renamed = BranchState(new, closed.commit_id, into, (), closed.hidden, moves=number)
        created = self._refs.create_branch_writes(renamed, event)
        removed = self._refs.delete_branch_writes(closed, event)
        # Whoever lists branches to collect garbage may miss one that is renamed meanwhile: so a commit that it holds for
        # unreachable is not moved, and the staged changes are noted.
        kept: list[Write] = [
            self._commits.alive_check(closed.commit_id),
            self._traces.gone_write("branch", closed.name, (*tokens, into)),
        ]
        for token in tokens:
            kept += self._branches.drop_token_writes(token, TokenState.RENAMED, operation, into=into)
        if closed.hidden:  # a transaction's branch under another name is its user's
            kept += [self._owners.gone_write(name) for name in (closed.name, new)]
        here = self._branches.here_check(force=force)
        try:
            self._branches.change(closed.name, [*created, here, *removed, *kept], event)
        except ConditionFailedError as error:
            if 0 in error.failures:
                raise AlreadyExistsError("branch", new) from None
            if len(created) in error.failures:
                raise self._branches.not_here(error.failures[len(created)]) from None
            if len(created) + 1 + len(removed) in error.failures:
                raise RefNotFoundError(closed.commit_id, "the commit does not exist, or has expired") from None
            raise _ChangedError from None
        return Branch(new, closed.commit_id, closed.hidden)


class _ChangedError(Exception):
    """The branch is not as it was marked: somebody published on it, deleted it, or opened it again."""
