"""Documents about pull requests: lakeFS's, with more members."""

from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from graveler.model import Actor, CommitID, Lack
from graveler.requests import pulls
from graveler.requests.pulls import PullState, StateName
from graveler.wire.documents import Pagination
from graveler.wire.refs import IsolationName, PrefixStrategy, StrategyName
from graveler.wire.request_shapes import strategies_of, strategy_document


class Approval(Struct, frozen=True, kw_only=True):
    """An approval of a pull request: who gave it, and what it covers: the commit of the source, the merge
    base, and the terms of the merge; ``destination_commit_id`` is the destination's head at that time. It counts as long as
    these are the same, and the destination has the same objects where the source changed some."""

    principal: str
    name: str
    creation_date: str
    source_commit_id: str
    base_commit_id: str
    destination_commit_id: str
    strategy: StrategyName
    strategies: list[PrefixStrategy]
    isolation: IsolationName = ""
    squash_merge: bool

    def value(self) -> pulls.Approval:
        """Return it as an approval of the lake."""
        return pulls.Approval(
            self.principal,
            self.name,
            CommitID(self.source_commit_id),
            CommitID(self.base_commit_id),
            CommitID(self.destination_commit_id),
            created=_seconds(self.creation_date),
            strategies=strategies_of(self),
            squash=self.squash_merge,
        )


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request. ``status`` is ``open``, ``closed`` or ``merged``, ``reason`` the one for which it was closed, if nobody
    closed it. ``message``, ``strategy``, ``strategies``, ``isolation`` and ``squash_merge`` are the terms of its merge;
    ``when_ready`` is the name of the person for whom it is merged once its rules are fulfilled, or null. ``candidate_id`` is the
    commit that the last merge would have published, if it was refused, and ``lacks`` what it lacked, until the pull request
    changes. ``can_be_merged``: it is open, no draft, and nothing is known that it lacks. ``version`` counts its changes. Dates
    are RFC 3339."""

    id: str
    status: StateName
    title: str
    description: str
    author: str
    principal: str
    source_branch: str
    destination_branch: str
    creation_date: str
    closed_date: str | UnsetType = UNSET
    merged_commit_id: str | UnsetType = UNSET
    closed_by: str
    reason: str
    draft: bool
    reviewers: list[str]
    approvals: list[Approval]
    message: str
    strategy: StrategyName
    strategies: list[PrefixStrategy]
    isolation: IsolationName = ""
    squash_merge: bool
    when_ready: str | None
    candidate_id: str
    lacks: list[Lack]
    can_be_merged: bool
    version: int

    def value(self) -> pulls.PullRequest:
        """Return it as a pull request of the lake, without what identifies its branches."""
        return pulls.PullRequest(
            number=int(self.id),
            title=self.title,
            source=self.source_branch,
            destination=self.destination_branch,
            source_life="",
            destination_life="",
            state=PullState(self.status),
            description=self.description,
            author=self.author,
            principal=self.principal,
            draft=self.draft,
            created=_seconds(self.creation_date),
            closed=0 if self.closed_date is UNSET else _seconds(self.closed_date),
            closed_by=self.closed_by,
            reason=self.reason,
            merged_commit=CommitID("" if self.merged_commit_id is UNSET else self.merged_commit_id),
            message=self.message,
            strategies=strategies_of(self),
            squash=self.squash_merge,
            when_ready=None if self.when_ready is None else pulls.WaitingMerge(Actor(self.when_ready)),
            candidate=CommitID(self.candidate_id),
            lacks=tuple(self.lacks),
            reviewers=tuple(self.reviewers),
            approvals=tuple(approval.value() for approval in self.approvals),
            version=self.version,
        )


class PullRequestsList(Struct, frozen=True):
    """A page of pull requests, the newest first."""

    pagination: Pagination
    results: list[PullRequest]


class PullRequestCreationResponse(Struct, frozen=True):
    """The ID of a new pull request: its number as text."""

    id: str


class PullRequestComment(Struct, frozen=True):
    """A comment on a pull request. ``id`` is its number as text."""

    id: str
    author: str
    principal: str
    creation_date: str
    text: str

    def value(self) -> pulls.PullComment:
        """Return it as a comment of the lake."""
        return pulls.PullComment(int(self.id), self.text, self.author, self.principal, _seconds(self.creation_date))


class PullRequestComments(Struct, frozen=True):
    """A page of comments, the oldest first."""

    pagination: Pagination
    results: list[PullRequestComment]


def pull_document(pull: pulls.PullRequest) -> PullRequest:
    """Return a pull request as clients read it."""
    return PullRequest(
        id=pull.id,
        status=pull.state.value,
        title=pull.title,
        description=pull.description,
        author=pull.author,
        principal=pull.principal,
        source_branch=pull.source,
        destination_branch=pull.destination,
        creation_date=_date(pull.created),
        closed_date=_date(pull.closed) if pull.closed else UNSET,
        merged_commit_id=pull.merged_commit or UNSET,
        closed_by=pull.closed_by,
        reason=pull.reason,
        draft=pull.draft,
        reviewers=[*pull.reviewers],
        approvals=[*map(_approval_document, pull.approvals)],
        message=pull.message,
        squash_merge=pull.squash,
        when_ready=None if pull.when_ready is None else pull.when_ready.actor.name,
        candidate_id=pull.candidate,
        lacks=[*pull.lacks],
        can_be_merged=pull.is_open and not pull.draft and not pull.lacks,
        version=pull.version,
        **_strategies(pull),
    )


def comment_document(comment: pulls.PullComment) -> PullRequestComment:
    """Return a comment as clients read it."""
    return PullRequestComment(
        str(comment.number), comment.author, comment.principal, _date(comment.created), comment.text
    )


def _approval_document(approval: pulls.Approval) -> Approval:
    return Approval(
        principal=approval.principal,
        name=approval.name,
        creation_date=_date(approval.created),
        source_commit_id=approval.commit_id,
        base_commit_id=approval.base,
        destination_commit_id=approval.head,
        squash_merge=approval.squash,
        **_strategies(approval),
    )


def _strategies(terms: pulls.PullRequest | pulls.Approval) -> dict[str, Any]:
    document = strategy_document(terms.strategies)
    return {**document, "strategies": document["strategies"] or [], "isolation": document["isolation"] or ""}


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _seconds(date: str) -> int:
    return int(datetime.fromisoformat(date).timestamp())
