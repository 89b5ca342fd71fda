"""Objects: read, list, write, delete, copy."""

from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.conditions import write_condition
from graveler.api.errors import ApiError, bad_request
from graveler.api.forms import uploaded
from graveler.api.object_documents import LISTED, Presigner, metadata_of_headers, object_headers, rendered_page
from graveler.api.origins import expect_no_code
from graveler.api.queries import ForceQuery, PageQuery, Query, RequiredText
from graveler.api.ranges import requested
from graveler.api.response import Response, json_response, no_content, rendered_response
from graveler.api.routing import Routes
from graveler.api.staging import entry_to_stage, link_one
from graveler.errors import GravelerError, InvalidError, ObjectNotFoundError
from graveler.lake.objects.copying import copy_under_condition
from graveler.model import CommonPrefix, ObjectEntry
from graveler.requests import staging
from graveler.requests.base import Permission
from graveler.system.pauses import require_cached
from graveler.tree.record import encode_key
from graveler.values.error_codes import code_of, fields_of
from graveler.wire.documents import COMMIT_HEADER, SAYS_STATE, STATE_HEADER, commit_headers, pagination
from graveler.wire.error_documents import Error, ObjectError
from graveler.wire.object_documents import (
    ListedObject,
    ListedPage,
    ObjectCopyCreation,
    ObjectErrorList,
    ObjectStageCreation,
    ObjectStats,
    ObjectStatsList,
    PathList,
    StatsOfMany,
    UnderlyingObjectProperties,
    object_document,
    prefix_document,
)

routes = Routes("objects")

MAX_PATHS: Final = 1000
"""Objects that one request may name."""

_OBJECTS: Final = "/repositories/{repository}/refs/{ref}/objects"
_BRANCH_OBJECTS: Final = "/repositories/{repository}/branches/{branch}/objects"


class ObjectQuery(Query, frozen=True, kw_only=True):
    """The object, and whether to respond with a URL to its bytes."""

    path: RequiredText
    presign: bool = False


class StatQuery(ObjectQuery, frozen=True, kw_only=True):
    """The object, and which of its properties to return."""

    user_metadata: bool = True


class ListQuery(PageQuery, frozen=True, kw_only=True):
    """The objects to list, and which of their properties to return."""

    delimiter: Annotated[str, Meta(description="group paths that contain it after the prefix")] = ""
    state: Annotated[str, Meta(description=f"the header `{STATE_HEADER}` of an earlier page of the same branch")] = ""
    presign: bool = False
    user_metadata: bool = True


class PresignQuery(Query, frozen=True, kw_only=True):
    """The choice to respond with URLs."""

    presign: bool = False


class WriteQuery(ForceQuery, frozen=True, kw_only=True):
    """The object to write."""

    path: RequiredText


class CopyQuery(Query, frozen=True, kw_only=True):
    """The destination of the copy."""

    dest_path: RequiredText


@routes.get(
    _OBJECTS,
    "getObject",
    Permission.READ,
    responses={200: bytes, 206: bytes, 302: None, 304: None, 403: Error, 404: Error, 416: Error},
)
def get_object(call: Call, repository: str, ref: str, query: ObjectQuery) -> Response:
    """Read all or a range of an object's bytes; for large ones the response is a redirect to a URL of the object store."""
    expect_no_code(call.headers)
    opened, entry = call.lake.stat(repository, ref, query.path)
    headers = object_headers(entry)
    if _matches(call, entry):
        return no_content(headers, 304)
    if query.presign:
        return no_content({"location": Presigner(call, opened, ref).url(entry)}, 302)
    part = requested(call.headers, entry.checksum, entry.size)
    if part is not None and not part.length:
        raise ApiError(
            416,
            f"range {call.headers['range']!r} is outside the object's {entry.size} bytes",
            {"content-range": part.content_range},
        )
    length = entry.size if part is None else part.length
    if length > call.settings.max_body_bytes:
        return no_content({"location": Presigner(call, opened, ref).url(entry)}, 302)
    if part is None:
        return Response(200, headers, b"".join(opened.bytes_in(ref, entry, verify=call.settings.verify_bytes)))
    headers["content-range"] = part.content_range
    return Response(206, headers, b"".join(opened.bytes_in(ref, entry, part.start, part.length)))


@routes.route(
    "HEAD",
    _OBJECTS,
    "headObject",
    Permission.READ,
    responses={200: None, 206: None, 304: None, 404: None, 416: None},
    short=True,
)
def head_object(call: Call, repository: str, ref: str, query: ObjectQuery) -> Response:
    """Return the headers of a read, without the bytes."""
    _, entry = call.lake.stat(repository, ref, query.path)
    headers = object_headers(entry)
    if _matches(call, entry):
        return no_content(headers, 304)
    part = requested(call.headers, entry.checksum, entry.size)
    if part is None:
        return no_content({**headers, "content-length": str(entry.size)}, 200)
    headers["content-range"] = part.content_range
    if not part.length:
        return no_content(headers, 416)
    return no_content({**headers, "content-length": str(part.length)}, 206)


@routes.get(_OBJECTS + "/stat", "statObject", Permission.READ, responses={200: ObjectStats, 404: Error}, short=True)
def stat_object(call: Call, repository: str, ref: str, query: StatQuery) -> Response:
    """Describe an object."""
    opened, entry = call.lake.stat(repository, ref, query.path)
    if query.presign:
        return json_response(Presigner(call, opened, ref).document(entry, metadata=query.user_metadata))
    return json_response(object_document(entry, metadata=query.user_metadata))


@routes.get(
    _OBJECTS + "/ls",
    "listObjects",
    Permission.READ,
    responses={200: ObjectStatsList, 400: Error, 404: Error, 412: Error},
    response_headers=SAYS_STATE,
    short=True,
    lasts=True,
)
def list_objects(call: Call, repository: str, ref: str, query: ListQuery) -> Response:
    """List objects by path, with a delimiter as folders."""
    opened, state = call.lake.repository(repository, ref).pinned_to(ref, query.state)
    says = {STATE_HEADER: state} if state else {}
    if query.user_metadata and not (query.presign or query.delimiter):
        rendered = opened.render(LISTED, ref, prefix=query.prefix, after=query.after, amount=query.limit)
        return rendered_response(rendered_page(rendered), headers={COMMIT_HEADER: rendered.commit_id, **says})
    require_cached()  # rolled-up objects lie in blocks of their own, any number of them
    position = {"prefix": query.prefix, "after": query.after, "delimiter": query.delimiter}
    if query.user_metadata and not query.presign:
        plain = opened.list_as(ListedObject, ref, **position, amount=query.limit)
        shown = [prefix_document(item) if isinstance(item, CommonPrefix) else item for item in plain.results]
        return json_response(ListedPage(pagination(plain), shown), headers={**commit_headers(plain), **says})
    page = opened.list_objects(ref, **position, amount=query.limit)
    presigner = Presigner(call, opened, ref) if query.presign else None
    document = object_document if presigner is None else presigner.document
    listed = [
        document(item, metadata=query.user_metadata) if isinstance(item, ObjectEntry) else prefix_document(item)
        for item in page.results
    ]
    return json_response(ObjectStatsList(pagination(page), listed), headers={**commit_headers(page), **says})


@routes.get(
    _OBJECTS + "/underlyingProperties",
    "getUnderlyingProperties",
    Permission.READ,
    responses={200: UnderlyingObjectProperties, 404: Error},
)
def underlying_properties(call: Call, repository: str, ref: str, query: ObjectQuery) -> Response:
    """Describe an object as the object store knows it."""
    call.lake.stat(repository, ref, query.path)
    return json_response(UnderlyingObjectProperties(None))


@routes.post(
    _OBJECTS + "/stats",
    "statObjects",
    Permission.READ,
    function="read",
    responses={200: StatsOfMany, 400: Error, 404: Error},
)
def stat_objects(call: Call, repository: str, ref: str, query: PresignQuery, body: PathList) -> Response:
    """Describe up to 1,000 objects, all from one state."""
    _bounded(body.paths)
    opened = call.lake.repository(repository, ref)
    presigner = Presigner(call, opened, ref) if query.presign else None
    document = object_document if presigner is None else presigner.document
    entries = opened.stat_many(ref, body.paths)
    return json_response(
        StatsOfMany(
            [document(entry) for entry in entries if entry is not None],
            [
                _object_error(404, ObjectNotFoundError(path, ref), path, "not found: ")
                for path, entry in zip(body.paths, entries, strict=True)
                if entry is None
            ],
        )
    )


@routes.post(
    _BRANCH_OBJECTS,
    "uploadObject",
    staging.Upload,
    responses={201: ObjectStats, 400: Error, 403: Error, 404: Error, 412: Error, 501: Error},
    raw_body=True,
)
def upload_object(call: Call, repository: str, branch: str, query: WriteQuery) -> Response:
    """Write an object's bytes through the API, either directly or as the part ``content`` of a form."""
    condition, force = write_condition(call.headers), call.force(query.force)
    opened = call.lake.repository(repository)
    if not call.has_body:
        opened.new_address(branch, query.path, force=force)  # refuse before the body is sent
    body = call.body_file or call.body_bytes()
    with uploaded(call.headers.get("content-type", ""), body) as (data, content_type):
        request = staging.Upload(
            branch=branch,
            path=query.path,
            content_type=content_type,
            metadata=metadata_of_headers(call.headers),
            if_absent=condition.if_absent,
            if_match=condition.if_match,
            force=force,
        )
        entry = opened.run(request, replace(call.context(), body=data))
    return json_response(object_document(entry), 201)


@routes.put(
    _BRANCH_OBJECTS,
    "stageObject",
    staging.Link,
    responses={201: ObjectStats, 400: Error, 403: Error, 404: Error, 412: Error, 501: Error},
    short=True,
)
def stage_object(call: Call, repository: str, branch: str, query: WriteQuery, body: ObjectStageCreation) -> Response:
    """Stage an object in place, without copying it."""
    entry = entry_to_stage(
        query.path,
        body.physical_address,
        body.checksum,
        body.size_bytes,
        mtime=body.mtime,
        content_type=body.content_type,
        metadata=body.metadata,
    )
    condition, force = write_condition(call.headers), call.force(body.force or query.force)
    link_one(call, repository, branch, entry, condition, force=force)
    return json_response(object_document(entry), 201)


@routes.get(
    _OBJECTS.replace("refs/{ref}", "branches/{branch}") + "/stage_allowed",
    "stageObjectAllowed",
    Permission.WRITE,
    responses={204: None, 404: Error},
)
def stage_allowed(call: Call, repository: str, branch: str, query: ObjectQuery) -> Response:
    """Tell whether an object could be staged at this path."""
    del query
    call.identity.require(Permission.WRITE, repository, branch)
    call.lake.repository(repository).branch(branch)
    return no_content()


@routes.delete(
    _BRANCH_OBJECTS,
    "deleteObject",
    staging.Delete,
    responses={204: None, 403: Error, 404: Error, 412: Error, 501: Error},
    short=True,
)
def delete_object(call: Call, repository: str, branch: str, query: WriteQuery) -> Response:
    """Remove an object from the branch; it is no error if there is none."""
    condition = write_condition(call.headers)
    if condition.if_absent:
        raise ApiError(501, "If-None-Match is not implemented for deletes; If-Match is")
    force = call.force(query.force)
    request = staging.Delete(branch=branch, objects=(query.path,), if_match=condition.if_match, force=force)
    if condition:
        call.run(repository, request)
    else:
        call.lake.with_recent_repository(repository, lambda opened: opened.run(request, call.context()))
    return no_content()


@routes.post(
    _BRANCH_OBJECTS + "/delete",
    "deleteObjects",
    staging.Delete,
    responses={200: ObjectErrorList, 400: Error, 403: Error, 404: Error},
)
def delete_objects(call: Call, repository: str, branch: str, query: ForceQuery, body: PathList) -> Response:
    """Remove up to 1,000 objects from the branch. Invalid paths are reported, and the others removed; an empty path is ignored,
    which Spark relies on.
    """
    _bounded(body.paths)
    paths: list[str] = []
    errors: list[ObjectError] = []
    for path in filter(None, body.paths):
        try:
            encode_key(path)
            paths.append(path)
        except InvalidError as error:
            errors.append(_object_error(400, error, path))
    request = staging.Delete(branch=branch, objects=tuple(paths), force=call.force(query.force))
    call.lake.with_recent_repository(repository, lambda opened: opened.run(request, call.context()))
    return json_response(ObjectErrorList(errors))


@routes.post(
    _BRANCH_OBJECTS + "/copy",
    "copyObject",
    (staging.Copy, staging.Duplicate),
    responses={201: ObjectStats, 400: Error, 403: Error, 404: Error, 412: Error, 501: Error},
)
def copy_object(call: Call, repository: str, branch: str, query: CopyQuery, body: ObjectCopyCreation) -> Response:
    """Copy an object to another path. Both have the same address, and no bytes are copied; with ``shallow: false`` the copy gets
    its own address, if the object is one of the repository's own and no larger than 256 MiB.
    """
    condition = write_condition(call.headers)
    kind = staging.Duplicate if body.shallow is False else staging.Copy
    request = kind(
        branch=branch,
        source_path=body.src_path,
        destination_path=query.dest_path,
        source_ref=body.src_ref or "",
        force=call.force(body.force),
    )
    if not condition and (body.src_checksum, body.content_type, body.user_metadata) == (None, None, None):
        return json_response(object_document(call.run(repository, request)), 201)
    if body.shallow is False:
        raise ApiError(
            501, "a copy with bytes of its own has neither conditions nor other properties; leave out `shallow`"
        )
    copied = copy_under_condition(
        call.lake.repository(repository).parts,
        request,
        condition,
        source_etag=body.src_checksum or "",
        content_type=body.content_type,
        metadata=body.user_metadata,
    )
    return json_response(object_document(copied), 201)


@routes.run(staging.UpdateMetadata, responses={204: None, 400: Error, 403: Error, 404: Error})
def update_user_metadata(call: Call, repository: str, request: staging.UpdateMetadata) -> Response:
    """Replace an object's user metadata."""
    call.run(repository, request)
    return no_content()


def _matches(call: Call, entry: ObjectEntry) -> bool:
    """Return whether the client already has this object (``If-None-Match``)."""
    condition = call.headers.get("if-none-match", "")
    return bool(condition) and (condition == "*" or f'"{entry.checksum}"' in condition)


def _bounded(paths: list[str]) -> None:
    if len(paths) > MAX_PATHS:
        raise bad_request(f"{len(paths)} paths in one request are too many; at most {MAX_PATHS} are allowed")


def _object_error(status: int, error: GravelerError, path: str, words: str = "") -> ObjectError:
    return ObjectError(status, f"{words}{error}", path, code_of(error), fields_of(error))
