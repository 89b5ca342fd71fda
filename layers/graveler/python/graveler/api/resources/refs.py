"""Operations on any ref, or on two: what one is; merge, merge base, differences."""

from typing import Literal

from msgspec import field

from graveler.api.background import answer
from graveler.api.call import Call
from graveler.api.difference_pages import DiffQuery, against, committed_diff, diff_list, outlined_diff, uncommitted_page
from graveler.api.errors import ApiError, bad_request
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.errors import GravelerError, MergeConflictError, TouchedError
from graveler.model import Change, Commit
from graveler.requests import merging
from graveler.requests.base import Permission
from graveler.wire.difference_documents import Diff, DiffList
from graveler.wire.documents import SAYS_COMMITS, commit_headers
from graveler.wire.error_documents import NO_COMMON_HISTORY_CODE, Error, document
from graveler.wire.operation_documents import OperationDocument
from graveler.wire.refs import MergeBase, MergeRefusal, MergeResult, RefDescription, description_document

routes = Routes("refs")


class DiffRefsQuery(DiffQuery, frozen=True, kw_only=True):
    """``three_dot``: what right changed since the common base, which is then the left side; ``two_dot``: what turns left into
    right."""

    kind: Literal["two_dot", "three_dot"] = field(default="three_dot", name="type")


@routes.get(
    "/repositories/{repository}/refs/{ref}",
    "getRef",
    Permission.READ,
    responses={200: RefDescription, 400: Error, 404: Error},
)
def get_ref(call: Call, repository: str, ref: str) -> Response:
    """Describe any ref: what it is, its commit, and whether it is protected or has uncommitted changes."""
    described = call.lake.with_recent_repository(repository, lambda opened: opened.describe_ref(ref))
    return json_response(description_document(described))


@routes.run(
    merging.Merge,
    responses={
        200: MergeResult,
        202: OperationDocument,
        400: Error,
        403: Error,
        404: Error,
        409: MergeRefusal,
        412: Error,
    },
)
def merge_into_branch(call: Call, repository: str, request: merging.Merge) -> Response:
    """Merge what a ref changed since the common base into a branch, as a commit."""

    def render(commit: Commit) -> Response:
        return json_response(MergeResult(commit.id))

    try:
        return answer(call, repository, request, render)
    except MergeConflictError as error:
        return refused_merge(error, "conflict found")
    except TouchedError as error:
        return refused_merge(error, "conflict")


def refused_merge(error: GravelerError, words: str) -> Response:
    """Return the response for a refused merge, which has its own document in published clients."""
    refusal = document(error, words)
    return json_response(MergeRefusal("", f"{words}: {error}", refusal.detail, refusal.code, refusal.fields), 409)


@routes.get(
    "/repositories/{repository}/refs/{source}/merge/{destination}",
    "findMergeBase",
    Permission.READ,
    responses={200: MergeBase, 400: Error, 404: Error},
)
def find_merge_base(call: Call, repository: str, source: str, destination: str) -> Response:
    """Find the best common ancestor of two refs."""
    opened = call.lake.repository(repository)
    source_id, destination_id = opened.commit_of(source).id, opened.commit_of(destination).id
    base = opened.base_of(source_id, destination_id)
    if base is None:
        words = f"{source!r} and {destination!r} have no common history"
        raise ApiError(400, words, code=NO_COMMON_HISTORY_CODE)
    return json_response(MergeBase(source_id, destination_id, base))


@routes.get(
    "/repositories/{repository}/refs/{left}/diff/{right}",
    "diffRefs",
    Permission.READ,
    function="diff",
    responses={200: DiffList, 400: Error, 404: Error},
    response_headers=SAYS_COMMITS,
    lasts=True,
)
def diff_refs(call: Call, repository: str, left: str, right: str, query: DiffRefsQuery) -> Response:
    """List the differences between two refs."""
    opened = call.lake.repository(repository)
    place = {
        "prefix": query.prefix,
        "after": query.after,
        "delimiter": query.delimiter,
    }
    if right.endswith("$"):
        if right[:-1] != left.removesuffix("@"):
            raise bad_request(f"{right!r} means uncommitted changes, which can be compared only with {right[:-1]!r}")
        return uncommitted_page(opened, right[:-1], query)
    if query.kind == "two_dot" and not query.has_stats:
        outlines = opened.diff_outline(left, right, **place, amount=query.limit)
        return json_response(diff_list(outlines, outlined_diff), headers=commit_headers(outlines))
    if query.kind == "two_dot":
        page = opened.diff(left, right, **place, amount=query.limit)
        shown = diff_list(page, lambda change: committed_diff(change, query))
        return json_response(shown, headers=commit_headers(page))
    page = opened.compare(left, right, **place, amount=query.limit)
    in_conflict = against(opened, page)

    def render(change: Change) -> Diff | None:
        conflict = in_conflict(change)
        return None if conflict is None else committed_diff(change, query, conflict=conflict)

    return json_response(diff_list(page, render), headers=commit_headers(page))
