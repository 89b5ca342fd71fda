"""The pull requests of a repository behind the HTTP API."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.errors import MergeConflictError
from graveler.lake.context import Context
from graveler.model import Page
from graveler.remote.connection import PAGE, Query
from graveler.remote.error_responses import refusal
from graveler.remote.reading import RemoteReader
from graveler.remote.sending import send
from graveler.requests import pulls
from graveler.requests.base import Request
from graveler.requests.pulls import PullComment, PullRequest, StatusFilter
from graveler.wire import pull_documents
from graveler.wire.error_documents import Error


class RemotePullRequests(RemoteReader):
    """The reads of pull requests, and the runs of requests about them: each one request to the server unless stated otherwise."""

    def pull_request(self, pull: str) -> PullRequest:
        """Return a pull request by its number as text, without what identifies its branches.
        :class:`PullRequestNotFoundError`."""
        return self._connection.get((*self._base, "pulls", pull), pull_documents.PullRequest).value()

    def pull_requests(
        self, status: StatusFilter = "all", *, after: str = "", amount: int = 100, prefix: str = ""
    ) -> Page[PullRequest]:
        """List pull requests, the newest first."""
        query: Query = {"status": status, "after": after, "amount": min(amount, PAGE), "prefix": prefix}
        page = self._connection.get((*self._base, "pulls"), pull_documents.PullRequestsList, query)
        return Page(tuple(pull.value() for pull in page.results), page.pagination.next_after)

    def pull_comments(self, pull: str, *, after: str = "", amount: int = 100) -> Page[PullComment]:
        """List the comments on a pull request, the oldest first."""
        path = (*self._base, "pulls", pull, "comments")
        query: Query = {"after": after, "amount": min(amount, PAGE)}
        page = self._connection.get(path, pull_documents.PullRequestComments, query)
        return Page(tuple(comment.value() for comment in page.results), page.pagination.next_after)

    def _create_pull_request(self, request: pulls.CreatePullRequest, _: Context) -> PullRequest:
        """Create a pull request. Two requests."""
        response = send(self._connection, self._name, request)
        return self.pull_request(response.read(pull_documents.PullRequestCreationResponse).id)

    def _update_pull_request(self, request: pulls.UpdatePullRequest, _: Context) -> PullRequest:
        """Change a pull request. Two requests."""
        send(self._connection, self._name, request)
        return self.pull_request(request.pull)

    def _change_approval(self, request: pulls.ApprovePullRequest | pulls.WithdrawApproval, _: Context) -> PullRequest:
        return send(self._connection, self._name, request).read(pull_documents.PullRequest).value()

    def _comment(self, request: pulls.CommentOnPullRequest, _: Context) -> PullComment:
        return send(self._connection, self._name, request).read(pull_documents.PullRequestComment).value()

    def _merge_pull_request(self, request: pulls.MergePullRequest, _: Context) -> PullRequest:
        """Merge a pull request. Two requests; on conflicts also :meth:`preview_merge`, which lists them."""
        response = send(self._connection, self._name, request, passing=(409,))
        pull = self.pull_request(request.pull)
        if response.status != 409:
            return pull
        refused = refusal(409, response.read(Error), f"merging pull request {request.pull}")
        if isinstance(refused, MergeConflictError):
            strategies = pull.strategies if request.strategies is None else request.strategies
            conflicts = self.preview_merge(pull.source, pull.destination, strategies).conflicts
            if conflicts:
                raise MergeConflictError(pull.source, pull.destination, conflicts, refused.tables)
        raise refused


PULL_RUNS: Final[Mapping[type[Request[Any]], Callable[[RemotePullRequests, Any, Context], Any]]] = {
    pulls.CreatePullRequest: RemotePullRequests._create_pull_request,
    pulls.UpdatePullRequest: RemotePullRequests._update_pull_request,
    pulls.ApprovePullRequest: RemotePullRequests._change_approval,
    pulls.WithdrawApproval: RemotePullRequests._change_approval,
    pulls.CommentOnPullRequest: RemotePullRequests._comment,
    pulls.MergePullRequest: RemotePullRequests._merge_pull_request,
}
