"""Branches: list, create, look at, delete, reset, move, and replay commits on them."""

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.documents import Error, Ref, RefList, pagination, ref_document, results
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response, no_content, text_response
from graveler.api.routing import Permission, Routes

routes = Routes("branches")


class BranchesQuery(PageQuery, frozen=True, kw_only=True):
    """Which branches."""

    show_hidden: bool = False


class BranchCreation(Struct, frozen=True):
    """A branch to be. ``source`` is any ref expression."""

    name: str
    source: str
    hidden: bool = False
    force: bool = False


@routes.get("/repositories/{repository}/branches", "listBranches", Permission.READ, answers={200: RefList, 404: Error})
def list_branches(call: Call, repository: str, query: BranchesQuery) -> Response:
    """List branches by name."""
    page = call.lake.repository(repository).branches(
        query.prefix, query.after, query.limit, show_hidden=query.show_hidden
    )
    return json_response(RefList(pagination(page), results(page, ref_document)))


@routes.post(
    "/repositories/{repository}/branches",
    "createBranch",
    Permission.WRITE,
    answers={201: str, 400: Error, 404: Error, 409: Error},
    branch_in_body=True,
)
def create_branch(call: Call, repository: str, body: BranchCreation) -> Response:
    """Point a new branch at a commit; the answer is the commit's ID, as bare text."""
    call.identity.require(Permission.WRITE, repository, body.name)
    branch = call.lake.repository(repository).create_branch(
        body.name, body.source, by=call.committer, hidden=body.hidden
    )
    return text_response(branch.commit_id, 201, "text/plain")


@routes.get(
    "/repositories/{repository}/branches/{branch}", "getBranch", Permission.READ, answers={200: Ref, 404: Error}
)
def get_branch(call: Call, repository: str, branch: str) -> Response:
    """Describe one branch."""
    return json_response(ref_document(call.lake.repository(repository).branch(branch)))


@routes.delete(
    "/repositories/{repository}/branches/{branch}",
    "deleteBranch",
    Permission.WRITE,
    answers={204: None, 403: Error, 404: Error},
)
def delete_branch(call: Call, repository: str, branch: str) -> Response:
    """Remove a branch and its uncommitted changes."""
    call.lake.repository(repository).delete_branch(branch, by=call.committer)
    return no_content()
