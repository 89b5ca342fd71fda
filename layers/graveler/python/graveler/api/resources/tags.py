"""Tags: permanent names for commits."""

from graveler.api.call import Call
from graveler.api.idempotency import once
from graveler.api.queries import RefsQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.requests import refs
from graveler.requests.base import Permission
from graveler.wire.documents import Ref, ref_document
from graveler.wire.error_documents import Error
from graveler.wire.refs import ListedRefs, listed_refs

routes = Routes("tags")


@routes.get(
    "/repositories/{repository}/tags",
    "listTags",
    Permission.READ,
    responses={200: ListedRefs, 400: Error, 404: Error},
)
def list_tags(call: Call, repository: str, query: RefsQuery) -> Response:
    """List tags by name, or the one with the newest commit first; on request with what a list shows of each."""
    selection = query.selection
    return json_response(listed_refs(call.lake.repository(repository).detailed_tags(selection), selection))


@routes.run(refs.CreateTag, responses={201: Ref, 400: Error, 403: Error, 404: Error, 409: Error})
def create_tag(call: Call, repository: str, request: refs.CreateTag) -> Response:
    """Create a tag for a commit."""
    opened = call.lake.repository(repository)

    def create() -> Response:
        return json_response(ref_document(opened.run(request, call.context())), 201)

    def created_earlier() -> Response | None:
        tag = opened.tag(request.name)
        return json_response(ref_document(tag), 201) if tag.commit_id == opened.commit_of(request.ref).id else None

    return once(call, create, created_earlier)


@routes.get(
    "/repositories/{repository}/tags/{tag}", "getTag", Permission.READ, responses={200: Ref, 404: Error}, short=True
)
def get_tag(call: Call, repository: str, tag: str) -> Response:
    """Describe a tag."""
    return json_response(ref_document(call.lake.repository(repository).tag(tag)))


@routes.run(refs.DeleteTag, responses={204: None, 403: Error, 404: Error})
def delete_tag(call: Call, repository: str, request: refs.DeleteTag) -> Response:
    """Delete a tag; its commit stays."""
    call.run(repository, request)
    return no_content()
