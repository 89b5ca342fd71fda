"""Merging a pull request."""

from contextlib import suppress

from msgspec.structs import replace

from graveler.errors import GravelerError, RuleError
from graveler.lake.context import Context
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.standing import counting
from graveler.lake.merging.merge import merge
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.approvals import actor_of
from graveler.lake.pulls.pull_changes import change_pull
from graveler.lake.pulls.pull_errors import PullRequestNotFoundError
from graveler.lake.pulls.pull_sides import PullSides, mergeable
from graveler.lake.pulls.pull_store import PullStore, pull_number
from graveler.model import Actor, Commit, CommitID
from graveler.requests.base import CommitInfo
from graveler.requests.merging import Merge
from graveler.requests.pulls import MergePullRequest, PullRequest, PullState, WaitingMerge


def merge_pull_request(repository: RepositoryParts, request: MergePullRequest, context: Context) -> PullRequest:
    """See :class:`graveler.requests.pulls.MergePullRequest`."""
    proposed = merge_of(repository, request)
    if isinstance(proposed, PullRequest):
        return proposed
    try:
        merge(repository, proposed, context)
    except RuleError as error:
        return note_refusal(repository, request, proposed, actor_of(context), error)
    return PullStore(repository.tables, repository.uid).get(pull_number(request.pull))


def note_refusal(
    repository: RepositoryParts, request: MergePullRequest, proposed: Merge, actor: Actor, error: RuleError
) -> PullRequest:
    """Note what a refused merge lacked, and let it wait for that if the request says so: then return the pull request. Otherwise
    raise the error again. Two table reads, one transaction."""
    waits = request.when_ready and all(lack.passing for lack in error.lacks)
    order = WaitingMerge(actor, request.info.metadata, request.expected_head, request.beside_uncommitted)

    def note(sides: PullSides) -> PullRequest:
        pull = replace(sides.opened(), candidate=CommitID(error.candidate), lacks=error.lacks)
        if not waits:
            return pull
        terms = {"message": proposed.info.message, "strategies": proposed.strategies, "squash": proposed.squash}
        return replace(pull, when_ready=order, **terms)

    try:
        noted = change_pull(repository, pull_number(request.pull), note)
    except GravelerError:
        raise error from None  # that it was not noted matters less
    if not waits:
        raise error
    return noted


def merge_when_ready(repository: RepositoryParts, pull: PullRequest, context: Context) -> PullRequest:
    """Make the merge of a pull request that waits, if its rules are fulfilled by now, and return the pull request; whatever
    refuses it, it goes on waiting. ``context`` has the limits of the work. No request if none waits; one table read more than the
    merge."""
    order = pull.when_ready
    if order is None or not pull.is_open:
        return pull
    if order.actor.key_id not in counting(repository.tables, [order.actor.key_id]):
        return pull  # it was revoked since
    request = MergePullRequest(
        pull=pull.id,
        info=CommitInfo(pull.message, order.actor.name, order.metadata),
        expected_head=order.expected_head,
        beside_uncommitted=order.beside_uncommitted,
        when_ready=True,
    )
    within = Context(by=order.actor.name, actor=order.actor, limit=context.limit, stop=context.stop)
    with suppress(GravelerError):
        return merge_pull_request(repository, request, within)
    return pull


def merge_candidate_when_ready(repository: RepositoryParts, commit: Commit, context: Context) -> None:
    """Make the merge of a pull request that waits for a status of this commit, its candidate: :func:`merge_when_ready`. One table
    read, two more for the candidate of a pull request."""
    row = Candidates(repository.tables, repository.uid).get(commit.operation)
    if row is not None and row.in_progress and row.candidate.pull_request:
        with suppress(PullRequestNotFoundError):
            pull = PullStore(repository.tables, repository.uid).get(row.candidate.pull_request)
            merge_when_ready(repository, pull, context)


def merge_of(repository: RepositoryParts, request: MergePullRequest) -> Merge | PullRequest:
    """Return the merge that a request for the merge of a pull request asks for, with the terms of the pull request where the
    request has none; or the pull request, if it is merged already. Two table reads. :class:`PullRequestNotFoundError`,
    :class:`PullRequestEndedError`, :class:`PreconditionError` for a draft."""

    def look(sides: PullSides) -> PullRequest:
        return sides.pull if sides.pull.state is PullState.MERGED else mergeable(sides)

    pull = change_pull(repository, pull_number(request.pull), look)
    if pull.state is PullState.MERGED:
        return pull
    message = request.info.message or pull.message or f"Merge pull request {pull.number}: {pull.title}"
    return Merge(
        source=pull.source,
        destination=pull.destination,
        info=replace(request.info, message=message),
        strategies=pull.strategies if request.strategies is None else request.strategies,
        squash=pull.squash if request.squash is None else request.squash,
        expected_head=request.expected_head,
        beside_uncommitted=request.beside_uncommitted,
        allow_empty=request.allow_empty,
        force=request.force,
        pull_request=pull.id,
    )
