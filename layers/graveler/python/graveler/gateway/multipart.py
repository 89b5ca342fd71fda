"""Uploads in parts. The table has a record of each, so that any gateway of the lake continues it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from graveler.errors import InvalidError, RefNotFoundError, UploadNotFoundError
from graveler.gateway.arrival import known_checksums, read_document, write_body
from graveler.gateway.copying import read_source
from graveler.gateway.exchange import Exchange
from graveler.gateway.lakes import (
    Opened,
    abort_upload,
    all_parts,
    complete_upload,
    create_upload,
    find_upload,
    list_upload_branches,
    list_uploads,
)
from graveler.gateway.lakes import list_parts as list_stored_parts
from graveler.gateway.mounts import Location
from graveler.gateway.protocol.body import BodyDecoder
from graveler.gateway.protocol.object_headers import expect_supported, object_metadata
from graveler.gateway.protocol.preconditions import copied_range, write_condition
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.upload_documents import (
    ListedUpload,
    UploadListing,
    begun_document,
    completed_document,
    completed_parts,
    copied_part_document,
    part_listing_of,
    part_number,
    parts_document,
    upload_listing_of,
    uploads_document,
)
from graveler.gateway.service import Service
from graveler.history.names import is_branch
from graveler.lake.objects.recorded_uploads import AFTER_ALL
from graveler.lake.objects.upload_records import UploadRecord
from graveler.requests.base import Permission

_REMEMBERED: Final = 10_000
"""Records of uploads that a process remembers. A record never changes; an upload that has ended is missing in the store."""
_SMALLEST: Final = 5 << 20
"""Bytes that S3 requires in each part but the last."""


async def create_multipart_upload(service: Service, exchange: Exchange) -> None:
    """Begin an upload in parts. Cost: one object request, one table write."""
    expect_supported(exchange.headers)
    location = await service.locate(exchange, Permission.WRITE)
    content_type, metadata = object_metadata(exchange.headers)
    created = partial(
        create_upload,
        branch=location.ref,
        path=location.path,
        content_type=content_type,
        metadata=metadata,
        by=exchange.identity.name,
    )
    with service.writing():
        upload = await service.call(location, created)
    exchange.respond_document(begun_document(exchange.bucket, exchange.key, upload.upload_id))


async def upload_part(service: Service, exchange: Exchange) -> None:
    """Write a part. Cost: one object write, and a table read for the first part in this process."""
    location = await service.locate(exchange, Permission.WRITE)
    number = part_number(exchange.parameters)
    decoder = BodyDecoder(exchange.head, exchange.payload)
    decoder.omit_md5()  # a part's ETag is the store's
    with service.writing():
        repository, upload = await find(service, exchange, location)
        writer = service.stores.of(repository.namespace).part_writer(
            upload.key, upload.store_id, number, decoder.length, known_checksums(decoder)
        )
        part = await write_body(exchange, decoder, writer, service.disk)
    exchange.respond(200, {"etag": f'"{part.etag}"', **decoder.checksums})


async def upload_part_copy(service: Service, exchange: Exchange) -> None:
    """Write a part with the bytes of an object. Cost: a stat, one copy of the store, and a table read for the first part in this
    process."""
    location = await service.locate(exchange, Permission.WRITE)
    number = part_number(exchange.parameters)
    _, source, entry = await read_source(service, exchange)
    start, length = copied_range(exchange.headers, entry.size) or (0, entry.size)
    objects, key = source.store_at(entry.address)
    with service.writing():
        repository, upload = await find(service, exchange, location)
        part = await service.stores.of(repository.namespace).copy_part(
            service.stores.of(objects), key, start, length, upload.key, upload.store_id, number
        )
    exchange.respond_document(copied_part_document(part.etag, int(part.modified)))


async def list_parts(service: Service, exchange: Exchange) -> None:
    """List the parts of an upload. Cost: one object request for each thousand, and a table read."""
    location = await service.locate(exchange, Permission.WRITE)
    listing = part_listing_of(exchange.parameters)
    listed = partial(
        list_stored_parts,
        branch=location.ref,
        path=location.path,
        upload_id=exchange.parameters["uploadId"],
        after=listing.after,
        amount=listing.amount,
    )
    parts, is_truncated = await service.calls.long(
        lambda: service.lake.with_recent_repository(location.repository, listed)
    )
    exchange.respond_document(parts_document(exchange.bucket, exchange.key, listing, parts, is_truncated))


async def complete_multipart_upload(service: Service, exchange: Exchange) -> None:
    """Make the object of its parts and stage it. Cost: a table read, one object request (two on S3), a link with a condition."""
    location = await service.locate(exchange, Permission.WRITE)
    condition = write_condition(exchange.headers)
    upload_id = exchange.parameters["uploadId"]
    named = completed_parts(await read_document(exchange, checksum_is_of_body=False))
    parts = [(part.number, part.etag) for part in named]

    completed = partial(
        complete_upload,
        branch=location.ref,
        path=location.path,
        upload_id=upload_id,
        parts=parts,
        condition=condition,
    )
    with service.writing():
        try:
            entry = await service.change(location, completed)
        except RefNotFoundError:
            raise S3Error(
                "NoSuchUpload",
                f"branch {location.ref!r} does not exist any more, so this upload cannot be completed; it can be once a branch "
                "has that name again, and be aborted now",
                fields={"UploadId": upload_id},
            ) from None
        except InvalidError as error:
            raise await _wrong_part(service, exchange, location, parts, error) from None
    _forget(service, location, upload_id)
    service.traffic.wrote(entry.size)
    place = f"{exchange.origin}/{exchange.bucket}/{quote(exchange.key)}"
    exchange.respond_document(completed_document(place, exchange.bucket, exchange.key, entry.checksum))


async def _wrong_part(
    service: Service, exchange: Exchange, location: Location, parts: Sequence[tuple[int, str]], error: InvalidError
) -> S3Error:
    """Return the error for parts that the store does not join: that of the first part that is missing or too small. Cost: a
    listing of all parts. The store's own words name a key that no client knows."""
    repository, upload = await find(service, exchange, location)
    stored = await service.calls.long(
        lambda: {part.number: part for part in all_parts(repository, location.ref, location.path, upload.upload_id)}
    )
    named = f"of the upload of {exchange.key!r}"
    for number, etag in parts:
        part = stored.get(number)
        if part is None or part.etag != etag:
            difference = "was not uploaded" if part is None else f"has the ETag {part.etag}"
            return S3Error(
                "InvalidPart",
                f"part {number} {named} with ETag {etag[:80]} does not exist: that part {difference}. Upload it again",
                fields={"UploadId": upload.upload_id, "PartNumber": str(number), "ETag": etag[:80]},
            )
        if part.size < _SMALLEST and number != parts[-1][0]:
            return S3Error(
                "EntityTooSmall",
                f"part {number} {named} has {part.size:,} bytes; this lake's store requires {_SMALLEST:,} in each but the last",
                fields={"ProposedSize": str(part.size), "MinSizeAllowed": str(_SMALLEST), "PartNumber": str(number)},
            )
    return S3Error("InvalidPart", str(error).replace(upload.key, upload.path))


async def abort_multipart_upload(service: Service, exchange: Exchange) -> None:
    """Abort an upload and remove its parts. Cost: one table read, one table write, one object request."""
    location = await service.locate(exchange, Permission.WRITE)
    upload_id = exchange.parameters["uploadId"]
    await service.call(location, lambda opened: abort_upload(opened, location.ref, location.path, upload_id))
    _forget(service, location, upload_id)
    exchange.respond(204)


async def list_multipart_uploads(service: Service, exchange: Exchange) -> None:
    """List unfinished uploads by key. Cost: one table read for each thousand, those of skipped common prefixes too; of a bucket
    with several branches, and a prefix that does not name one, also one for each branch with uploads."""
    listing = upload_listing_of(exchange.parameters)
    mount = service.mounts.mount(exchange.bucket)
    prefix = listing.prefix if listing.prefix.startswith(mount.prefix) else mount.prefix
    location = await service.located(exchange, mount, prefix)
    exchange.require(Permission.READ, mount, location)
    page = UploadPage([], [], None)
    if prefix.startswith(listing.prefix) and (is_branch(location.ref) or not (location.ref or location.above)):
        page = await service.call(location, lambda opened: _page(_uploads(opened, location, listing), listing))
    exchange.respond_document(uploads_document(exchange.bucket, listing, page.uploads, page.prefixes, page.next_upload))


class UploadPage(Struct, frozen=True):
    """A page of unfinished uploads, as :func:`uploads_document` takes it."""

    uploads: list[ListedUpload]
    prefixes: list[str]
    next_upload: tuple[str, str] | None


def _uploads(opened: Opened, location: Location, listing: UploadListing) -> Iterator[ListedUpload]:
    """Yield the uploads behind a listing's marker, in the order of their keys: those to a location's branch, or to all branches
    whose names begin with the path of a location without a ref."""
    if location.ref:
        places = [(location.ref, location.above, location.path)]
    else:
        branches = list_upload_branches(opened, location.path)
        places = sorted(((branch, f"{branch}/", "") for branch in branches), key=itemgetter(1))
    after = listing.after_key
    for branch, above, prefix in places:
        position = None
        if after.startswith(above):
            position = after.removeprefix(above), listing.after_upload or AFTER_ALL
        elif after > above:
            continue  # its keys are all before the marker
        more = True
        while more:
            records, more = list_uploads(opened, branch, prefix, position)
            for record in records:
                position = record.path, record.upload_id
                yield ListedUpload(above + record.path, record.upload_id, int(record.created))


def _page(following: Iterator[ListedUpload], listing: UploadListing) -> UploadPage:
    """Return the page of a listing: the uploads, and the common prefixes of those that have the delimiter."""
    uploads: list[ListedUpload] = []
    prefixes: list[str] = []
    last = ("", "")
    for upload in following:
        key, upload_id = upload.key, upload.upload_id
        end = key.find(listing.delimiter, len(listing.prefix)) if listing.delimiter else -1
        if end >= 0:
            key, upload_id = key[: end + len(listing.delimiter)], ""
            if key == last[0] or key <= listing.after_key:
                continue
        if len(uploads) + len(prefixes) == listing.amount:
            return UploadPage(uploads, prefixes, last)
        last = key, upload_id
        if upload_id:
            uploads.append(upload)
        else:
            prefixes.append(key)
    return UploadPage(uploads, prefixes, None)


async def abort_all(service: Service, repository: str, branch: str) -> None:
    """Abort all unfinished uploads to a branch. Cost: one table read for each thousand, and those of each abortion."""

    def abort(opened: Opened) -> None:
        more = True
        while more:
            records, more = list_uploads(opened, branch)
            for record in records:
                with suppress(UploadNotFoundError):  # somebody else ended it
                    abort_upload(opened, branch, record.path, record.upload_id)

    await service.calls.long(lambda: service.lake.with_recent_repository(repository, abort))


async def find(service: Service, exchange: Exchange, location: Location) -> tuple[Opened, UploadRecord]:
    """Return the upload that a request names, and its repository. One table read for one that this process does not know.
    :class:`graveler.errors.UploadNotFoundError`."""
    upload_id = exchange.parameters["uploadId"]

    def look(opened: Opened) -> tuple[Opened, UploadRecord]:
        key = location, upload_id
        uid, upload = service.uploads.get(key, ("", None))
        if upload is None or uid != opened.identity:
            upload = find_upload(opened, location.ref, location.path, upload_id)
            if len(service.uploads) >= _REMEMBERED:
                service.uploads.clear()
            service.uploads[key] = opened.identity, upload
        return opened, upload

    return await service.call(location, look)


def _forget(service: Service, location: Location, upload_id: str) -> None:
    service.uploads.pop((location, upload_id), None)
