"""Uploads in parts that the table records: any client continues, lists, completes or aborts one by its ID, for seven days."""

from typing import Annotated, Final

from msgspec import Meta

from graveler.api.call import Call
from graveler.api.conditions import write_condition
from graveler.api.queries import AmountQuery, PageQuery, Query, RequiredText
from graveler.api.resources.multipart import part_number_of
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.lake.objects import recorded_uploads
from graveler.lake.objects.upload_records import UploadRecord
from graveler.requests.base import Permission
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error
from graveler.wire.object_documents import (
    ObjectStats,
    PartList,
    RecordedUpload,
    RecordedUploadList,
    StoredPart,
    StoredPartList,
    UploadCreation,
    UploadTo,
    object_document,
)

routes = Routes("recorded uploads")

_UPLOADS: Final = "/repositories/{repository}/branches/{branch}/uploads"


class UploadQuery(Query, frozen=True, kw_only=True):
    """The path that the object will have."""

    path: RequiredText


class UploadsQuery(PageQuery, frozen=True, kw_only=True):
    """The uploads to list, by the paths of their objects."""

    after_id: Annotated[
        str, Meta(description="of the uploads to the path `after`, only those after this ID; without it, none of them")
    ] = ""


class PartsQuery(AmountQuery, frozen=True, kw_only=True):
    """The path that the object will have, and the parts to list."""

    path: RequiredText
    after: Annotated[int, Meta(ge=0, description="only parts with higher numbers")] = 0


@routes.post(
    _UPLOADS,
    "createUpload",
    Permission.WRITE,
    responses={201: RecordedUpload, 400: Error, 403: Error, 404: Error},
)
def create_upload(call: Call, repository: str, branch: str, query: UploadQuery, body: UploadCreation) -> Response:
    """Begin an upload in parts."""
    upload = recorded_uploads.create_upload(
        call.lake.repository(repository).parts,
        branch,
        query.path,
        content_type=body.content_type or "",
        metadata=body.user_metadata,
        by=call.committer,
    )
    return json_response(_document(upload), 201)


@routes.get(
    _UPLOADS,
    "listUploads",
    Permission.READ,
    responses={200: RecordedUploadList, 400: Error, 404: Error},
)
def list_uploads(call: Call, repository: str, branch: str, query: UploadsQuery) -> Response:
    """List the uploads to a branch that are neither completed nor aborted, by path and time."""
    opened = call.lake.repository(repository)
    opened.branch(branch)
    after = (query.after, query.after_id or recorded_uploads.AFTER_ALL) if query.after else None
    listed, more = recorded_uploads.list_uploads(opened.parts, branch, query.prefix, after, query.limit)
    offset = listed[-1].path if more else ""
    documents = [_document(upload) for upload in listed]
    return json_response(RecordedUploadList(Pagination(more, offset, len(documents)), documents))


@routes.put(
    _UPLOADS + "/{upload_id}",
    "completeUpload",
    Permission.WRITE,
    responses={200: ObjectStats, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error, 501: Error},
)
def complete_upload(
    call: Call, repository: str, branch: str, upload_id: str, query: UploadQuery, body: PartList
) -> Response:
    """Make the object of its parts, and stage it. Repeated within a day, the response is the same."""
    entry = recorded_uploads.complete_upload(
        call.lake.repository(repository).parts,
        branch,
        query.path,
        upload_id,
        [(part.part_number, part.etag.strip('"')) for part in body.parts],
        write_condition(call.headers),
    )
    return json_response(object_document(entry))


@routes.delete(
    _UPLOADS + "/{upload_id}",
    "abortUpload",
    Permission.WRITE,
    responses={204: None, 400: Error, 404: Error},
)
def abort_upload(call: Call, repository: str, branch: str, upload_id: str, query: UploadQuery) -> Response:
    """Abort an upload, and remove its parts."""
    recorded_uploads.abort_upload(call.lake.repository(repository).parts, branch, query.path, upload_id)
    return no_content()


@routes.get(
    _UPLOADS + "/{upload_id}/parts",
    "listUploadParts",
    Permission.WRITE,
    function="write",
    responses={200: StoredPartList, 400: Error, 404: Error},
)
def list_parts(call: Call, repository: str, branch: str, upload_id: str, query: PartsQuery) -> Response:
    """List the parts that were uploaded, by number."""
    parts, more = recorded_uploads.list_parts(
        call.lake.repository(repository).parts, branch, query.path, upload_id, query.after, query.limit
    )
    offset = str(parts[-1].number) if more else ""
    documents = [StoredPart(part.number, part.size, part.etag, part.modified) for part in parts]
    return json_response(StoredPartList(Pagination(more, offset, len(documents)), documents))


@routes.put(
    _UPLOADS + "/{upload_id}/parts/{part_number}",
    "getPartUrl",
    Permission.WRITE,
    responses={200: UploadTo, 400: Error, 404: Error},
)
def part_url(
    call: Call, repository: str, branch: str, upload_id: str, part_number: str, query: UploadQuery
) -> Response:
    """Get a URL to upload one part to."""
    opened = call.lake.repository(repository)
    address, url = recorded_uploads.part_url(
        opened.parts, branch, query.path, upload_id, part_number_of(part_number), call.settings.presign_seconds
    )
    call.audit_url(address, repository=repository, ref=branch, path=query.path)
    return json_response(UploadTo(call.url(url)))


def _document(upload: UploadRecord) -> RecordedUpload:
    return RecordedUpload(
        upload_id=upload.upload_id,
        path=upload.path,
        creation_date=int(upload.created),
        creator=upload.by,
        content_type=upload.content_type,
        user_metadata=upload.metadata,
    )
