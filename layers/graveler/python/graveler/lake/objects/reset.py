"""Reset: dropping uncommitted changes.

*All* of them: one transaction takes every token from the branch and opens a new one. A concurrent writer that staged under an old
one stages again, as after a seal.

*Some* of them: the staged items are deleted from the **open** token, in transactions that check that the branch is exactly as
it was read. So no commit has sealed the token and read it, and no commit revives what readers no longer find.

If *sealed* tokens hold some too (their commit died; a held lease is waited for), deleting from the open one would uncover them.
So first everything that is to stay is brought back: for each other key, the newest item of the sealed tokens, tombstones too, is
put into the open one unless that has one, each transaction on condition that the branch is as it was read. One more on that
condition then takes the sealed tokens away.

Why nothing is lost or revived (promise C1):

- A copy has no visible effect: it hides the same value below. If a commit publishes the sealed tokens after it, the
  copy equals what the new head has: no change, just like a record that a late writer staged twice. If that commit publishes
  before, the next copy fails, and the reset starts over.
- A copy never replaces what was staged later. It revives nothing that another reset deleted meanwhile: that one would have had to
  take the sealed tokens away first, if they held the key, and then the branch has changed.
- A late write in a sealed token is not acknowledged before it is staged under the open one.
- A commit that was only slow finds its token gone, reset; it published nothing, and all of its changes are on the branch.
"""

from collections.abc import Callable, Iterable
from itertools import chain

import msgspec

from graveler.errors import ChangesHeldError, InvalidError
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.committing.publish import HeadMovedError
from graveler.lake.committing.restage import stage_again, while_unchanged
from graveler.lake.committing.sealing import take_sealed
from graveler.lake.context import Context
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.text import utf8
from graveler.requests.staging import Reset
from graveler.staging.changes import Staged
from graveler.staging.tokens import TokenOutcome, TokenState
from graveler.storage.tables.port import ConditionFailedError
from graveler.tree.listing import prefix_end
from graveler.tree.record import encode_key


def reset(repository: RepositoryParts, request: Reset, context: Context) -> None:
    """See :class:`graveler.requests.staging.Reset`."""
    branch, path, prefix, force = request.branch, request.path, request.prefix, request.force
    if path is not None and prefix is not None:
        raise InvalidError(f"reset either path {path!r} or prefix {prefix!r}, but not both")
    if path is not None:
        key = encode_key(path)
        _reset_interval(repository, branch, key, key + b"\0", context.by, force=force)
    elif prefix:
        encoded = utf8("prefix", prefix)
        _reset_interval(repository, branch, encoded, prefix_end(encoded), context.by, force=force)
    else:
        _reset_all(repository, branch, context.by, force=force)


def _reset_all(repository: RepositoryParts, branch: str, by: str, *, force: bool = False) -> None:
    def attempt(state: BranchState) -> bool:
        if not repository.staged.exists((state.open, *state.sealed)):
            return True
        if _take(repository, state, by) is None:
            return False
        opened = msgspec.structs.replace(state, open=repository.staged.next_token(state.open), sealed=())
        _move(repository, state, opened, by)
        return True

    _try(repository, branch, attempt, force=force)


def _reset_interval(
    repository: RepositoryParts, branch: str, start: bytes, end: bytes | None, by: str, *, force: bool = False
) -> None:
    """Drop the changes with ``start <= key < end``."""

    def attempt(state: BranchState) -> bool:
        opened, older = _find(repository, state, start, end)
        if older:
            if _take(repository, state, by) is None:
                return False
            state = _bring_back(repository, state, start, end, by)
            opened, _ = _find(repository, state, start, end)
        while_unchanged(
            repository,
            state,
            (repository.staged.delete_write(state.open, key, Staged(packed)) for key, packed in opened),
        )
        return True

    _try(repository, branch, attempt, force=force)


def _take(repository: RepositoryParts, state: BranchState, by: str) -> list[TokenOutcome] | None:
    """Return the outcomes of the sealed tokens, as :func:`take_sealed`, once the candidates that hold them are withdrawn."""
    try:
        return take_sealed(repository, state.sealed)
    except ChangesHeldError:
        from graveler.lake.gates.candidates import Candidates  # only where rules guard the branch

        held = repository.outcomes.get_many(state.sealed)
        now = repository.clock.now()
        Candidates(repository.tables, repository.uid).withdraw_holders(
            held, f"{by or 'somebody'} reset the branch", now
        )
        return None


def _try(repository: RepositoryParts, branch: str, attempt: Callable[[BranchState], bool], *, force: bool) -> None:
    backoff = Backoff(repository.clock)
    while True:
        try:
            if attempt(repository.branches.state(branch, Intent(direct=True, force=force))):
                return
        except HeadMovedError:
            pass
        if not backoff.wait():
            raise busy(branch)


def _find(
    repository: RepositoryParts, state: BranchState, start: bytes, end: bytes | None
) -> tuple[Iterable[tuple[bytes, bytes | None]], bool]:
    """Return what the open token holds, and whether sealed ones hold any. One table read for one key; else one for each token
    and shard, and as many again for each thousand."""
    if end == start + b"\0":
        top, *older = repository.staged.look((state.open, *state.sealed), start)
        return [] if top is None else [(start, top.packed)], any(change is not None for change in older)
    older_ones = bool(state.sealed) and bool(repository.staged.chunk(state.sealed, start, end, 1).keys)
    return repository.staged.scan([state.open], start, end), older_ones


def _bring_back(
    repository: RepositoryParts, state: BranchState, start: bytes, end: bytes | None, by: str
) -> BranchState:
    """Take the sealed tokens away, after staging their records of other keys again. :class:`HeadMovedError`."""
    newest_first = state.sealed[::-1]
    records = chain(
        repository.staged.scan(newest_first, b"", start),
        () if end is None else repository.staged.scan(newest_first, end),
    )
    stage_again(repository, state, records)
    return _move(repository, state, msgspec.structs.replace(state, sealed=()), by)


def _move(repository: RepositoryParts, state: BranchState, after: BranchState, by: str) -> BranchState:
    """Take the tokens from the branch that ``after`` does not have; return the branch as it is then. One transaction.
    :class:`HeadMovedError`."""
    event = repository.branches.event("reset", by)
    writes = repository.refs.move_branch_writes(state, after, event, amid_conditional=True)
    for token in (*state.sealed, state.open):
        if token != after.open:
            into = after.open if after.open == state.open else None  # its records of other keys were staged again
            writes += repository.branches.drop_token_writes(token, TokenState.RESET, event.operation_id, into=into)
    try:
        repository.branches.change(state.name, writes, event)
    except ConditionFailedError:
        raise HeadMovedError from None
    return msgspec.structs.replace(after, moves=state.moved(event).moves)
