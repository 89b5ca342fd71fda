"""Background operations: long-running merges, commits and imports, dumps, garbage collections. Beyond lakeFS's API."""

from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.operation_documents import operation_document
from graveler.api.queries import AfterQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.errors import NotFoundError, PreconditionError
from graveler.operations.store import Operations
from graveler.requests.base import Permission
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error
from graveler.wire.operation_documents import OperationDocument, OperationList

routes = Routes("operations")

_ALL = "/repositories/{repository}/operations"
_ONE = "/repositories/{repository}/operations/{operation}"


@routes.get(_ALL, "listOperations", Permission.READ, responses={200: OperationList, 404: Error})
def list_operations(call: Call, repository: str, query: AfterQuery) -> Response:
    """List background operations that are running or ended within the last week."""
    operations = Operations(call.lake.tables, call.lake.repository(repository).repository.uid)
    page = operations.page(query.after, query.limit)
    pagination = Pagination(page.next_after is not None, page.next_after or "", len(page.results))
    commits = operations.commits(page.results)
    documents = [operation_document(operations, row, commit) for row, commit in zip(page.results, commits, strict=True)]
    return json_response(OperationList(pagination, documents, [str(error) for error in page.damaged]))


@routes.get(_ONE, "getOperation", Permission.READ, responses={200: OperationDocument, 404: Error})
def get_operation(call: Call, repository: str, operation: str) -> Response:
    """Show the progress of a background operation, such as an import, and whether its commit exists. If its worker has died, the
    process that handles this request takes over.
    """
    opened = call.lake.repository(repository)
    current = call.runner.look(opened, operation)
    return json_response(operation_document(Operations(call.lake.tables, opened.repository.uid), current))


@routes.route(
    "DELETE",
    _ONE,
    "cancelOperation",
    Permission.WRITE,
    responses={204: None, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,  # it is in the operation
)
def cancel_operation(call: Call, repository: str, operation: str) -> Response:
    """Cancel a background operation: from now on it cannot commit anything. 409 if it has already ended, for example with its
    commit.
    """
    opened = call.lake.repository(repository)
    try:
        current = call.runner.look(opened, operation)
    except NotFoundError:
        call.identity.require(Permission.WRITE, repository)
        raise
    # Operations that change no branch (a dump, a collection) are for admins.
    needed = Permission.WRITE if current.branch else Permission.ADMIN
    call.identity.require(needed, repository, current.branch)
    try:
        call.runner.cancel(opened, operation)
    except PreconditionError as error:
        raise ApiError(409, f"conflict: {error}", cause=error) from None
    return no_content()
