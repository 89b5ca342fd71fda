"""Branches: list, create, inspect, delete, reset, move, and replay commits on them."""

from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from graveler import model
from graveler.api.background import answer
from graveler.api.call import Call
from graveler.api.difference_pages import DiffQuery, uncommitted_page
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import once
from graveler.api.queries import AmountQuery, Query, RefsQuery, RequiredText
from graveler.api.response import Response, json_response, no_content, text_response
from graveler.api.routing import Routes
from graveler.errors import InvalidError, MergeConflictError, RefNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.repository_settings import protecting
from graveler.requests import committing, merging, refs, staging
from graveler.requests.base import Permission
from graveler.tree.split import validate_split
from graveler.wire.difference_documents import DiffList
from graveler.wire.documents import (
    COMMIT_HEADER,
    SAYS_COMMIT,
    Commit,
    Ref,
    commit_document,
    ref_document,
)
from graveler.wire.error_documents import Error
from graveler.wire.operation_documents import OperationDocument
from graveler.wire.refs import ListedRefs, Reflog, ReflogEntry, ResetCreation, WrittenVersion, listed_refs

routes = Routes("branches")

SMALLEST_RANGE: Final = 16 << 10
"""Smallest logical size in bytes to which a client may have ranges split: some hundred records per file."""


class BranchesQuery(RefsQuery, frozen=True, kw_only=True):
    """The branches to list. ``show_hidden``: also those created as hidden."""

    show_hidden: bool = False


class WrittenQuery(Query, frozen=True, kw_only=True):
    """A numbered write of an application."""

    application: RequiredText
    version: int = 0


@routes.get(
    "/repositories/{repository}/branches",
    "listBranches",
    Permission.READ,
    responses={200: ListedRefs, 400: Error, 404: Error},
)
def list_branches(call: Call, repository: str, query: BranchesQuery) -> Response:
    """List branches by name, or the one with the newest commit first; on request with what a list shows of each."""
    selection = query.selection
    page = call.lake.repository(repository).detailed_branches(selection, show_hidden=query.show_hidden)
    return json_response(listed_refs(page, selection))


@routes.run(
    refs.CreateBranch,
    responses={201: str, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
    short=True,
)
def create_branch(call: Call, repository: str, request: refs.CreateBranch) -> Response:
    """Create a branch at a commit; the response is the commit's ID, as plain text. Only an admin can create a branch that is
    protected from the start.
    """
    call.identity.require(Permission.WRITE, repository, request.name)
    opened = call.lake.repository(repository, request.source)
    if not request.hidden and _needs_admin(call, opened, request.name):
        call.identity.require(Permission.ADMIN, repository, request.name)

    def create() -> Response:
        return text_response(opened.run(request, call.context()).commit_id, 201, "text/plain")

    def created_earlier() -> Response | None:
        branch = opened.branch(request.name)
        same = branch.hidden == request.hidden and branch.commit_id == opened.commit_of(request.source).id
        return text_response(branch.commit_id, 201, "text/plain") if same else None

    return once(call, create, created_earlier)


@routes.get(
    "/repositories/{repository}/branches/{branch}",
    "getBranch",
    Permission.READ,
    responses={200: Ref, 404: Error},
    short=True,
)
def get_branch(call: Call, repository: str, branch: str) -> Response:
    """Describe a branch."""
    return json_response(
        ref_document(call.lake.with_recent_repository(repository, lambda opened: opened.branch(branch)))
    )


@routes.run(refs.DeleteBranch, responses={204: None, 403: Error, 404: Error, 409: Error})
def delete_branch(call: Call, repository: str, request: refs.DeleteBranch) -> Response:
    """Delete a branch and its uncommitted changes."""
    call.run(repository, request)
    return no_content()


@routes.run(refs.RenewBranch, responses={204: None, 400: Error, 403: Error, 404: Error})
def renew_lease(call: Call, repository: str, request: refs.RenewBranch) -> Response:
    """Show that a transaction is still working on its hidden branch. After five minutes without that, garbage collection deletes
    the branch.
    """
    call.run(repository, request)
    return no_content()


@routes.run(refs.ReleaseBranch, responses={204: None, 400: Error, 403: Error, 404: Error})
def release_lease(call: Call, repository: str, request: refs.ReleaseBranch) -> Response:
    """Keep a hidden branch after its transaction ends: garbage collection will no longer delete it."""
    call.run(repository, request)
    return no_content()


@routes.get(
    "/repositories/{repository}/branches/{branch}/written",
    "getWrittenVersion",
    Permission.READ,
    responses={200: WrittenVersion, 400: Error, 404: Error},
)
def get_written_version(call: Call, repository: str, branch: str, query: WrittenQuery) -> Response:
    """Tell whether a numbered write of an application, such as a batch of a stream, is already on the branch."""
    opened = call.lake.repository(repository)
    commit = opened.written_by(branch, model.Application(query.application, query.version))
    if commit is None:
        opened.branch(branch)  # 404 if the branch does not exist
    return json_response(WrittenVersion(None if commit is None else commit.id))


@routes.put(
    "/repositories/{repository}/branches/{branch}",
    "resetBranch",
    staging.Reset,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def reset_branch(call: Call, repository: str, branch: str, body: ResetCreation) -> Response:
    """Drop uncommitted changes: all of them, those of one path, or those of all paths that start with a prefix."""
    opened, force = call.lake.repository(repository), call.force(body.force)
    if body.type != "reset" and not body.path:
        raise bad_request(f"a reset of type {body.type} needs a path; give one, or reset everything with type reset")
    path = body.path if body.type == "object" else None
    prefix = body.path if body.type == "common_prefix" else None
    opened.run(staging.Reset(branch=branch, path=path, prefix=prefix, force=force), call.context())
    return no_content()


@routes.run(refs.HardReset, responses={204: None, 400: Error, 403: Error, 404: Error})
def hard_reset_branch(call: Call, repository: str, request: refs.HardReset) -> Response:
    """Move a branch to the commit of any ref; refused while there are uncommitted changes."""
    opened = call.lake.repository(repository)

    def move() -> Response:
        opened.run(replace(request, request_id=call.request_key), call.context())
        return no_content()

    return once(call, move, lambda: None)


@routes.run(refs.Undo, responses={200: Ref, 400: Error, 403: Error, 404: Error, 412: Error})
def undo_branch(call: Call, repository: str, request: refs.Undo) -> Response:
    """Move a branch back to where it was before its last move."""
    opened = call.lake.repository(repository)

    def move() -> Response:
        branch = opened.run(replace(request, request_id=call.request_key), call.context())
        return json_response(ref_document(branch))

    return once(call, move, lambda: None)


@routes.run(refs.RenameBranch, responses={200: Ref, 400: Error, 403: Error, 404: Error, 409: Error})
def rename_branch(call: Call, repository: str, request: refs.RenameBranch) -> Response:
    """Rename a branch; its uncommitted changes move with it. Only an admin can choose a name that is protected."""
    call.identity.require(Permission.WRITE, repository, request.new)
    opened = call.lake.repository(repository)

    def rename() -> Response:
        if _needs_admin(call, opened, request.new) and not opened.branch(request.old).hidden:
            call.identity.require(Permission.ADMIN, repository, request.new)
        return json_response(ref_document(opened.run(request, call.context())))

    def renamed_earlier() -> Response | None:
        with suppress(RefNotFoundError):
            opened.branch(request.old)
            return None  # so the new name belongs to another branch
        return json_response(ref_document(opened.branch(request.new)))

    return once(call, rename, renamed_earlier)


@routes.get(
    "/repositories/{repository}/branches/{branch}/reflog",
    "getReflog",
    Permission.READ,
    responses={200: Reflog, 404: Error},
)
def get_reflog(call: Call, repository: str, branch: str, query: AmountQuery) -> Response:
    """List what moved a branch, even a deleted one, newest first. Entries are kept for 90 days."""
    entries = call.lake.repository(repository).reflog(branch, query.limit)
    return json_response(
        Reflog(
            [
                ReflogEntry(event.time_ns, event.operation, event.operation_id, event.by, entry.old, entry.new)
                for entry in entries
                for event in (entry.event,)
            ]
        )
    )


@routes.run(
    merging.Revert,
    responses={202: OperationDocument, 204: None, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
    response_headers={COMMIT_HEADER: "with 204, the new commit"},
)
def revert_branch(call: Call, repository: str, request: merging.Revert) -> Response:
    """Undo the changes of one commit on a branch, as a new commit."""
    try:
        return answer(call, repository, request, _reverted)
    except MergeConflictError as error:
        raise _in_conflict(error) from None
    except InvalidError as error:
        is_merge = len(call.lake.repository(repository).commit_of(request.ref).parents) > 1
        if request.parent_number == 0 and is_merge:
            # Clients expect a 409.
            words = "must specify 1-based parent number for reverting merge commit"
            raise ApiError(409, words, cause=error) from None
        raise


def _needs_admin(call: Call, opened: OpenRepository, branch: str) -> bool:
    """Return whether the caller would have to be an admin: the branch name is protected, and the caller is none. No request."""
    protected = opened.repository.settings.protected
    return not call.identity.allows(Permission.ADMIN, opened.repository.name, branch) and (
        protecting(branch, protected) is not None
    )


def _in_conflict(error: MergeConflictError) -> ApiError:
    return ApiError(409, "update branch: conflict found", cause=error)


def _reverted(commit: model.Commit) -> Response:
    return no_content({COMMIT_HEADER: commit.id})


def _created(commit: model.Commit) -> Response:
    return json_response(commit_document(commit), 201)


@routes.run(
    merging.CherryPick,
    responses={201: Commit, 202: OperationDocument, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
)
def cherry_pick(call: Call, repository: str, request: merging.CherryPick) -> Response:
    """Apply the changes of a commit from elsewhere to a branch, with its message and metadata."""
    try:
        return answer(call, repository, request, _created)
    except MergeConflictError as error:
        raise _in_conflict(error) from None


@routes.run(
    committing.Rewrite,
    responses={201: Commit, 202: OperationDocument, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
)
def rewrite_branch(call: Call, repository: str, request: committing.Rewrite) -> Response:
    """Split a branch's tree into ranges of other sizes, as a commit that changes no objects. Only an admin can rewrite a
    protected branch.
    """
    opened = call.lake.repository(repository)
    if _needs_admin(call, opened, request.branch):
        call.identity.require(Permission.ADMIN, repository, request.branch)
    validate_split(request.split)
    if request.split.min_size < SMALLEST_RANGE:
        raise InvalidError(
            f"ranges of {request.split.min_size:,} bytes would make too many files; use {SMALLEST_RANGE:,} or more"
        )
    return answer(call, repository, request, _created)


@routes.get(
    "/repositories/{repository}/branches/{branch}/diff",
    "diffBranch",
    Permission.READ,
    function="diff",
    responses={200: DiffList, 400: Error, 404: Error},
    response_headers=SAYS_COMMIT,
)
def diff_branch(call: Call, repository: str, branch: str, query: DiffQuery) -> Response:
    """List uncommitted changes."""
    return uncommitted_page(call.lake.repository(repository), branch, query)
