"""A yardstick of ``bench.gateway``: granian and the gateway's client of S3, with no signature, no check of bytes, and no lake.
It passes reads and writes of a bucket on to the server that ``STORE`` names::

    granian --interface rsgi --workers 1 --no-ws --factory bench.bare_relay:create
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.s3 import S3Objects, S3Settings

PREFIX = "/bucket/"


def create() -> Callable[..., Awaitable[None]]:
    """The application of one worker."""
    objects = S3Objects("bucket", "", S3Settings("eu-west-1", os.environ["STORE"]))
    stores: list[ByteStores] = []

    async def application(scope: Any, protocol: Any) -> None:
        if not stores:
            stores.append(ByteStores(Threads("disk", 1)))  # in the event loop
        store, key = stores[0].of(objects), scope.path.removeprefix(PREFIX)
        if scope.method == "PUT":
            async with store.writer(key, int(scope.headers["content-length"])) as writer:
                async for piece in protocol:
                    await writer.write(piece)
                stored = await writer.finish()
            protocol.response_empty(200, [("etag", f'"{stored.etag}"')])
            return
        start, end = (int(number) for number in scope.headers["range"].removeprefix("bytes=").split("-"))
        length = end + 1 - start
        headers = [("content-length", str(length)), ("content-range", f"bytes {start}-{end}/{1 << 40}")]
        body = await store.read(key, start, length)
        if isinstance(body, bytes):
            protocol.response_bytes(206, headers, body)
            return
        transport = protocol.response_stream(206, headers)
        try:
            async for piece in body:
                await transport.send_bytes(piece)
        finally:
            await body.aclose()

    return application
