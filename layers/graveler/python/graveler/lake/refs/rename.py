"""Renaming a branch, so that late writes under its old name never reach it under the new one (promise C1).

A process that remembers the branch's open token puts an item under it first and reads the branch afterwards. If a renamed branch
kept its tokens, such a put would replace a staged change, although the writer gets an error that its branch is gone. So a
rename stages the uncommitted changes again, under a token that the old name never had:

1. **Close.** One transaction marks the branch. From now on it acknowledges nothing: writers and other verbs wait.
2. **Stage again** what its tokens hold under a fresh token, the oldest first, items as they are.
3. **Move.** One transaction removes the old name and creates the new one with the fresh token, on condition that the branch is
   still exactly as it was marked. The old tokens' outcome records where their contents went.

If the branch changes in between (a commit in progress publishes), all begins again with another token. If the process dies,
the mark's lease expires, and the next process that wants to change the branch reopens it under its old name.
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
from graveler.history.owners import Owners
from graveler.history.refs import BranchState, Renaming
from graveler.lake.clock import Backoff
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateKeeper, GateTerms
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import RENAME_LEASE, Admission, busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Branch, Rules, Settings
from graveler.requests.refs import RenameBranch
from graveler.staging.tokens import TokenState
from graveler.storage.tables.port import Absent, Check, ConditionFailedError, Write


def rename(repository: RepositoryParts, request: RenameBranch, context: Context) -> Branch:
    """See :class:`graveler.requests.refs.RenameBranch`."""
    old, new, force = request.old, request.new, request.force
    if old == repository.default_branch:
        raise ForbiddenError(
            f"branch {old!r} is the default branch of repository {repository.name!r} and cannot be renamed"
        )
    repository.refs.branch_key(new)
    leaving = GateKeeper(
        repository,
        old,
        "rename branch",
        GateTerms(request=request, actor=context.actor, removes=True),
    )
    arriving = GateKeeper(repository, new, "rename branch", GateTerms(request=request, actor=context.actor))
    intent = Intent(direct=True, force=force, accept=leaving.accept)
    state = repository.branches.state(old, intent)
    if old == new:
        raise AlreadyExistsError("branch", new)
    backoff = Backoff(repository.clock)
    operation = token_hex(16)
    while True:
        try:
            admission = _admission(repository, leaving, arriving, state)
            with _closed(repository, state, new, leaving.rules, force=force) as closed:
                repository.applications.copy(old, new)  # a later publication moves the head: begin again
                staged = _stage_again(repository, closed)
                return _move(repository, staged, new, context.by, operation, leaving.rules, admission, force=force)
        except _ChangedError:
            if not backoff.wait():
                raise busy(old) from None
        state = repository.branches.state(old, intent)


def _admission(repository: RepositoryParts, leaving: GateKeeper, arriving: GateKeeper, state: BranchState) -> Admission:
    """Return the leave to give the branch its new name, by the rules that were read with the branch. :class:`RuleError`."""
    settings = Settings(rules=leaving.rules)
    return arriving.admission(settings, lambda: repository.commits.get(state.commit_id))


@contextmanager
def _closed(
    repository: RepositoryParts, state: BranchState, new: str, rules: Rules, *, force: bool
) -> Iterator[BranchState]:
    """Mark the branch while the body works; reopen it if the body fails. One transaction."""
    mark = Renaming(repository.staged.first_token(), token_hex(8))
    closed = msgspec.structs.replace(state, renaming=mark)
    free = Check(repository.refs.branch_key(new), Absent())
    try:
        repository.tables.transact(
            [
                *repository.refs.move_branch_writes(state, closed, None),
                free,
                repository.branches.here_check(rules.version, force=force),
            ]
        )
    except (ConditionFailedError, UnavailableError) as error:
        if repository.refs.branch(state.name) != closed:  # else only the response was lost
            if not isinstance(error, ConditionFailedError):
                raise
            if 1 in error.failures:
                raise AlreadyExistsError("branch", new) from None
            if 2 in error.failures:
                repository.branches.settings_here(error.failures[2], Settings(rules=rules), force=force)
            raise _ChangedError from None
    try:
        yield closed
    except BaseException:
        with suppress(GravelerError):  # it has changed, or the lease expires
            _open_again(repository, closed)
        raise


def _open_again(repository: RepositoryParts, closed: BranchState) -> None:
    """Remove this rename's mark from the branch. One table read, one transaction."""
    now = repository.refs.branch(closed.name)
    token = closed.renaming
    if now is not None and now.renaming is not None and token is not None and now.renaming.into == token.into:
        repository.tables.transact(repository.branches.end_rename_writes(now))


def _stage_again(repository: RepositoryParts, closed: BranchState) -> BranchState:
    """Stage all that the branch's tokens hold under the mark's token, renewing the mark's lease; return the branch as it is
    then."""
    assert closed.renaming is not None
    renewed = repository.clock.monotonic()
    for _ in repository.staged.stage_again((*closed.sealed, closed.open), closed.renaming.into):
        if repository.clock.monotonic() - renewed > RENAME_LEASE / 3:
            beat = msgspec.structs.replace(closed.renaming, beat=token_hex(8))
            after = msgspec.structs.replace(closed, renaming=beat)
            try:
                repository.tables.transact(repository.refs.move_branch_writes(closed, after, None))
            except ConditionFailedError:
                if repository.refs.branch(closed.name) != after:
                    raise _ChangedError from None
            closed, renewed = after, repository.clock.monotonic()
    return closed


def _move(
    repository: RepositoryParts,
    closed: BranchState,
    new: str,
    by: str,
    operation: str,
    rules: Rules,
    admission: Admission,
    *,
    force: bool,
) -> Branch:
    """Give the branch its new name. One transaction. :class:`_ChangedError` if it is not as it was marked, or the rules or
    statuses have changed."""
    assert closed.renaming is not None
    into = closed.renaming.into
    tokens = (*closed.sealed, closed.open)
    event = repository.branches.event("rename branch", by, operation)
    number = repository.branches.next_number(new)
    renamed = BranchState(new, closed.commit_id, into, (), closed.hidden, moves=number, rules=admission.version)
    created = repository.refs.create_branch_writes(renamed, event)
    removed = repository.refs.delete_branch_writes(closed, event)
    # A garbage collector that lists branches may miss one that is renamed meanwhile: so a commit that it considers
    # unreachable is not moved, and the staged changes are noted.
    writes: list[Write] = [
        repository.commits.alive_check(closed.commit_id),
        repository.traces.gone_write("branch", closed.name, (*tokens, into)),
    ]
    for token in tokens:
        writes += repository.branches.drop_token_writes(token, TokenState.RENAMED, operation, into=into)
    if closed.hidden:  # a transaction's branch under another name is its user's
        writes += [Owners(repository.tables, repository.uid).gone_write(name) for name in (closed.name, new)]
    condition = repository.branches.here_check(rules.version, force=force)
    try:
        repository.branches.change(closed.name, [*created, condition, *removed, *writes, *admission.checks], event)
    except ConditionFailedError as error:
        if 0 in error.failures:
            raise AlreadyExistsError("branch", new) from None
        if len(created) in error.failures:
            repository.branches.settings_here(error.failures[len(created)], Settings(rules=rules), force=force)
            raise _ChangedError from None
        if len(created) + 1 + len(removed) in error.failures:
            raise RefNotFoundError(closed.commit_id, "the commit does not exist, or has expired") from None
        raise _ChangedError from None
    return Branch(new, closed.commit_id, closed.hidden)


class _ChangedError(Exception):
    """The branch is not as it was marked: another process published on it, deleted it, or reopened it."""
