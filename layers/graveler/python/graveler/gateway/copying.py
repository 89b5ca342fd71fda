"""Copies of objects: CopyObject."""

from collections.abc import Mapping

from graveler.gateway.exchange import Exchange
from graveler.gateway.lakes import Opened, copy_under_condition
from graveler.gateway.mounts import Location
from graveler.gateway.protocol.documents import copied_document
from graveler.gateway.protocol.object_headers import (
    copy_source,
    expect_supported,
    object_metadata,
    replaces_metadata,
)
from graveler.gateway.protocol.preconditions import copy_condition, write_condition
from graveler.gateway.reading import stat
from graveler.gateway.service import Service
from graveler.gateway.writing import new_address, stage
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.requests.base import Permission
from graveler.requests.staging import Condition, Copy, Link


async def copy_object(service: Service, exchange: Exchange) -> None:
    """Copy an object. Within a repository no byte is copied; between two the store copies them, since each repository collects
    its own. Cost: two stats and a link with its conditions; between repositories one copy of the store."""
    expect_supported(exchange.headers)
    location = await service.locate(exchange, Permission.WRITE)
    source, repository, entry = await read_source(service, exchange, within=location.repository)
    condition = write_condition(exchange.headers)
    content_type, metadata = object_metadata(exchange.headers) if replaces_metadata(exchange.headers) else (None, None)
    with service.writing():
        if source.repository == location.repository:
            request = Copy(
                branch=location.ref,
                source_path=source.path,
                destination_path=location.path,
                source_ref=source.ref,
            )
            copied = await service.change(
                location,
                lambda opened: copy_under_condition(
                    opened,
                    request,
                    condition,
                    source_etag=entry.checksum,
                    content_type=content_type,
                    metadata=metadata,
                ),
            )
        else:
            copied = await _copied_bytes(service, location, repository, entry, content_type, metadata, condition)
    service.traffic.wrote(copied.size)
    exchange.respond_document(copied_document(copied.checksum, copied.mtime))


async def read_source(
    service: Service, exchange: Exchange, *, within: str = ""
) -> tuple[Location, Opened, ObjectEntry]:
    """Return the location of the object that a request copies, its repository, and its metadata. The bytes will be read, but for
    an object of the repository ``within``. Cost: a stat. :class:`S3Error` if a condition of the request fails for it."""
    bucket, key = copy_source(exchange.headers)
    mount = service.mounts.mount(bucket)
    source = await service.located(exchange, mount, key)
    exchange.require(Permission.READ, mount, source)
    repository, entry = await stat(service, source, reads=source.repository != within)
    copy_condition(exchange.headers, entry.checksum, entry.mtime)
    return source, repository, entry


async def _copied_bytes(
    service: Service,
    location: Location,
    source: Opened,
    entry: ObjectEntry,
    content_type: str | None,
    metadata: Mapping[str, str] | None,
    condition: Condition,
) -> ObjectEntry:
    """Copy an object's bytes into the repository of a location, and stage the copy there."""
    repository, address = await new_address(service, location)
    objects, key = repository.store_at(address)
    source_objects, source_key = source.store_at(entry.address)
    await service.stores.of(objects).copy(service.stores.of(source_objects), source_key, entry.size, key)
    copied = ObjectEntry(
        location.path,
        address,
        entry.size,
        entry.checksum,
        int(repository.clock.now()),
        entry.content_type if content_type is None else content_type or DEFAULT_CONTENT_TYPE,
        entry.metadata if metadata is None else metadata,
    )
    link = Link(branch=location.ref, entry=copied, if_absent=condition.if_absent, if_match=condition.if_match)
    await stage(service, location, repository, link)
    return copied
