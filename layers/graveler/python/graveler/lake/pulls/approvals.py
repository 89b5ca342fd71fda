"""The approvals of a pull request that cover a merge.

An approval is for one commit of the source since one base, merged by certain terms. It is stale if one of these is another. The
destination may have moved since, as long as it has the same objects where the source changed some: what the approver saw of the
merge is then what it does. People are told apart by principals alone, in which upper and lower case differ.
"""

from collections.abc import Iterator, Sequence

from graveler.errors import InvalidError, RefNotFoundError
from graveler.history.graph import commits_without
from graveler.lake.context import Context
from graveler.lake.merging.inputs import trees_of
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.pull_errors import OwnApprovalError
from graveler.model import Actor, Commit, CommitID, MergeStrategies
from graveler.requests.pulls import Approval, PullRequest
from graveler.tree.diff import Difference, diff


def actor_of(context: Context) -> Actor:
    """Return who asks. Without access control there is only a name, which is the principal then."""
    actor = context.actor
    if actor.principal:
        return actor
    name = actor.name or context.by
    return Actor(name, name, actor.key_id, actor.role)


def approver_of(context: Context) -> Actor:
    """Return who asks, for an approval. :class:`InvalidError` for somebody without a name."""
    actor = actor_of(context)
    if not actor.principal:
        raise InvalidError(
            "an approval needs the name of the person who gives it, and this caller has none; set a user"
        )
    return actor


def expect_not_own(
    repository: RepositoryParts, pull: PullRequest, actor: Actor, source: CommitID, head: CommitID
) -> None:
    """Check that a person is neither the author of the pull request nor of a commit that it brings from ``source`` into ``head``.
    :class:`OwnApprovalError`. Requests: those of :func:`graveler.history.graph.commits_without`."""
    names = {actor.name, actor.principal} - {""}
    if names & {pull.author, pull.principal}:
        raise OwnApprovalError(pull.id, actor.name, "it is theirs")
    for commit in commits_without(repository.commits, source, head):
        if commit.committer in names:
            raise OwnApprovalError(pull.id, actor.name, f"they made commit {commit.id[:16]}, which is in it")


def valid_approvals(
    repository: RepositoryParts,
    pull: PullRequest,
    source: Commit,
    base: Commit,
    head: Commit,
    strategies: MergeStrategies,
    squash: bool,
) -> tuple[Approval, ...]:
    """Return the approvals of a pull request that cover the merge of ``source`` since ``base`` into ``head`` by these terms.

    Whether the credentials of the approvers still count is not looked at. Cost: none as long as the destination has the head that
    was approved; else two metaranges and the ranges in which the heads differ for each head that was approved, and, if these
    differ at all, the ranges that the source changed.
    """
    apt = [
        approval
        for approval in pull.approvals
        if (approval.commit_id, approval.base) == (source.id, base.id)
        and (approval.strategies, approval.squash) == (strategies, squash)
        and not {approval.principal, approval.name} & ({pull.author, pull.principal} - {""})
    ]
    heads = {approval.head for approval in apt} - {head.id}
    moved = {approved for approved in heads if _overlaps(repository, source, base, approved, head)}
    return tuple(approval for approval in apt if approval.head not in moved)


def _overlaps(repository: RepositoryParts, source: Commit, base: Commit, approved_id: CommitID, head: Commit) -> bool:
    """Return whether the destination changed an object since the approved head that the source changed since the base."""
    try:
        approved = repository.commits.get(approved_id)
    except RefNotFoundError:
        return True
    if repository.commits.has_expired(approved_id):
        return True  # its tree may be gone
    if approved.metarange == head.metarange:
        return False
    before, after, old, new = trees_of(repository, approved, head, base, source)
    return share_a_key(diff(before, after), diff(old, new))


def share_a_key(differences: Iterator[Difference], more: Iterator[Difference]) -> bool:
    """Return whether two sequences of differences, each in key order, have a key in common. Reads both up to the first."""
    key = next((key for key, _, _ in differences), None)
    other = next((key for key, _, _ in more), None)
    while key is not None and other is not None:
        if key == other:
            return True
        if key < other:
            key = next((key for key, _, _ in differences), None)
        else:
            other = next((key for key, _, _ in more), None)
    return False


def without_approval(approvals: Sequence[Approval], principal: str) -> tuple[Approval, ...]:
    """Return the approvals of everybody but this principal."""
    return tuple(approval for approval in approvals if approval.principal != principal)
