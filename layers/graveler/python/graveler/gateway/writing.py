"""Writes of objects: PutObject, DeleteObject and DeleteObjects."""

import re
from collections import defaultdict
from typing import Final

from graveler.errors import GravelerError
from graveler.gateway.arrival import arriving, known_checksums, read_document, write_body
from graveler.gateway.exchange import Exchange
from graveler.gateway.lake_errors import s3_error
from graveler.gateway.lakes import Opened
from graveler.gateway.mounts import Location
from graveler.gateway.protocol.body import BodyDecoder
from graveler.gateway.protocol.documents import deleted_document, deleted_objects
from graveler.gateway.protocol.object_headers import expect_no_version, expect_supported, object_metadata
from graveler.gateway.protocol.preconditions import write_condition
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.service import Service
from graveler.model import ObjectEntry
from graveler.requests.base import Permission
from graveler.requests.staging import Delete, Link
from graveler.storage.objects.port import StoredObject
from graveler.tree.record import encode_key

_COMPARED: Final = 1 << 20
"""Length of bodies in bytes up to which the MD5 is always computed, and compared with the store's ETag."""
_MD5: Final = re.compile(r"[0-9a-f]{32}")


async def put_object(service: Service, exchange: Exchange) -> None:
    """Write an object and stage it. Cost: a table read, one object write, and a link with its conditions."""
    expect_supported(exchange.headers)
    location = await service.locate(exchange, Permission.WRITE)
    condition = write_condition(exchange.headers)
    content_type, metadata = object_metadata(exchange.headers)
    decoder = BodyDecoder(exchange.head, exchange.payload)
    if not location.path and not decoder.length:
        await _mark_branch(service, exchange, location, decoder)
        return
    with service.writing():
        repository, address = await new_address(service, location)
        objects, key = repository.store_at(address)
        store = service.stores.of(objects)
        if store.etags_are_md5 and decoder.length > _COMPARED:
            decoder.omit_md5()
        writer = store.writer(key, decoder.length, known_checksums(decoder))
        stored = await write_body(exchange, decoder, writer, service.disk)
        checksum = decoder.md5 or checksum_of(stored)
        store.compare_etag(stored, checksum)
        entry = ObjectEntry(
            location.path, address, decoder.length, checksum, int(repository.clock.now()), content_type, metadata
        )
        link = Link(branch=location.ref, entry=entry, if_absent=condition.if_absent, if_match=condition.if_match)
        await stage(service, location, repository, link)
    service.traffic.wrote(entry.size)
    exchange.respond(200, {"etag": f'"{entry.checksum}"', **decoder.checksums})


def checksum_of(stored: StoredObject) -> str:
    """Return the checksum of an object whose MD5 was left to the store: its ETag there. If that is no MD5, it gets the form of an
    upload in parts, so that nobody takes it for one."""
    return stored.etag if _MD5.fullmatch(stored.etag) and not stored.encrypted else f"{stored.etag}-1"


async def _mark_branch(service: Service, exchange: Exchange, location: Location, decoder: BodyDecoder) -> None:
    """Respond to the marker of a folder that is a branch itself: clients write one for each folder above their files. It is not
    stored, as no path is empty; the branch has to be there."""
    async for piece in arriving(exchange):
        decoder.feed(piece)
    decoder.finish()
    await service.call(location, lambda opened: opened.branch(location.ref))
    exchange.respond(200, {"etag": f'"{decoder.md5}"', **decoder.checksums})


async def new_address(service: Service, location: Location) -> tuple[Opened, str]:
    """Return the repository of a location, and a new address for an object there. Cost: one table read. Errors as of
    :meth:`OpenRepository.new_address`."""

    def address_in(opened: Opened) -> tuple[Opened, str]:
        return opened, opened.new_address(location.ref, location.path)

    return await service.call(location, address_in)


async def stage(service: Service, location: Location, repository: Opened, link: Link) -> None:
    """Stage an object whose bytes are in ``repository``, in a block of :meth:`Service.writing`. :class:`S3Error` if its name
    belongs to another repository by now: the collector of that one knows nothing of the bytes. Otherwise as
    :meth:`Service.change`."""

    def linked(opened: Opened) -> None:
        if opened.identity != repository.identity:
            raise S3Error(
                "ServiceUnavailable",
                f"repository {location.repository!r} was deleted, and another one has its name, since this write began; send it "
                "again",
            )
        opened.run(link)

    await service.change(location, linked)


async def delete_object(service: Service, exchange: Exchange) -> None:
    """Delete an object; a missing one is no error. Cost: one table write, one table read."""
    expect_no_version(exchange.parameters)
    location = await service.locate(exchange, Permission.WRITE)
    condition = write_condition(exchange.headers)
    request = Delete(branch=location.ref, objects=(location.path,), if_match=condition.if_match)
    with service.writing():
        await service.run(location, request)
    service.traffic.objects_deleted += 1
    exchange.respond(204)


async def delete_objects(service: Service, exchange: Exchange) -> None:
    """Delete up to 1,000 objects. Keys that cannot be deleted are reported, and the others are. Cost: for each branch one table
    read, one table write for each 25."""
    deletion = deleted_objects(await read_document(exchange))
    exchange.keys = deletion.keys
    mount = service.mounts.mount(exchange.bucket)
    keys_of: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    errors: list[tuple[str, S3Error]] = []
    for key in deletion.keys:
        try:
            location = await service.located(exchange, mount, key)
            exchange.require(Permission.WRITE, mount, location)
            encode_key(location.path)
        except GravelerError as error:
            errors.append((key, s3_error(error)))
        except S3Error as error:
            errors.append((key, error))
        else:
            keys_of[location.repository, location.ref].append((key, location.path))
    deleted: list[str] = []
    with service.writing():
        for (repository, branch), pairs in keys_of.items():
            request = Delete(branch=branch, objects=tuple(path for _, path in pairs))
            try:
                await service.run(Location(repository, branch, "", ""), request)
            except GravelerError as error:
                errors += [(key, s3_error(error)) for key, _ in pairs]
            else:
                deleted += [key for key, _ in pairs]
    service.traffic.objects_deleted += len(deleted)
    exchange.respond_document(deleted_document([] if deletion.quiet else deleted, errors))
