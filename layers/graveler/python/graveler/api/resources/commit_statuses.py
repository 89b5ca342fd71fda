"""Statuses: verdicts about trees, which the rules of branches and tags ask for. Beyond lakeFS's API."""

from graveler.api.background import limited_context
from graveler.api.call import Call
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.requests import statuses
from graveler.requests.base import Permission
from graveler.wire.error_documents import Error
from graveler.wire.status_documents import Status, StatusList, status_document

routes = Routes("statuses")


@routes.run(statuses.PostStatus, responses={201: Status, 400: Error, 401: Error, 404: Error, 410: Error})
def post_status(call: Call, repository: str, request: statuses.PostStatus) -> Response:
    """Post a verdict about the tree of a commit, or about the commit. A key of the role checker posts the names that it has."""
    call.identity.require_status(repository, request.name)
    context = limited_context(call, call.seconds_left() / 2)
    return json_response(status_document(call.lake.repository(repository).run(request, context)), 201)


@routes.get(
    "/repositories/{repository}/commits/{commit_id}/statuses",
    "listStatuses",
    Permission.READ,
    responses={200: StatusList, 404: Error},
)
def list_statuses(call: Call, repository: str, commit_id: str) -> Response:
    """List the statuses of a commit and of its tree that have not expired, and whose poster's key is not revoked."""
    current = call.lake.repository(repository, commit_id).statuses(commit_id)
    return json_response(StatusList([*map(status_document, current)]))
