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
from graveler.lake.deadline import Deadline, StoppedError
from graveler.lake.parts import RepositoryParts
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
    return repository.results.find(request_id)


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


class Prepared(msgspec.Struct, frozen=True):
    """The commit exists already, as a candidate, which holds it and its files. ``writes`` end the candidate, on the conditions on
    which it was judged; ``happened`` reads whether such a transaction was made, since the commit's existence proves nothing."""

    writes: Sequence[Write]
    happened: Callable[[], bool]


def publish(
    repository: RepositoryParts,
    state: BranchState,
    commit: Commit,
    verb: str,
    deadline: Deadline | None,
    *,
    applied: tuple[Token, ...] = (),
    required_commits: Sequence[CommitID] = (),
    request_id: str = "",
    adopted: AbstractSet[str] = frozenset(),
    extra_writes: Sequence[Write] = (),
    condition: Check | None = None,
    note: NotePublishing = lambda _: None,
    prepared: Prepared | None = None,
) -> None:
    """Move the branch from ``state`` to ``commit``, and take ``applied``, its oldest sealed tokens, from it. ``required_commits``
    are parents that no branch is known to hold: they must not have expired (:class:`RefNotFoundError`). ``request_id`` and
    ``adopted``, the requests whose tokens are adopted, get this commit as their result (promise C4). ``deadline`` is that of the
    work: from before the first file was written, or found. ``extra_writes`` are made in the same transaction; if a condition of
    theirs fails, :class:`HeadMovedError`. ``condition`` is one of the transaction, too: if it fails, and the request has no
    commit, :class:`StoppedError`. ``note`` learns whether the transaction has been made. A ``prepared`` commit has no deadline:
    its candidate holds what it needs.

    One object write (the commit record, before anything names it), one transaction. The condition is the whole state of
    the branch as it was read: the head that was built on, and the sealed tokens; without ``applied`` also that there was no
    conditional write, which could have required what the commit changes. :class:`HeadMovedError` if it changed, or a condition of
    ``prepared`` failed;
    :class:`AlreadyDoneError` if another attempt of the same request was faster, :class:`TooLateError` past the
    deadline. After a lost response, a read shows whether the commit is in the table; the transaction is not repeated.
    """
    assert state.sealed[: len(applied)] == applied
    results, records = repository.results, repository.records
    event = repository.branches.event(verb, commit.committer, commit.operation)
    # From now on, not from the commit's time, which the caller may choose.
    now = event.time_ns / 1e9
    after = msgspec.structs.replace(state, commit_id=commit.id, sealed=state.sealed[len(applied) :])
    written = repository.commits.put_write(commit, now) if prepared is None else None
    stored = [repository.commits.alive_check(commit.id)] if written is None else [written, *records.put(commit, now)]
    writes: list[Write] = [
        *repository.refs.move_branch_writes(state, after, event, amid_conditional=bool(applied)),
        *stored,
        *(() if prepared is None else prepared.writes),
    ]
    for token in applied:
        writes += repository.branches.drop_token_writes(token, TokenState.PUBLISHED, commit.operation, commit.id)
    required = range(len(writes), len(writes) + len(required_commits))
    writes += map(repository.commits.alive_check, required_commits)
    writes += extra_writes
    condition_number = len(writes)
    if condition is not None:
        writes.append(condition)
    for id_, item in results.undone(adopted - {request_id}).items():
        writes.append(results.done_write(id_, commit.id, now, item))
    result_writes = [results.done_write(request_id, commit.id, now, None)] if request_id else []

    def happened() -> bool:
        return _published(repository, commit) if prepared is None else prepared.happened()

    while True:
        if deadline is not None:
            deadline.check(f"{verb} on branch {state.name!r}")
        try:
            note(Publishing.BEGUN)
            repository.tables.transact([*writes, *result_writes])
            note(Publishing.DONE)
            if written is not None:
                repository.commits.remember(commit, written)
            records.settle_some(commit, now)
            return
        except ConditionFailedError as error:
            if len(writes) in error.failures:
                result_item = error.failures[len(writes)]
                done = results.commit_in(result_item)
                if done is not None:
                    note(Publishing.FAILED)
                    raise AlreadyDoneError(done) from None
                if (
                    result_item is not None and len(error.failures) == 1
                ):  # its item says where this request's changes were
                    result_writes = [results.done_write(request_id, commit.id, now, result_item)]
                    continue
            if happened():
                note(Publishing.DONE)
                return  # a retry within the adapter found its own first attempt
            note(Publishing.FAILED)
            if condition is not None and condition_number in error.failures:
                raise StoppedError(f"{verb} on branch {state.name!r} was stopped; nothing was changed") from None
            for number in required:
                if number in error.failures:
                    raise RefNotFoundError(
                        required_commits[number - required[0]], "the commit has expired; nothing was changed"
                    ) from None
            raise HeadMovedError from None
        except BusyError:
            note(Publishing.FAILED)
            raise
        except UnavailableError as error:
            if happened():
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
    writes = repository.refs.move_branch_writes(state, after, None, amid_conditional=True)
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
