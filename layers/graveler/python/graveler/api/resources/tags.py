"""Tags: permanent names for commits."""

from graveler.api.call import Call
from graveler.api.idempotency import once
from graveler.api.queries import ForceQuery, PageQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.lake.context import Context
from graveler.requests import refs
from graveler.requests.base import Permission
from graveler.wire.documents import Ref, RefList, pagination, ref_document, results
from graveler.wire.errors import Error
from graveler.wire.refs import TagCreation

routes = Routes("tags")


@routes.get("/repositories/{repository}/tags", "listTags", Permission.READ, responses={200: RefList, 404: Error})
def list_tags(call: Call, repository: str, query: PageQuery) -> Response:
    """List tags by name."""
    page = call.lake.repository(repository).tags(query.prefix, query.after, query.limit)
    return json_response(RefList(pagination(page), results(page, ref_document)))


@routes.post(
    "/repositories/{repository}/tags",
    "createTag",
    refs.CreateTag,
    responses={201: Ref, 400: Error, 403: Error, 404: Error, 409: Error},
)
def create_tag(call: Call, repository: str, body: TagCreation) -> Response:
    """Create a tag for a commit."""
    opened = call.lake.repository(repository)

    def make() -> Response:
        request = refs.CreateTag(name=body.name, ref=body.ref, force=call.force(body.force))
        made = opened.run(request, Context(by=call.committer, only_while=call.only_while))
        return json_response(ref_document(made), 201)

    def made_before() -> Response | None:
        there = opened.tag(body.name)
        return json_response(ref_document(there), 201) if there.commit_id == opened.commit_of(body.ref).id else None

    return once(call, make, made_before)


@routes.get(
    "/repositories/{repository}/tags/{tag}", "getTag", Permission.READ, responses={200: Ref, 404: Error}, short=True
)
def get_tag(call: Call, repository: str, tag: str) -> Response:
    """Describe a tag."""
    return json_response(ref_document(call.lake.repository(repository).tag(tag)))


@routes.delete(
    "/repositories/{repository}/tags/{tag}",
    "deleteTag",
    refs.DeleteTag,
    responses={204: None, 403: Error, 404: Error},
)
def delete_tag(call: Call, repository: str, tag: str, query: ForceQuery) -> Response:
    """Delete a tag; its commit stays."""
    call.lake.repository(repository).delete_tag(tag, by=call.committer, force=call.force(query.force))
    return no_content()
