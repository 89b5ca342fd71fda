"""Reads of objects: GetObject and HeadObject."""

from graveler.api.header_values import http_date
from graveler.errors import BytesGoneError
from graveler.gateway.exchange import Exchange
from graveler.gateway.lakes import Opened, expect_kept, stat_to_read
from graveler.gateway.mounts import Location
from graveler.gateway.protocol.documents import attributes_document
from graveler.gateway.protocol.object_headers import expect_no_version, object_headers, response_overrides
from graveler.gateway.protocol.preconditions import precondition_failed, read_condition, requested_bytes
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.service import Service
from graveler.gateway.store.port import Body
from graveler.model import ObjectEntry
from graveler.requests.base import Permission
from graveler.storage.objects.port import ObjectMissingError


async def get_object(service: Service, exchange: Exchange) -> None:
    """Respond with an object's bytes, or a range of them. Cost: a stat and one object read."""
    expect_no_version(exchange.parameters)
    location = await service.locate(exchange, Permission.READ)
    repository, entry = await stat(service, location, reads=True)
    headers = object_headers(entry) | response_overrides(exchange.parameters)
    if _conditions_decide(exchange, entry, headers):
        return
    span = requested_bytes(exchange.headers, exchange.parameters, entry.checksum, entry.size)
    start, length, status = 0, entry.size, 200
    if span is not None:
        start, length, status = span.start, span.length, 206
        headers["content-range"] = span.content_range
    headers["content-length"] = str(length)
    if not length:
        exchange.respond(status, headers)
        return
    body = await _body(service, location, repository, entry, start, length)
    if isinstance(body, bytes):
        exchange.respond(status, headers, body)
    else:
        length = await exchange.respond_pieces(status, headers, body)
    service.traffic.read(length)


async def _body(
    service: Service, location: Location, repository: Opened, entry: ObjectEntry, start: int, length: int
) -> Body:
    objects, key = repository.store_at(entry.address)
    try:
        return await service.stores.of(objects).read(key, start, length)
    except ObjectMissingError:
        await service.calls.short(lambda: expect_kept(repository, location.ref))
        raise BytesGoneError(entry.path, location.ref, entry.address) from None


async def head_object(service: Service, exchange: Exchange) -> None:
    """Respond with an object's headers. Cost: a stat."""
    expect_no_version(exchange.parameters)
    location = await service.locate(exchange, Permission.READ)
    _, entry = await stat(service, location)
    headers = object_headers(entry) | response_overrides(exchange.parameters)
    if _conditions_decide(exchange, entry, headers):
        return
    span = requested_bytes(exchange.headers, exchange.parameters, entry.checksum, entry.size)
    if span is None:
        exchange.respond(200, {**headers, "content-length": str(entry.size)})
        return
    exchange.respond(206, {**headers, "content-length": str(span.length), "content-range": span.content_range})


async def get_object_attributes(service: Service, exchange: Exchange) -> None:
    """Respond with what the request asks for of an object's ETag and size. Cost: a stat."""
    expect_no_version(exchange.parameters)
    location = await service.locate(exchange, Permission.READ)
    _, entry = await stat(service, location)
    names = exchange.headers.get("x-amz-object-attributes", "").split(",")
    document = attributes_document(names, entry.checksum, entry.size)
    exchange.respond_document(document, {"last-modified": http_date(entry.mtime)})


async def stat(service: Service, location: Location, *, reads: bool = False) -> tuple[Opened, ObjectEntry]:
    """Return the object at a location, and its repository; with ``reads`` for reading its bytes."""
    if not (location.ref and location.path):
        raise S3Error("NoSuchKey", f"the key names no object; in repository {location.repository!r} write REF/PATH")
    place = location.repository, location.ref, location.path
    if reads:
        return await service.calls.short(lambda: stat_to_read(service.lake, *place))
    return await service.calls.short(lambda: service.lake.stat(*place))


def _conditions_decide(exchange: Exchange, entry: ObjectEntry, headers: dict[str, str]) -> bool:
    """Respond to a request whose conditions say that the client has the object; return whether they did. :class:`S3Error` if they
    want another one."""
    status = read_condition(exchange.headers, entry.checksum, entry.mtime)
    if status == 412:
        raise precondition_failed("If-Match" if "if-match" in exchange.headers else "If-Unmodified-Since")
    if status == 304:
        exchange.respond(304, {name: headers[name] for name in ("etag", "last-modified") if name in headers})
        return True
    return False
