"""Multipart uploads, by presigned URLs. The server keeps no state of them: an upload's address proves what it was issued for."""

from typing import Annotated, Final

from msgspec import UNSET, Meta

from graveler.api.call import Call
from graveler.api.conditions import write_condition
from graveler.api.errors import bad_request
from graveler.api.queries import Query, RequiredText
from graveler.api.ranges import span
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.lake.objects import uploads
from graveler.lake.objects.uploads import PartedUpload
from graveler.requests.base import Permission
from graveler.wire.error_documents import Error
from graveler.wire.object_documents import (
    AbortPresignMultipartUpload,
    CompletePresignMultipartUpload,
    ObjectStats,
    PresignMultipartUpload,
    UploadPartCopyFrom,
    UploadPartFrom,
    UploadTo,
    object_document,
)

routes = Routes("multipart uploads")

_UPLOADS: Final = "/repositories/{repository}/branches/{branch}/staging/pmpu"
MAX_COPIED_PART: Final = 64 << 20
"""Bytes of another object that one part may be copied from."""


class UploadQuery(Query, frozen=True, kw_only=True):
    """The path that the object will have."""

    path: RequiredText


class BeginQuery(UploadQuery, frozen=True, kw_only=True):
    """The path that the object will have, and the number of part URLs to return at once."""

    parts: Annotated[int, Meta(ge=0, le=10_000)] = 0


@routes.post(
    _UPLOADS,
    "createPresignMultipartUpload",
    Permission.WRITE,
    responses={201: PresignMultipartUpload, 400: Error, 403: Error, 404: Error},
)
def create_upload(call: Call, repository: str, branch: str, query: BeginQuery) -> Response:
    """Start a multipart upload."""
    opened = call.lake.repository(repository)
    upload = opened.begin_upload(branch, query.path)
    seconds = call.settings.presign_seconds
    urls = [
        call.url(uploads.part_url(opened.parts, branch, query.path, upload, number + 1, seconds))
        for number in range(query.parts)
    ]
    if urls:
        call.audit_url(upload.address, repository=repository, ref=branch, path=query.path)
    return json_response(PresignMultipartUpload(upload.upload_id, upload.address, urls or UNSET), 201)


@routes.put(
    _UPLOADS + "/{upload_id}",
    "completePresignMultipartUpload",
    Permission.WRITE,
    responses={200: ObjectStats, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error, 501: Error},
)
def complete_upload(
    call: Call,
    repository: str,
    branch: str,
    upload_id: str,
    query: UploadQuery,
    body: CompletePresignMultipartUpload,
) -> Response:
    """Assemble an object from its parts, and stage it."""
    condition = write_condition(call.headers)
    upload = _upload(upload_id, body.physical_address)
    if not body.parts:
        raise bad_request("parts is empty: an object needs at least one part")
    entry = uploads.finish_upload(
        call.lake.repository(repository).parts,
        branch,
        query.path,
        upload,
        [(part.part_number, part.etag.strip('"')) for part in body.parts],
        content_type=body.content_type or "",
        metadata=body.user_metadata,
        if_absent=condition.if_absent,
        if_match=condition.if_match,
    )
    return json_response(object_document(entry))


@routes.delete(
    _UPLOADS + "/{upload_id}",
    "abortPresignMultipartUpload",
    Permission.WRITE,
    responses={204: None, 400: Error, 404: Error},
)
def abort_upload(
    call: Call, repository: str, branch: str, upload_id: str, query: UploadQuery, body: AbortPresignMultipartUpload
) -> Response:
    """Abort an upload, and drop its parts."""
    opened = call.lake.repository(repository)
    opened.branch(branch)
    uploads.abort_upload(opened.parts, branch, query.path, _upload(upload_id, body.physical_address))
    return no_content()


@routes.put(
    _UPLOADS + "/{upload_id}/parts/{part_number}",
    "uploadPart",
    Permission.WRITE,
    responses={200: UploadTo, 400: Error, 404: Error},
)
def upload_part(
    call: Call,
    repository: str,
    branch: str,
    upload_id: str,
    part_number: str,
    query: UploadQuery,
    body: UploadPartFrom,
) -> Response:
    """Get a fresh URL for one part."""
    opened = call.lake.repository(repository)
    upload = _upload(upload_id, body.physical_address)
    url = uploads.part_url(
        opened.parts, branch, query.path, upload, part_number_of(part_number), call.settings.presign_seconds
    )
    call.audit_url(upload.address, repository=repository, ref=branch, path=query.path)
    return json_response(UploadTo(call.url(url)))


@routes.put(
    _UPLOADS + "/{upload_id}/parts/{part_number}/copy",
    "uploadPartCopy",
    Permission.WRITE,
    responses={204: None, 400: Error, 404: Error},
)
def upload_part_copy(
    call: Call,
    repository: str,
    branch: str,
    upload_id: str,
    part_number: str,
    query: UploadQuery,
    body: UploadPartCopyFrom,
) -> Response:
    """Create a part from bytes of another object; the header ``ETag`` is the part's."""
    opened = call.lake.repository(repository)
    source = opened.stat(body.copy_source.ref or branch, body.copy_source.path)
    part = span(body.copy_source.range, source.size)
    if body.copy_source.range and (part is None or not part.length):
        raise bad_request(f"range {body.copy_source.range!r} is malformed, or outside the {source.size} bytes")
    start, length = (0, source.size) if part is None else (part.start, part.length)
    if length > MAX_COPIED_PART:
        raise bad_request(f"a part of {length} bytes is too large to copy; at most {MAX_COPIED_PART} are allowed")
    etag = uploads.upload_part(
        opened.parts,
        branch,
        query.path,
        _upload(upload_id, body.physical_address),
        part_number_of(part_number),
        b"".join(opened.bytes_in(body.copy_source.ref or branch, source, start, length)),
    )
    return no_content({"etag": f'"{etag}"'})


def _upload(upload_id: str, address: str) -> PartedUpload:
    if not address:
        raise bad_request("physical_address is empty; give the one that the upload was started with")
    return PartedUpload(address, upload_id)


def part_number_of(text: str) -> int:
    """Return the number of a part. 400 for what is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5):
        raise bad_request(f"part number {text[:20]!r} is not between 1 and 10000")
    return int(text)
