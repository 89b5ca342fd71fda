"""Moving a branch to an existing commit: hard reset and undo."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from graveler.errors import NotFoundError, PreconditionError, RefNotFoundError
from graveler.history.expressions import resolve
from graveler.history.reflog import LogEntry
from graveler.history.refs import BranchState
from graveler.lake.committing.clean_heads import wait_for_clean_head
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateKeeper, GateTerms
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Branch, CommitID
from graveler.requests.refs import HardReset, Undo
from graveler.storage.tables.port import Check, ConditionFailedError

_ROWS = 100
"""The number of rows of the reference log in which to look for the newest move. Rows that moved nothing (resets) may precede it,
and rows of machines whose clocks are ahead."""


def hard_reset(repository: RepositoryParts, request: HardReset, context: Context) -> Branch:
    """See :class:`graveler.requests.refs.HardReset`."""
    commit_id = resolve(request.ref, repository.refs, repository.commits).commit_id
    run = _run_of(request.request_id)
    return _move(repository, request, commit_id, "hard reset", context, run=run)


def undo(repository: RepositoryParts, request: Undo, context: Context) -> Branch:
    """See :class:`graveler.requests.refs.Undo`."""
    branch, run = request.branch, _run_of(request.request_id)
    state = repository.branches.state(branch)
    entries = _moves(repository, branch)
    if run and (done := _done_by(run, entries)) is not None:
        return Branch(branch, done)
    newest = next((e for e in entries if e.new == state.commit_id and e.old != state.commit_id), None)
    if newest is None or newest.old is None:
        raise NotFoundError(
            f"the reference log of branch {branch!r} does not say what moved it to where it is, so there is "
            "nothing to undo; use a hard reset to a commit"
        )
    return _move(repository, request, newest.old, "undo", context, only_from=state, run=run)


def _run_of(request_id: str) -> str:
    """Return the name in the reference log of what a request does; "" without an ID."""
    return sha256(request_id.encode()).hexdigest()[:32] if request_id else ""


def _moves(repository: RepositoryParts, branch: str) -> Sequence[LogEntry]:
    return repository.reflog.entries("branch", branch, _ROWS)


def _done_by(run: str, entries: Sequence[LogEntry]) -> CommitID | None:
    """Return where a run has moved the branch; None if it did not."""
    return next((entry.new for entry in entries if entry.event.operation_id == run), None)


def _move(
    repository: RepositoryParts,
    request: HardReset | Undo,
    commit_id: CommitID,
    verb: str,
    context: Context,
    *,
    only_from: BranchState | None = None,
    run: str = "",
) -> Branch:
    """Point the branch at the commit, if nothing is staged; with ``only_from``, only while it has that state's head. ``run``
    identifies this run in the reference log: if a concurrent attempt of the same request has moved the branch, return where to
    (promise C4). ``only_from`` is a state in which none had."""
    branch = request.branch
    terms = GateTerms(request=request, actor=context.actor, may_roll_back=True)
    gate = GateKeeper(repository, branch, verb, terms)
    intent = Intent(direct=True, force=request.force, accept=gate.accept)
    checked = only_from

    def done(state: BranchState) -> CommitID | None:
        # The log is read after the state, and the transaction requires that state: no attempt fits in between.
        nonlocal checked
        if not run or state == checked:
            return None
        checked = state
        return _done_by(run, _moves(repository, branch))

    with repository.turns.at(branch) as turn:
        while True:
            state = turn.state(intent)
            if (target := done(state)) is not None:
                return Branch(branch, target)
            if state.commit_id != commit_id:
                state, _, _ = wait_for_clean_head(repository, turn, branch, f"moving it to {commit_id[:16]}", intent)
                if (target := done(state)) is not None:
                    return Branch(branch, target)
            if only_from is not None and state.commit_id != only_from.commit_id:
                raise PreconditionError(
                    f"branch {branch!r} was moved by someone else during the undo; nothing was changed. "
                    "Check its reference log, and try again"
                )
            if state.commit_id == commit_id:
                return Branch(branch, commit_id)
            conditions = _admitted(repository, gate, state, commit_id)
            event = repository.branches.event(gate.log_words, context.by, run)
            moved = msgspec.structs.replace(state, commit_id=commit_id)
            writes = [
                *repository.refs.move_branch_writes(state, moved, event),
                repository.commits.alive_check(commit_id),
            ]
            try:
                repository.branches.change(branch, [*writes, *turn.release_writes(), *conditions], event)
                turn.mark_released()
                gate.report_admitted()
                repository.stager.forget()  # a token that a commit took holds what was undone
                return Branch(branch, commit_id)
            except ConditionFailedError as error:
                if len(writes) - 1 in error.failures:
                    raise RefNotFoundError(commit_id, "the commit does not exist, or has expired") from None
                turn.wait()


def _admitted(
    repository: RepositoryParts, gate: GateKeeper, state: BranchState, commit_id: CommitID
) -> Sequence[Check]:
    """Return the conditions on which rules let the branch move there. No request without rules. :class:`RuleError`."""
    if not gate.gate:
        return ()
    head, commit = repository.commits.get_many([state.commit_id, commit_id])
    return gate.admit(commit, head)
