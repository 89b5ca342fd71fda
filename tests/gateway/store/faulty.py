"""A store on a scripted server, and answers that are its tests' own."""

import os
from collections.abc import Awaitable, Callable

from graveler.gateway.store.port import Bytes
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.port import (
    StoredObject,
)
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.system.retries import Retries
from tests.gateway.store.scripted_s3 import (
    CHUNK,
    Request,
    ScriptedS3,
    content_range,
)
from tests.support.servers import REGION

QUICK = Retries(4, 0.0, 0.0)
ONCE = Retries(1, 0.0, 0.0)
DATA = os.urandom(3 << 20)
PATH = "/bucket/lake/a"

Work = Callable[[ScriptedS3, Bytes], Awaitable[None]]
Run = Callable[..., None]


async def in_store(server: ScriptedS3, work: Work, retries: Retries = QUICK, silence: float = 30) -> None:
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    try:
        await work(server, store_of(stores, server, retries, silence))
    finally:
        stores.close()
        disk.close()


def store_of(stores: ByteStores, server: ScriptedS3, retries: Retries = QUICK, silence: float = 30) -> Bytes:
    settings = S3Settings(REGION, server.url, retries=retries, read_timeout=silence)
    return stores.of(S3Objects("bucket", "lake", settings))


async def put(store: Bytes, data: bytes, **checksums: str) -> StoredObject:
    async with store.writer("new", len(data), checksums) as writer:
        for begin in range(0, len(data), CHUNK):
            await writer.write(data[begin : begin + CHUNK])
        return await writer.finish()


def broken_after(amount: int) -> Callable[[Request], Awaitable[None]]:
    """Send so many bytes of the object, then end the connection."""

    async def answer(request: Request) -> None:
        start, end = (int(number) for number in request.headers["range"].removeprefix("bytes=").split("-"))
        body = DATA[start : start + amount]
        request.send(206, body, length=end + 1 - start, etag='"tag"', content_range=content_range(DATA, start, end))
        await request.writer.drain()
        request.writer.close()

    return answer
