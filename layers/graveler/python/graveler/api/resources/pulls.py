"""Pull requests: lakeFS's operations, and approvals and comments."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from graveler.api.background import answer, limited_context
from graveler.api.call import Call
from graveler.api.idempotency import request_id
from graveler.api.queries import AfterQuery, PageQuery
from graveler.api.resources.refs import refused_merge
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.errors import ConflictError, MergeConflictError, NotFoundError, RuleError
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.requests import pulls
from graveler.requests.base import Permission
from graveler.requests.merging import Merge
from graveler.requests.pulls import PullRequest, StatusFilter
from graveler.wire import pull_documents
from graveler.wire.documents import pagination, results
from graveler.wire.error_documents import Error
from graveler.wire.operation_documents import OperationDocument
from graveler.wire.pull_documents import (
    PullRequestComment,
    PullRequestComments,
    PullRequestCreationResponse,
    PullRequestsList,
    comment_document,
    pull_document,
)
from graveler.wire.refs import MergeRefusal, MergeResult

routes = Routes("pulls")


class PullsQuery(PageQuery, frozen=True, kw_only=True):
    """The pull requests to list."""

    status: Annotated[StatusFilter, Meta(description="`closed` includes merged ones; `merged` is graveler's own")] = (
        "all"
    )


@routes.get(
    "/repositories/{repository}/pulls",
    "listPullRequests",
    Permission.READ,
    responses={200: PullRequestsList, 400: Error, 404: Error},
)
def list_pull_requests(call: Call, repository: str, query: PullsQuery) -> Response:
    """List pull requests, the newest first."""
    page = call.lake.repository(repository).pull_requests(
        query.status, after=query.after, amount=query.limit, prefix=query.prefix
    )
    return json_response(PullRequestsList(pagination(page), results(page, pull_document)))


@routes.run(
    pulls.CreatePullRequest,
    responses={201: PullRequestCreationResponse, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
)
def create_pull_request(call: Call, repository: str, request: pulls.CreatePullRequest) -> Response:
    """Propose to merge a branch into another one. A key that is limited to branches needs the source."""
    call.identity.require(Permission.WRITE, repository, request.source)
    pull = call.run(repository, replace(request, request_id=request_id(call)))
    return json_response(PullRequestCreationResponse(pull.id), 201)


@routes.get(
    "/repositories/{repository}/pulls/{pull}",
    "getPullRequest",
    Permission.READ,
    responses={200: pull_documents.PullRequest, 400: Error, 404: Error},
)
def get_pull_request(call: Call, repository: str, pull: str) -> Response:
    """Describe a pull request. One that has lost a branch is shown as closed."""
    return json_response(pull_document(call.lake.repository(repository).pull_request(pull)))


@routes.run(
    pulls.UpdatePullRequest,
    responses={204: None, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
)
def update_pull_request(call: Call, repository: str, request: pulls.UpdatePullRequest) -> Response:
    """Change a pull request, close it, or open it again."""
    opened, _ = _opened(call, repository, request.pull)
    opened.run(request, call.context())
    return no_content()


@routes.run(
    pulls.MergePullRequest,
    responses={
        200: MergeResult,
        202: OperationDocument,
        400: Error,
        403: Error,
        404: Error,
        409: MergeRefusal,
        412: Error,
    },
    branch_in_body=True,
)
def merge_pull_request(call: Call, repository: str, request: pulls.MergePullRequest) -> Response:
    """Merge a pull request, which becomes merged together with its destination; a repetition returns the first one's commit."""
    from graveler.lake.pulls.approvals import actor_of
    from graveler.lake.pulls.pull_merge import merge_of, note_refusal  # not on the path of a cold start

    opened, pull = _opened(call, repository, request.pull)
    call.identity.require(Permission.WRITE, repository, pull.destination)

    def render(commit: Commit) -> Response:
        return json_response(MergeResult(commit.id))

    try:
        merge = merge_of(opened.parts, request)
        if isinstance(merge, PullRequest):
            return json_response(MergeResult(merge.merged_commit))
        return answer(call, repository, merge, render)
    except RuleError as error:
        assert isinstance(merge, Merge)
        note_refusal(opened.parts, request, merge, actor_of(call.context()), error)
        return json_response(MergeResult(""))
    except MergeConflictError as error:
        return refused_merge(error, "conflict found")
    except ConflictError as error:
        return refused_merge(error, "conflict")


@routes.run(
    pulls.ApprovePullRequest,
    responses={200: pull_documents.PullRequest, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
)
def approve_pull_request(call: Call, repository: str, request: pulls.ApprovePullRequest) -> Response:
    """Approve a pull request, as the caller looked at it. A merge that waits for this approval is made, if time is left."""
    opened, _ = _opened(call, repository, request.pull)
    context = limited_context(call, call.seconds_left() / 2)
    return json_response(pull_document(opened.run(request, context)))


@routes.run(
    pulls.WithdrawApproval,
    responses={200: pull_documents.PullRequest, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
)
def withdraw_approval(call: Call, repository: str, request: pulls.WithdrawApproval) -> Response:
    """Take back the caller's approval of a pull request."""
    opened, _ = _opened(call, repository, request.pull)
    return json_response(pull_document(opened.run(request, call.context())))


@routes.get(
    "/repositories/{repository}/pulls/{pull}/comments",
    "listPullRequestComments",
    Permission.READ,
    responses={200: PullRequestComments, 400: Error, 404: Error},
)
def list_comments(call: Call, repository: str, pull: str, query: AfterQuery) -> Response:
    """List the comments on a pull request, the oldest first."""
    page = call.lake.repository(repository).pull_comments(pull, after=query.after, amount=query.limit)
    return json_response(PullRequestComments(pagination(page), results(page, comment_document)))


@routes.run(
    pulls.CommentOnPullRequest,
    responses={201: PullRequestComment, 400: Error, 403: Error, 404: Error, 412: Error},
    branch_in_body=True,
)
def comment_on_pull_request(call: Call, repository: str, request: pulls.CommentOnPullRequest) -> Response:
    """Comment on a pull request."""
    opened, _ = _opened(call, repository, request.pull)
    comment = opened.run(replace(request, request_id=request_id(call)), call.context())
    return json_response(comment_document(comment), 201)


def _opened(call: Call, repository: str, pull: str) -> tuple[OpenRepository, PullRequest]:
    """Return the repository and a pull request that the caller may take part in: with a key that is limited to branches, if one
    of its branches is among these."""
    if not call.identity.branches:
        call.identity.require(Permission.WRITE, repository)
    opened = call.lake.repository(repository)
    try:
        described = opened.pull_request(pull)
    except NotFoundError:
        call.identity.require(Permission.WRITE, repository)
        raise
    if not call.identity.allows(Permission.WRITE, repository, described.source):
        call.identity.require(Permission.WRITE, repository, described.destination)
    return opened, described
