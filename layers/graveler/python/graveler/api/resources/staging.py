"""Staging: locations for an object's bytes, and linking the bytes to a path once they are there."""

from typing import Final

from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.conditions import expect_no_condition, write_condition
from graveler.api.errors import ApiError, bad_request
from graveler.api.object_documents import Presigner
from graveler.api.queries import Query, RequiredText
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.api.staging import entry_to_stage, expect_sources, link_one
from graveler.errors import ProtectedBranchError
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.requests import staging
from graveler.requests.base import Permission
from graveler.wire.error_documents import Error
from graveler.wire.object_documents import (
    LinkedObjects,
    Links,
    ObjectStats,
    StagingLocation,
    StagingMetadata,
    object_document,
)

routes = Routes("staging")

MAX_LINKS: Final = 1000
"""Objects that one request may link."""

_BACKING: Final = "/repositories/{repository}/branches/{branch}/staging/backing"


class BackingQuery(Query, frozen=True, kw_only=True):
    """The path that the object will have, and whether to respond with a URL to write it."""

    path: RequiredText
    presign: bool = False
    force: bool = False


class LinkQuery(Query, frozen=True, kw_only=True):
    """The path that the object gets."""

    path: RequiredText


@routes.get(
    _BACKING,
    "getPhysicalAddress",
    Permission.WRITE,
    function="write",
    responses={200: StagingLocation, 400: Error, 403: Error, 404: Error},
    short=True,
)
def get_physical_address(call: Call, repository: str, branch: str, query: BackingQuery) -> Response:
    """Get an address to write an object's bytes to before linking it."""
    call.identity.require(Permission.WRITE, repository, branch)
    force = call.force(query.force)

    def new_address(opened: OpenRepository) -> tuple[OpenRepository, str]:
        return opened, opened.new_address(branch, query.path, force=force)

    try:
        opened, address = call.lake.with_recent_repository(repository, new_address)
    except ProtectedBranchError as error:
        if not call.headers.get("user-agent", "").startswith("lakectl/"):
            raise
        # Of this response lakectl shows the message only, and of all others the status in a line of its own, too.
        raise ApiError(403, "cannot write to protected branch\n403 Forbidden", cause=error) from None
    if not query.presign:
        return json_response(StagingLocation(address))
    presigner = Presigner(call, opened, branch)
    url = presigner.upload_url(query.path, address)
    return json_response(StagingLocation(address, url, presigner.expiry(url)))


@routes.put(
    _BACKING,
    "linkPhysicalAddress",
    staging.Link,
    responses={200: ObjectStats, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error, 501: Error},
    short=True,
)
def link_physical_address(
    call: Call, repository: str, branch: str, query: LinkQuery, body: StagingMetadata
) -> Response:
    """Link a path to an object that was written to its address."""
    entry = _entry(query.path, body)
    condition, force = write_condition(call.headers), call.force(body.force)
    link_one(call, repository, branch, entry, condition, force=force)
    return json_response(object_document(entry))


@routes.post(
    "/repositories/{repository}/branches/{branch}/staging/links",
    "linkPhysicalAddresses",
    staging.LinkMany,
    responses={200: LinkedObjects, 400: Error, 403: Error, 404: Error, 501: Error},
)
def link_physical_addresses(call: Call, repository: str, branch: str, body: Links) -> Response:
    """Link up to 1,000 paths to objects. Each is linked separately: after an error, repeating the request is safe."""
    expect_no_condition(call.headers)
    if len(body.objects) > MAX_LINKS:
        raise bad_request(f"{len(body.objects)} objects in one request are too many; at most {MAX_LINKS} are allowed")
    entries = [_entry(link.path, link) for link in body.objects]
    if len({entry.path for entry in entries}) < len(entries):
        raise bad_request("two objects in the request have the same path; link each path once")
    force = call.force(body.force)

    def link(opened: OpenRepository) -> None:
        request = staging.LinkMany(branch=branch, entries=tuple(entries), force=force)
        opened.run(request, replace(call.context(), accept=expect_sources(call, opened, entries)))

    call.lake.with_recent_repository(repository, link)
    return json_response(LinkedObjects([object_document(entry) for entry in entries]))


def _entry(path: str, body: StagingMetadata) -> ObjectEntry:
    address = body.staging.physical_address
    if not address:
        raise bad_request(f"object {path!r} needs staging.physical_address, the address of its bytes")
    return entry_to_stage(
        path,
        address,
        body.checksum,
        body.size_bytes,
        mtime=body.mtime,
        content_type=body.content_type,
        metadata=body.user_metadata,
    )
