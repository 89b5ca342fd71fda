"""The single point at which a commit appears: a transaction that moves the branch (promise C2)."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, auto

import msgspec

from graveler.errors import (
    AnswerLostError,
    BusyError,
    GravelerError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.history.refs import BranchState
from graveler.lake.committing.records import records_of
from graveler.lake.committing.request_results import results_of
from graveler.lake.deadline import Deadline
from graveler.lake.parts import RepositoryParts
from graveler.lake.stopped import StoppedError
from graveler.model import Commit, CommitID, Token
from graveler.staging.tokens import TokenState
from graveler.storage.tables.port import Check, ConditionFailedError, Write


class AlreadyDoneError(Exception):
    """The request's ID already has a result: this commit. For the verbs of this room only; no caller of theirs sees it."""

    def __init__(self, commit_id: CommitID) -> None:
        self.commit_id = commit_id
        super().__init__(commit_id)


class Publishing(Enum):
    """The state of an attempt to publish a commit. An attempt that stays ``BEGUN`` may have been made, or may yet take effect."""

    BEGUN = auto()
    FAILED = auto()
    DONE = auto()


NotePublishing = Callable[[Publishing], None]
"""Called at each change of the state."""


class HeadMovedError(Exception):
    """The branch has changed since the work began: read it again. For the verbs of this room only."""


def done_before(repository: RepositoryParts, request_id: str) -> CommitID | None:
    """Return the ID of the commit that a request with this ID has already made (promise C4). One table read, none without an
    ID."""
    return results_of(repository).find(request_id)


def commit_of_request(repository: RepositoryParts, request_id: str) -> Commit | None:
    """Return the commit of :func:`done_before`, read."""
    done = done_before(repository, request_id)
    return None if done is None else repository.commits.get(done)


def once(repository: RepositoryParts, request_id: str, make: Callable[[], Commit]) -> Commit:
    """Return the commit that ``make`` makes, or the one that a request with this ID has already made (promise C4).

    One table read, none without an ID. One more if ``make`` fails: another attempt of the same request may have been faster,
    and have consumed the changes that this one expected.
    """
    done = done_before(repository, request_id)
    if done is not None:
        return repository.commits.get(done)
    try:
        return make()
    except AlreadyDoneError as error:
        return repository.commits.get(error.commit_id)
    except GravelerError:
        done = done_before(repository, request_id)
        if done is None:
            raise
        return repository.commits.get(done)


def publish(
    repository: RepositoryParts,
    state: BranchState,
    commit: Commit,
    verb: str,
    deadline: Deadline,
    *,
    applied: tuple[Token, ...] = (),
    sources: Sequence[CommitID] = (),
    request_id: str = "",
    adopted: AbstractSet[str] = frozenset(),
    besides: Sequence[Write] = (),
    only_while: Check | None = None,
    note: NotePublishing = lambda _: None,
) -> None:
    """Move the branch from ``state`` to ``commit``, and take ``applied``, its oldest sealed tokens, from it. ``sources`` are
    parents that no branch is known to hold: they must not have expired (:class:`RefNotFoundError`). ``request_id`` and
    ``adopted``, the requests whose tokens are adopted, get this commit as their result (promise C4). ``deadline`` is that
    of the work: from before the first file was written, or found. ``besides`` is written in the same transaction; if a
    condition of it fails, :class:`HeadMovedError`. ``only_while`` is a condition of the transaction, too: if it fails, and
    the request has no commit, :class:`StoppedError`. ``note`` learns whether the transaction has been made.

    One object write (the commit record, before anything names it), one transaction. The condition is the whole state of
    the branch as it was read: the head that was built on, and the sealed tokens. :class:`HeadMovedError` if it changed,
    :class:`AlreadyDoneError` if another attempt of the same request was faster, :class:`TooLateError` past the
    deadline. After a lost response, a read shows whether the commit is in the table; the transaction is not repeated.
    """
    assert state.sealed[: len(applied)] == applied
    results, records = results_of(repository), records_of(repository)
    event = repository.branches.event(verb, commit.committer, commit.operation)
    # From now on, not from the commit's time, which the caller may choose.
    now = event.time_ns / 1e9
    after = msgspec.structs.replace(state, commit_id=commit.id, sealed=state.sealed[len(applied) :])
    written = repository.commits.put_write(commit, now)
    writes: list[Write] = [
        *repository.refs.move_branch_writes(state, after, event),
        written,
        *records.put(commit, now),
    ]
    for token in applied:
        writes += repository.branches.drop_token_writes(token, TokenState.PUBLISHED, commit.operation, commit.id)
    alive = range(len(writes), len(writes) + len(sources))
    writes += map(repository.commits.alive_check, sources)
    writes += besides
    condition = len(writes)
    if only_while is not None:
        writes.append(only_while)
    for id_, seen in results.undone(adopted - {request_id}).items():
        writes.append(results.done_write(id_, commit.id, now, seen))
    mine = [results.done_write(request_id, commit.id, now, None)] if request_id else []
    while True:
        deadline.check(f"{verb} on branch {state.name!r}")
        try:
            note(Publishing.BEGUN)
            repository.tables.transact([*writes, *mine])
            note(Publishing.DONE)
            repository.commits.remember(commit, written)
            records.settle_some(commit, now)
            return
        except ConditionFailedError as error:
            if len(writes) in error.failures:
                there = error.failures[len(writes)]
                done = results.commit_in(there)
                if done is not None:
                    note(Publishing.FAILED)
                    raise AlreadyDoneError(done) from None
                if there is not None and len(error.failures) == 1:  # its item says where this request's changes were
                    mine = [results.done_write(request_id, commit.id, now, there)]
                    continue
            if _published(repository, commit):
                note(Publishing.DONE)
                return  # a retry within the adapter found its own first attempt
            note(Publishing.FAILED)
            if only_while is not None and condition in error.failures:
                raise StoppedError(f"{verb} on branch {state.name!r} was stopped; nothing was changed") from None
            for number in alive:
                if number in error.failures:
                    raise RefNotFoundError(
                        sources[number - alive[0]], "the commit has expired; nothing was changed"
                    ) from None
            raise HeadMovedError from None
        except BusyError:
            note(Publishing.FAILED)
            raise
        except UnavailableError as error:
            if _published(repository, commit):
                note(Publishing.DONE)
                return
            if not isinstance(error, AnswerLostError):
                note(Publishing.FAILED)
            raise


def drop_tokens(repository: RepositoryParts, state: BranchState, applied: tuple[Token, ...], operation: str) -> None:
    """Take ``applied``, the oldest sealed tokens, from the branch: they hold no change of the head. One transaction.
    :class:`HeadMovedError`."""
    assert state.sealed[: len(applied)] == applied
    after = msgspec.structs.replace(state, sealed=state.sealed[len(applied) :])
    writes = repository.refs.move_branch_writes(state, after, None)
    for token in applied:
        alone = token == applied[0]
        writes += repository.branches.drop_token_writes(token, TokenState.DROPPED, operation, alone=alone)
    try:
        repository.tables.transact(writes)
    except ConditionFailedError:
        raise HeadMovedError from None


def _published(repository: RepositoryParts, commit: Commit) -> bool:
    """Return whether a transaction without a response happened: whether its commit's item exists. Its ID includes this
    operation's."""
    return bool(repository.commits.read([commit.id]))
