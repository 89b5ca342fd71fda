"""Buckets: ListBuckets, HeadBucket, GetBucketLocation, CreateBucket, and the answers of a plain bucket to all else."""

from collections.abc import Mapping
from typing import Final

from graveler.gateway.exchange import Exchange
from graveler.gateway.lakes import created
from graveler.gateway.mounts import Location, open_repository
from graveler.gateway.protocol.documents import bucket_list_document, location_document
from graveler.gateway.protocol.plain_bucket import plain_bucket_answer
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.reading import stat
from graveler.gateway.service import Service
from graveler.requests.base import Permission

REF_HEADER: Final = "x-graveler-ref"
"""The header of HeadBucket with the ref that a bucket of a job shows."""


async def list_buckets(service: Service, exchange: Exchange) -> None:
    """List the buckets that the caller may see. Cost: one table read for each thousand."""
    buckets = await service.calls.long(service.mounts.buckets)
    visible = [
        (name, created) for name, created in buckets if exchange.identity.sees(service.mounts.mount(name).repository)
    ]
    exchange.respond_document(bucket_list_document(visible, exchange.identity.name))


async def head_bucket(service: Service, exchange: Exchange) -> None:
    """Respond with the region of a bucket that exists, and the ref that it shows, if it is one. Cost: one table read."""
    await _expect_bucket(service, exchange)
    ref = service.mounts.mount(exchange.bucket).ref
    exchange.respond(200, {**_region(service), REF_HEADER: ref} if ref else _region(service))


async def get_bucket_location(service: Service, exchange: Exchange) -> None:
    """Respond with the region of a bucket. Cost: one table read."""
    await _expect_bucket(service, exchange)
    exchange.respond_document(location_document(service.region), _region(service))


async def create_bucket(service: Service, exchange: Exchange) -> None:
    """Respond to the creation of a bucket that exists, which some clients request before each upload. Cost: one table read.
    :class:`S3Error` for any other: a bucket is a repository."""
    try:
        await _expect_bucket(service, exchange)
    except S3Error as error:
        if error.code != "NoSuchBucket":
            raise
        raise S3Error(
            "AccessDenied", f"bucket {exchange.bucket!r} would be a repository; create it with `graveler repo create`"
        ) from None
    exchange.respond(200, {"location": f"/{exchange.bucket}"})


async def plain_bucket(service: Service, exchange: Exchange) -> None:
    """Respond to a read of what a lake has not, such as policies and versions, as a bucket without them does. Cost: one table
    read, and a stat for what belongs to an object."""
    if exchange.head.method != "GET":
        raise S3Error("NotImplemented", f"a lake has nothing that {exchange.operation} could change")
    if exchange.key:
        await stat(service, await service.locate(exchange, Permission.READ))
    else:
        await _expect_bucket(service, exchange)
    exchange.respond_document(plain_bucket_answer(exchange.operation, exchange.bucket, exchange.identity.name))


async def _expect_bucket(service: Service, exchange: Exchange) -> None:
    mount = service.mounts.mount(exchange.bucket)
    exchange.require(Permission.READ, mount, Location(mount.repository, mount.ref, "", mount.prefix))
    await service.calls.short(lambda: created(open_repository(service.lake, mount)))


def _region(service: Service) -> Mapping[str, str]:
    return {"x-amz-bucket-region": service.region}
