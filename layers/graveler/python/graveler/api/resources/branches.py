"""Branches: list, create, inspect, delete, reset, move, and replay commits on them."""

from contextlib import suppress
from typing import Final

from graveler import model
from graveler.api.background import answer
from graveler.api.call import Call
from graveler.api.differences import diff_list, uncommitted_diff
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import commit_info, once
from graveler.api.queries import AmountQuery, ForceQuery, PageQuery, Query, RequiredText
from graveler.api.resources.refs import merge_strategies
from graveler.api.response import Response, json_response, no_content, text_response
from graveler.api.routing import Routes
from graveler.errors import InvalidError, MergeConflictError, RefNotFoundError
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.rules import protecting
from graveler.model import CommitID, SplitParameters
from graveler.requests import committing, merging, refs, staging
from graveler.requests.base import Permission
from graveler.tree.split import validate_split
from graveler.wire.differences import DiffList
from graveler.wire.documents import (
    COMMIT_HEADER,
    SAYS_COMMIT,
    Commit,
    Ref,
    RefList,
    commit_document,
    commit_headers,
    pagination,
    ref_document,
    results,
)
from graveler.wire.errors import Error
from graveler.wire.mapping import request_of
from graveler.wire.operations import OperationDocument
from graveler.wire.refs import (
    BranchCreation,
    CherryPickCreation,
    CommitOverrides,
    LeaseRenewal,
    Reflog,
    ReflogEntry,
    RenameCreation,
    ResetCreation,
    RevertCreation,
    RewriteCreation,
    WrittenVersion,
)

routes = Routes("branches")

SMALLEST_RANGE: Final = 16 << 10
"""Smallest logical size in bytes to which a client may have ranges split: some hundred records per file."""


class BranchesQuery(PageQuery, frozen=True, kw_only=True):
    """The branches to list. ``show_hidden``: also those created as hidden."""

    show_hidden: bool = False


class OwnerQuery(Query, frozen=True, kw_only=True):
    """The transaction that works on the branch."""

    owner: RequiredText


class WrittenQuery(Query, frozen=True, kw_only=True):
    """A numbered write of an application."""

    application: RequiredText
    version: int = 0


class DeleteBranchQuery(ForceQuery, frozen=True, kw_only=True):
    """The condition for a deletion. ``at``: a commit's whole ID; delete only if that is the branch's head (else 409)."""

    at: str = ""


class HardResetQuery(ForceQuery, frozen=True, kw_only=True):
    """The target of a hard reset: any ref expression."""

    ref: RequiredText


class DiffQuery(PageQuery, frozen=True, kw_only=True):
    """The differences to list; a ``delimiter`` rolls up those that share a common prefix."""

    delimiter: str = ""


@routes.get(
    "/repositories/{repository}/branches", "listBranches", Permission.READ, responses={200: RefList, 404: Error}
)
def list_branches(call: Call, repository: str, query: BranchesQuery) -> Response:
    """List branches by name."""
    page = call.lake.repository(repository).branches(
        query.prefix, query.after, query.limit, show_hidden=query.show_hidden
    )
    return json_response(RefList(pagination(page), results(page, ref_document)))


@routes.post(
    "/repositories/{repository}/branches",
    "createBranch",
    refs.CreateBranch,
    responses={201: str, 400: Error, 403: Error, 404: Error, 409: Error},
    branch_in_body=True,
    short=True,
)
def create_branch(call: Call, repository: str, body: BranchCreation) -> Response:
    """Create a branch at a commit; the response is the commit's ID, as plain text. Only an admin can create a branch that is
    protected from the start.
    """
    call.identity.require(Permission.WRITE, repository, body.name)
    opened = call.lake.repository(repository, body.source)
    if not body.hidden and _is_admins(call, opened, body.name):
        call.identity.require(Permission.ADMIN, repository, body.name)

    def make() -> Response:
        request = refs.CreateBranch(
            name=body.name,
            source=body.source,
            hidden=bool(body.hidden),
            owner=body.owner or "",
            force=call.force(body.force),
        )
        made = opened.run(request, Context(by=call.committer, only_while=call.only_while))
        return text_response(made.commit_id, 201, "text/plain")

    def made_before() -> Response | None:
        there = opened.branch(body.name)
        same = there.hidden == bool(body.hidden) and there.commit_id == opened.commit_of(body.source).id
        return text_response(there.commit_id, 201, "text/plain") if same else None

    return once(call, make, made_before)


@routes.get(
    "/repositories/{repository}/branches/{branch}",
    "getBranch",
    Permission.READ,
    responses={200: Ref, 404: Error},
    short=True,
)
def get_branch(call: Call, repository: str, branch: str) -> Response:
    """Describe a branch."""
    return json_response(ref_document(call.lake.with_recent_repository(repository, lambda found: found.branch(branch))))


@routes.delete(
    "/repositories/{repository}/branches/{branch}",
    "deleteBranch",
    refs.DeleteBranch,
    responses={204: None, 403: Error, 404: Error, 409: Error},
)
def delete_branch(call: Call, repository: str, branch: str, query: DeleteBranchQuery) -> Response:
    """Delete a branch and its uncommitted changes."""
    at = CommitID(query.at) if query.at else None
    call.lake.repository(repository).delete_branch(branch, by=call.committer, force=call.force(query.force), at=at)
    return no_content()


@routes.put(
    "/repositories/{repository}/branches/{branch}/lease",
    "renewLease",
    refs.RenewBranch,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def renew_lease(call: Call, repository: str, branch: str, body: LeaseRenewal) -> Response:
    """Show that a transaction is still working on its hidden branch. After five minutes without that, garbage collection deletes
    the branch.
    """
    call.lake.repository(repository).renew_branch(branch, body.owner)
    return no_content()


@routes.delete(
    "/repositories/{repository}/branches/{branch}/lease",
    "releaseLease",
    refs.ReleaseBranch,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def release_lease(call: Call, repository: str, branch: str, query: OwnerQuery) -> Response:
    """Keep a hidden branch after its transaction ends: garbage collection will no longer delete it."""
    call.lake.repository(repository).release_branch(branch, query.owner)
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
    found = opened.written_by(branch, model.Application(query.application, query.version))
    if found is None:
        opened.branch(branch)  # 404 if the branch does not exist
    return json_response(WrittenVersion(None if found is None else found.id))


@routes.put(
    "/repositories/{repository}/branches/{branch}",
    "resetBranch",
    staging.Reset,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def reset_branch(call: Call, repository: str, branch: str, body: ResetCreation) -> Response:
    """Drop uncommitted changes: all of them, those of one path, or those of all paths that start with a prefix."""
    opened, force = call.lake.repository(repository), call.force(body.force)
    if body.type == "reset":
        opened.reset(branch, by=call.committer, force=force)
    elif not body.path:
        raise bad_request(f"a reset of type {body.type} needs a path; give one, or reset everything with type reset")
    elif body.type == "object":
        opened.reset(branch, path=body.path, by=call.committer, force=force)
    else:
        opened.reset(branch, prefix=body.path, by=call.committer, force=force)
    return no_content()


@routes.put(
    "/repositories/{repository}/branches/{branch}/hard_reset",
    "hardResetBranch",
    refs.HardReset,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def hard_reset_branch(call: Call, repository: str, branch: str, query: HardResetQuery) -> Response:
    """Move a branch to the commit of any ref; refused while there are uncommitted changes."""
    opened = call.lake.repository(repository)

    def move() -> Response:
        opened.hard_reset(
            branch, query.ref, by=call.committer, force=call.force(query.force), request_id=call.request_key
        )
        return no_content()

    return once(call, move, lambda: None)


@routes.post(
    "/repositories/{repository}/branches/{branch}/undo",
    "undoBranch",
    refs.Undo,
    responses={200: Ref, 400: Error, 403: Error, 404: Error, 412: Error},
)
def undo_branch(call: Call, repository: str, branch: str, query: ForceQuery) -> Response:
    """Move a branch back to where it was before its last move."""
    opened = call.lake.repository(repository)

    def move() -> Response:
        moved = opened.undo(branch, by=call.committer, force=call.force(query.force), request_id=call.request_key)
        return json_response(ref_document(moved))

    return once(call, move, lambda: None)


@routes.post(
    "/repositories/{repository}/branches/{branch}/rename",
    "renameBranch",
    refs.RenameBranch,
    responses={200: Ref, 400: Error, 403: Error, 404: Error, 409: Error},
)
def rename_branch(call: Call, repository: str, branch: str, body: RenameCreation) -> Response:
    """Rename a branch; its uncommitted changes move with it. Only an admin can choose a name that is protected."""
    call.identity.require(Permission.WRITE, repository, body.new)
    opened = call.lake.repository(repository)

    def rename() -> Response:
        if _is_admins(call, opened, body.new) and not opened.branch(branch).hidden:
            call.identity.require(Permission.ADMIN, repository, body.new)
        return json_response(
            ref_document(opened.rename_branch(branch, body.new, by=call.committer, force=call.force(body.force)))
        )

    def renamed_before() -> Response | None:
        with suppress(RefNotFoundError):
            opened.branch(branch)
            return None  # so the new name belongs to another branch
        return json_response(ref_document(opened.branch(body.new)))

    return once(call, rename, renamed_before)


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
                ReflogEntry(
                    one.event.time_ns, one.event.operation, one.event.operation_id, one.event.by, one.old, one.new
                )
                for one in entries
            ]
        )
    )


@routes.post(
    "/repositories/{repository}/branches/{branch}/revert",
    "revertBranch",
    merging.Revert,
    responses={202: OperationDocument, 204: None, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
    says={COMMIT_HEADER: "with 204, the new commit"},
)
def revert_branch(call: Call, repository: str, branch: str, body: RevertCreation) -> Response:
    """Undo the changes of one commit on a branch, as a new commit."""
    overrides = body.commit_overrides or CommitOverrides()
    request = request_of(
        merging.Revert,
        body,
        branch=branch,
        info=commit_info(call, overrides.message, overrides.metadata),
        strategies=merge_strategies(body.strategy, body.strategies),
        force=call.force(body.force),
    )
    try:
        return answer(call, repository, request, _reverted)
    except MergeConflictError as error:
        raise _in_conflict(error) from None
    except InvalidError as error:
        if body.parent_number == 0 and len(call.lake.repository(repository).commit_of(body.ref).parents) > 1:
            # Clients expect a 409.
            words = "must specify 1-based parent number for reverting merge commit"
            raise ApiError(409, words, cause=error) from None
        raise


def _is_admins(call: Call, opened: OpenRepository, branch: str) -> bool:
    """Return whether the branch name is protected and the caller no admin, and thus out of reach. No request."""
    protected = opened.repository.settings.protected
    return not call.identity.allows(Permission.ADMIN, opened.repository.name, branch) and (
        protecting(branch, protected) is not None
    )


def _in_conflict(error: MergeConflictError) -> ApiError:
    return ApiError(409, "update branch: conflict found", cause=error)


def _reverted(made: model.Commit) -> Response:
    return no_content({COMMIT_HEADER: made.id})


@routes.post(
    "/repositories/{repository}/branches/{branch}/cherry-pick",
    "cherryPick",
    merging.CherryPick,
    responses={201: Commit, 202: OperationDocument, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
)
def cherry_pick(call: Call, repository: str, branch: str, body: CherryPickCreation) -> Response:
    """Apply the changes of a commit from elsewhere to a branch, with its message and metadata."""
    overrides = body.commit_overrides or CommitOverrides()
    request = request_of(
        merging.CherryPick,
        body,
        branch=branch,
        info=commit_info(call, overrides.message, overrides.metadata),
        strategies=merge_strategies(body.strategy, body.strategies),
        force=call.force(body.force),
    )

    def render(commit: model.Commit) -> Response:
        return json_response(commit_document(commit), 201)

    try:
        return answer(call, repository, request, render)
    except MergeConflictError as error:
        raise _in_conflict(error) from None


@routes.post(
    "/repositories/{repository}/branches/{branch}/rewrite",
    "rewriteBranch",
    committing.Rewrite,
    responses={201: Commit, 202: OperationDocument, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
)
def rewrite_branch(call: Call, repository: str, branch: str, body: RewriteCreation) -> Response:
    """Split a branch's tree into ranges of other sizes, as a commit that changes no objects. Only an admin can rewrite a
    protected branch.
    """
    opened = call.lake.repository(repository)
    if _is_admins(call, opened, branch):
        call.identity.require(Permission.ADMIN, repository, branch)
    split = SplitParameters(body.min_size, body.max_size, body.raggedness)
    validate_split(split)
    if split.min_size < SMALLEST_RANGE:
        raise InvalidError(
            f"ranges of {split.min_size:,} bytes would make too many files; use {SMALLEST_RANGE:,} or more"
        )
    request = committing.Rewrite(
        branch=branch,
        split=split,
        info=commit_info(call, body.message, body.metadata),
        force=call.force(body.force),
    )

    def render(commit: model.Commit) -> Response:
        return json_response(commit_document(commit), 201)

    return answer(call, repository, request, render)


@routes.get(
    "/repositories/{repository}/branches/{branch}/diff",
    "diffBranch",
    Permission.READ,
    responses={200: DiffList, 400: Error, 404: Error},
    says=SAYS_COMMIT,
)
def diff_branch(call: Call, repository: str, branch: str, query: DiffQuery) -> Response:
    """List uncommitted changes."""
    page = call.lake.repository(repository).uncommitted_outline(
        branch, prefix=query.prefix, after=query.after, delimiter=query.delimiter, amount=query.limit
    )
    return json_response(diff_list(page, uncommitted_diff), headers=commit_headers(page))
