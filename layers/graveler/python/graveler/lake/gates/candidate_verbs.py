"""The end of a candidate by hand: somebody publishes or withdraws it."""

from functools import partial
from typing import NoReturn

from graveler.errors import BusyError, ForbiddenError, InvalidError, PreconditionError
from graveler.lake.committing.publish import AlreadyDoneError, HeadMovedError
from graveler.lake.context import Context
from graveler.lake.gates.candidates import CandidateRow, Candidates, ended_error
from graveler.lake.gates.gate import GateTerms
from graveler.lake.gates.passage import Passage, Publication
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Actor, Candidate, CandidateState, Commit
from graveler.requests.committing import PublishCandidate, WithdrawCandidate


def publish_candidate(repository: RepositoryParts, request: PublishCandidate, context: Context) -> Commit:
    """See :class:`graveler.requests.committing.PublishCandidate`."""
    store = Candidates(repository.tables, repository.uid)
    row = store.find(request.candidate, repository.commits)
    candidate = row.candidate
    if candidate.state is CandidateState.PUBLISHED:
        return repository.commits.get(candidate.commit_id)
    now = repository.clock.now()
    if row.in_progress and (end := store.over(row, now, repository.leases)) is not None:
        row = store.end(row, *end, now)
    if not row.in_progress:
        raise ended_error(row)
    if candidate.pull_request:
        raise InvalidError(
            f"candidate {candidate.id} belongs to pull request {candidate.pull_request}; merge that, which publishes it"
        )
    passage = Passage(repository, candidate.destination, candidate.verb, terms_of(candidate, request, context.actor))
    attempt = passage.reopen(row, Intent(direct=passage.terms.direct, accept=passage.accept))
    if attempt is None:
        _refuse(row)
    try:
        return passage.finish(attempt, partial(_publication, repository, row, context))
    except AlreadyDoneError as error:
        reason = f"commit {error.commit_id} of the same request is published"
        raise ended_error(store.end(row, CandidateState.SUPERSEDED, reason, now)) from None
    except HeadMovedError:
        _refuse(row)


def _publication(repository: RepositoryParts, row: CandidateRow, context: Context) -> Publication:
    """Return what fulfils the candidate's request in the transaction that publishes it. A table read for a numbered write."""
    candidate, numbered = row.candidate, row.application
    writes = []
    if numbered is not None:
        last = repository.applications.last(candidate.destination, numbered)
        writes = [repository.applications.write(candidate.destination, numbered, candidate.commit_id, last)]
    return Publication(request_id=row.request_id, extra_writes=writes, condition=context.only_while)


def withdraw_candidate(repository: RepositoryParts, request: WithdrawCandidate, context: Context) -> None:
    """See :class:`graveler.requests.committing.WithdrawCandidate`."""
    store = Candidates(repository.tables, repository.uid)
    row = store.find(request.candidate, repository.commits)
    candidate, actor = row.candidate, context.actor
    if actor.role != "admin" and actor.principal != candidate.principal:
        raise ForbiddenError(
            f"candidate {candidate.id} was made by {candidate.author or candidate.principal!r}; ask them, or an admin, to "
            "withdraw it"
        )
    if row.in_progress:
        reason = f"by {actor.name or context.by or 'somebody'}"
        row = store.end(row, CandidateState.WITHDRAWN, reason, repository.clock.now())
    if row.candidate.state is not CandidateState.WITHDRAWN:
        raise ended_error(row)


def terms_of(candidate: Candidate, request: PublishCandidate | None, actor: Actor) -> GateTerms:
    """Return the terms on which a candidate is judged again."""
    is_merge = bool(candidate.base)
    strategies = candidate.strategies if is_merge else None
    return GateTerms(request=request, actor=actor, strategies=strategies, direct=not is_merge)


def _refuse(row: CandidateRow) -> NoReturn:
    """Raise the error for a candidate that is open, and cannot be published."""
    candidate = row.candidate
    if row.beat:
        raise BusyError(
            f"a process is at work on candidate {candidate.id}: its checks run; try again when they have ended"
        )
    raise PreconditionError(
        f"branch {candidate.destination!r} has changed since candidate {candidate.id} was made; repeat the {candidate.verb}, "
        "which makes a new one"
    )
