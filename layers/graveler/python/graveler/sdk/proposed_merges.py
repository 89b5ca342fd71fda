"""The pull requests of a repository."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graveler import requests
from graveler.lake.context import Context
from graveler.model import CommitID, MergeStrategies, MergeStrategy
from graveler.requests.base import CommitInfo
from graveler.sdk.reference import ReferenceType, read_strategies, ref_of
from graveler.system.tracebacks import short_tracebacks
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.files.repository import RepositoryAccess
    from graveler.requests.pulls import PullComment, PullRequest, StatusFilter

_PAGE = 1000


@short_tracebacks()
class PullRequests:
    """The pull requests of a repository: ``repository.pulls``. Each is a value of :class:`PullRequest`, as of when it was read;
    its ``id`` names it. Cost and errors are those of the requests in :mod:`graveler.requests.pulls`."""

    def __init__(self, access: "RepositoryAccess") -> None:
        self._access = access

    def create(
        self,
        source: ReferenceType,
        destination: ReferenceType,
        title: str,
        description: str = "",
        *,
        draft: bool = False,
        reviewers: Sequence[str] = (),
        message: str = "",
        strategy: MergeStrategy | MergeStrategies | str = MergeStrategy.NONE,
        squash_merge: bool = False,
    ) -> "PullRequest":
        """Propose to merge the branch ``source`` into the branch ``destination``. ``message``, ``strategy`` and ``squash_merge``
        are the terms of the merge. :class:`CreatePullRequest`."""
        request = requests.pulls.CreatePullRequest(
            title=title,
            source=ref_of(source),
            destination=ref_of(destination),
            description=description,
            draft=draft,
            reviewers=tuple(reviewers),
            message=message,
            strategies=read_strategies(strategy),
            squash=squash_merge,
        )
        return self._access.repository.run(request, self._context)

    def get(self, pull: str | int) -> "PullRequest":
        """Return a pull request by its number. :class:`PullRequestNotFoundError`."""
        return self._access.repository.pull_request(str(pull))

    def list(self, status: "StatusFilter" = "open") -> "Iterator[PullRequest]":
        """Yield the pull requests, the newest first: ``open`` ones, ``closed`` ones, which include the ``merged`` ones, or
        ``all``. One request for each thousand, as of :meth:`OpenRepository.pull_requests`."""
        return items(lambda after: self._access.repository.pull_requests(status, after=after, amount=_PAGE))

    def update(
        self,
        pull: str | int,
        *,
        title: str | None = None,
        description: str | None = None,
        draft: bool | None = None,
        reviewers: Sequence[str] | None = None,
        message: str | None = None,
        strategy: MergeStrategy | MergeStrategies | str | None = None,
        squash_merge: bool | None = None,
    ) -> "PullRequest":
        """Change a pull request; what is None stays. :class:`UpdatePullRequest`."""
        request = requests.pulls.UpdatePullRequest(
            pull=str(pull),
            title=title,
            description=description,
            draft=draft,
            reviewers=None if reviewers is None else tuple(reviewers),
            message=message,
            strategies=None if strategy is None else read_strategies(strategy),
            squash=squash_merge,
        )
        return self._access.repository.run(request, self._context)

    def close(self, pull: str | int) -> "PullRequest":
        """Close a pull request without a merge."""
        request = requests.pulls.UpdatePullRequest(pull=str(pull), status="closed")
        return self._access.repository.run(request, self._context)

    def reopen(self, pull: str | int) -> "PullRequest":
        """Open a closed pull request again."""
        request = requests.pulls.UpdatePullRequest(pull=str(pull), status="open")
        return self._access.repository.run(request, self._context)

    def approve(self, pull: str | int, source_commit: ReferenceType) -> "PullRequest":
        """Approve a pull request, as it is at the commit of its source that was looked at: its whole ID.
        :class:`ApprovePullRequest`."""
        request = requests.pulls.ApprovePullRequest(pull=str(pull), source_commit=CommitID(ref_of(source_commit)))
        return self._access.repository.run(request, self._context)

    def withdraw_approval(self, pull: str | int) -> "PullRequest":
        """Take one's approval back. :class:`WithdrawApproval`."""
        request = requests.pulls.WithdrawApproval(pull=str(pull))
        return self._access.repository.run(request, self._context)

    def comment(self, pull: str | int, text: str) -> "PullComment":
        """Comment on a pull request. :class:`CommentOnPullRequest`."""
        request = requests.pulls.CommentOnPullRequest(pull=str(pull), text=text)
        return self._access.repository.run(request, self._context)

    def comments(self, pull: str | int) -> "Iterator[PullComment]":
        """Yield the comments on a pull request, the oldest first. One request for each thousand, as of
        :meth:`OpenRepository.pull_comments`."""
        return items(lambda after: self._access.repository.pull_comments(str(pull), after=after, amount=_PAGE))

    def merge(
        self,
        pull: str | int,
        *,
        message: str = "",
        strategy: MergeStrategy | MergeStrategies | str | None = None,
        squash_merge: bool | None = None,
        expected_head: ReferenceType | None = None,
        when_ready: bool = False,
    ) -> "PullRequest":
        """Merge a pull request, by its own terms where none are given. It is merged together with its destination;
        ``merged_commit`` is the merge. With ``when_ready``, it may still be open: it is merged once its rules are fulfilled.
        :class:`MergePullRequest`."""
        request = requests.pulls.MergePullRequest(
            pull=str(pull),
            info=CommitInfo(message, self._access.user),
            strategies=None if strategy is None else read_strategies(strategy),
            squash=squash_merge,
            expected_head=None if expected_head is None else CommitID(ref_of(expected_head)),
            when_ready=when_ready,
        )
        return self._access.repository.run(request, self._context)

    @property
    def _context(self) -> Context:
        return Context(by=self._access.user)

    def __repr__(self) -> str:
        return f"PullRequests({self._access.id!r})"
