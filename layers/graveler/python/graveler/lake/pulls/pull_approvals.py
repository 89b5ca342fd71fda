"""Giving approvals, and taking them back."""

from msgspec.structs import replace

from graveler.errors import InvalidError, MovedError
from graveler.history.commits import is_commit_id
from graveler.history.graph import merge_base
from graveler.lake.context import Context
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.approvals import approver_of, expect_not_own, without_approval
from graveler.lake.pulls.pull_changes import MAX_PEOPLE, change_pull
from graveler.lake.pulls.pull_merge import merge_when_ready
from graveler.lake.pulls.pull_sides import PullSides
from graveler.lake.pulls.pull_store import pull_number
from graveler.model import Actor
from graveler.requests import pulls as requests
from graveler.requests.pulls import Approval, PullRequest


def approve_pull_request(
    repository: RepositoryParts, request: requests.ApprovePullRequest, context: Context
) -> PullRequest:
    """See :class:`graveler.requests.pulls.ApprovePullRequest`."""
    actor = approver_of(context)
    if not is_commit_id(request.source_commit):
        raise InvalidError(
            f"{request.source_commit[:80]!r} is not a whole commit ID; approve the commit that you looked at"
        )

    def approve(sides: PullSides) -> PullRequest:
        pull = sides.opened()
        approval = _approval(repository, sides, request, actor)
        rest = without_approval(pull.approvals, actor.principal)
        if any(_same(approval, before) for before in pull.approvals):
            return pull
        if len(rest) >= MAX_PEOPLE:
            rest = tuple(before for before in rest if before.commit_id == approval.commit_id)
        if len(rest) >= MAX_PEOPLE:
            raise InvalidError(f"pull request {pull.number} has {MAX_PEOPLE} approvals, and more are not stored")
        return replace(pull, approvals=(*rest, approval), lacks=())

    approved = change_pull(repository, pull_number(request.pull), approve)
    return merge_when_ready(repository, approved, context)


def _approval(
    repository: RepositoryParts, sides: PullSides, request: requests.ApprovePullRequest, actor: Actor
) -> Approval:
    """Return the approval of an open pull request as its branches are. :class:`MovedError`, :class:`OwnApprovalError`."""
    pull, source, destination = sides.pull, sides.source, sides.destination
    assert source is not None and destination is not None  # noqa: PT018 - it is open
    if source.commit_id != request.source_commit:
        raise MovedError(source.name, request.source_commit, source.commit_id)
    base = merge_base(repository.commits, source.commit_id, destination.commit_id)
    if base is None:
        raise InvalidError(
            f"{source.name!r} and {destination.name!r} have no common history, so there is no merge to approve"
        )
    expect_not_own(repository, pull, actor, source.commit_id, destination.commit_id)
    return Approval(
        actor.principal,
        actor.name,
        source.commit_id,
        base,
        destination.commit_id,
        actor.key_id,
        int(repository.clock.now()),
        pull.strategies,
        pull.squash,
    )


def _same(approval: Approval, before: Approval) -> bool:
    """Return whether an earlier approval says the same as this one, whenever it was given."""
    return replace(before, created=approval.created) == approval


def withdraw_approval(repository: RepositoryParts, request: requests.WithdrawApproval, context: Context) -> PullRequest:
    """See :class:`graveler.requests.pulls.WithdrawApproval`."""
    actor = approver_of(context)

    def withdraw(sides: PullSides) -> PullRequest:
        pull = sides.opened()
        return replace(pull, approvals=without_approval(pull.approvals, actor.principal), lacks=())

    return change_pull(repository, pull_number(request.pull), withdraw)
