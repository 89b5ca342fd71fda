"""Sealing: closing a branch's open token, so that a commit can take its changes, and the lease on it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from graveler.errors import GravelerError, NoChangesError
from graveler.history.refs import BranchState
from graveler.lake.committing.publish import HeadMovedError
from graveler.lake.committing.restage import empty_sealed
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.turns import Turn
from graveler.model import Token
from graveler.staging.tokens import LEASE, TokenOutcome
from graveler.storage.tables.port import ConditionFailedError

RENEWALS: Final = 3
"""The number of renewals in each length of a lease while its owner works. The next commit waits for a killed owner for the
lease's length; an owner that pauses for longer may find its work done by another, which is harmless."""

MAX_SEALED: Final = 30
"""The maximum number of sealed tokens of a branch. Each takes three of the hundred writes of a transaction that takes them all.
After so many commits have died or failed, the next one stages again what they had sealed."""

MAX_QUEUE: Final = 4
"""The number of commits that queue on a branch, each with a sealed token. Later ones wait before they seal: one that dies
waiting then leaves no lease behind for which the next ones have to wait."""


class Sealed(msgspec.Struct, frozen=True):
    """The result of a seal: the branch's ``state``. ``own_token`` is the last of its sealed tokens, if this operation sealed
    it."""

    state: BranchState
    own_token: Token | None = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens to take, the oldest first."""
        return self.state.sealed


def seal(
    repository: RepositoryParts,
    branch: str,
    operation: str,
    request: str = "",
    intent: Intent | None = None,
    *,
    patient: bool = False,
) -> Sealed:
    """Close the branch's open token, if anything is staged under it: later staged changes belong to the next commit.

    ``request`` is the ID of the user's request, for a process that has to finish it (promise C4). With an ``intent``,
    :class:`ForbiddenError` if the repository's settings refuse it. ``patient`` is as of :meth:`Turns.at`.
    One table read of the branch, as :meth:`Turn.state`, one for each of the token's shards, at most, to see that something is
    staged; one transaction. Waits if more than a few commits are already queued. If :data:`MAX_SEALED` have died, once as
    :func:`empty_sealed`. :class:`ChangesHeldError` if a candidate holds sealed tokens: one table read more for a branch that
    rules guard.
    """
    with repository.turns.at(branch, patient=patient) as turn:
        return seal_in(repository, turn, operation, request, intent, leave=True)


def seal_in(
    repository: RepositoryParts,
    turn: Turn,
    operation: str,
    request: str = "",
    intent: Intent | None = None,
    *,
    leave: bool = False,
) -> Sealed:
    """Do the work of :func:`seal` for a verb whose turn it is. ``leave``: the turn ends with it."""
    while True:
        state = turn.state(intent)
        if state.rules and state.sealed:
            take_sealed(repository, state.sealed)  # before another token is sealed: raises if a candidate holds them
        if not repository.staged.exists([state.open]):
            return Sealed(state)
        if len(state.sealed) >= MAX_QUEUE and take_sealed(repository, state.sealed) is None:
            turn.wait()
            continue
        if len(state.sealed) >= MAX_SEALED:
            try:
                empty_sealed(repository, state, operation)
            except HeadMovedError:
                turn.wait()
            continue
        fresh = repository.staged.next_token(state.open)
        after = msgspec.structs.replace(state, open=fresh, sealed=(*state.sealed, state.open))
        writes = repository.refs.move_branch_writes(state, after, None, amid_conditional=True)
        writes.append(repository.outcomes.seal_write(state.open, operation, LEASE, request))
        try:
            repository.tables.transact([*writes, *(turn.release_writes() if leave else ())])
        except ConditionFailedError:
            outcome = repository.outcomes.get(state.open)
            if outcome is None or outcome.owner != operation:
                turn.wait()
                continue
            # Else an earlier attempt, whose response was lost.
        if leave:
            turn.mark_released()
        return Sealed(after, state.open)


def own_token(repository: RepositoryParts, state: BranchState, operation: str) -> Token | None:
    """Return the sealed token of the branch that this operation has already sealed, if there is one. One table read, none if
    nothing is sealed."""
    if not state.sealed:
        return None
    outcomes = repository.outcomes.get_many(state.sealed)
    tokens = (t for t, o in zip(state.sealed, outcomes, strict=True) if o is not None and o.owner == operation)
    return next(tokens, None)


def release(repository: RepositoryParts, token: Token, operation: str) -> None:
    """Release the lease on a token: the next commit takes it at once. One table write, nothing if it is not held."""
    with suppress(ConditionFailedError):
        _renew(repository, token, operation, 0.0, "")


def take_sealed(
    repository: RepositoryParts, tokens: tuple[Token, ...], candidate: str = ""
) -> list[TokenOutcome] | None:
    """Return the outcomes of sealed tokens that may be taken now; None while the lease of an owner is held, as far as this
    process knows: it watches a lease for its length before it takes the token (:class:`LeaseWatch`). One table read, none for no
    tokens.

    A candidate holds its tokens until it ends: :class:`ChangesHeldError`, unless it is ``candidate``, its process has died, or
    its time is over, which ends it. One table read more, and a write if it ends."""
    outcomes = repository.outcomes.get_many(tokens) if tokens else []
    outcome_of = [(token, outcome) for token, outcome in zip(tokens, outcomes, strict=True) if outcome is not None]
    if not end_holders(repository, [outcome for _, outcome in outcome_of], candidate):
        return None
    held = [
        _is_held(repository, token, outcome) for token, outcome in outcome_of
    ]  # of all of them: each is watched from now on
    return None if any(held) else [outcome for _, outcome in outcome_of]


def end_holders(repository: RepositoryParts, outcomes: Iterable[TokenOutcome], candidate: str) -> bool:
    """Return whether no other candidate than this one holds tokens with these outcomes: those whose time is over end. False while
    it is unknown whether the process of one is alive. :class:`ChangesHeldError`. No request if none holds them, else one table
    read for each, and a write if it ends."""
    holders = sorted({outcome.owner for outcome in outcomes if outcome.is_held} - {candidate})
    if not holders:
        return True
    from graveler.lake.gates.candidates import Candidates  # only where rules guard the branch

    candidates, now = Candidates(repository.tables, repository.uid), repository.clock.now()
    return all(candidates.release(holder, now, repository.leases) for holder in holders)


def _is_held(repository: RepositoryParts, token: Token, outcome: TokenOutcome) -> bool:
    return bool(outcome.beat) and repository.leases.is_held(f"token/{token}", outcome.beat, outcome.seconds)


@contextmanager
def holding(
    repository: RepositoryParts, token: Token | None, operation: str, request: str = "", leave: float = 0.0
) -> Iterator[None]:
    """Renew the lease of the own token while the body works, from another thread, so that others do not take over long builds.

    Release it if the body fails, so that the next operation need not wait for it (promise C5). With ``leave``, instead renew it
    for so many seconds when the body begins and ends, so that another process of the operation can continue.
    """
    if token is None:
        yield
        return
    if leave:  # another process of the operation had it before
        with suppress(ConditionFailedError):
            _renew(repository, token, operation, max(leave, LEASE), request)

    def renew() -> None:
        # It may be adopted, or done. If failures last, others may do the same work, and the first one wins.
        with suppress(ConditionFailedError, GravelerError):
            _renew(repository, token, operation, max(leave, LEASE), request)

    failed = True
    try:
        with repository.clock.repeating(LEASE / RENEWALS, renew):
            yield
        failed = False
    except NoChangesError:
        failed = False  # the token is gone
        raise
    finally:
        with suppress(GravelerError):  # it expires by itself; or it is not held any more
            if leave:
                _renew(repository, token, operation, leave, request)
            elif failed:
                _renew(repository, token, operation, 0.0, request)


def _renew(repository: RepositoryParts, token: Token, operation: str, seconds: float, request: str) -> None:
    write = repository.outcomes.renew_write(token, operation, seconds, request)
    repository.tables.put(write.key, write.item, write.condition)
