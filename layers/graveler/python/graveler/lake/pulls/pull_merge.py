"""Merging a pull request."""

from msgspec.structs import replace

from graveler.lake.context import Context
from graveler.lake.merging.merge import merge
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.pull_changes import change_pull
from graveler.lake.pulls.pull_sides import PullSides, mergeable
from graveler.lake.pulls.pull_store import PullStore, pull_number
from graveler.requests.merging import Merge
from graveler.requests.pulls import MergePullRequest, PullRequest, PullState


def merge_pull_request(repository: RepositoryParts, request: MergePullRequest, context: Context) -> PullRequest:
    """See :class:`graveler.requests.pulls.MergePullRequest`."""
    merged = merge_of(repository, request)
    if isinstance(merged, PullRequest):
        return merged
    merge(repository, merged, context)
    return PullStore(repository.tables, repository.uid).get(pull_number(request.pull))


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
