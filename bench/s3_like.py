"""The yardstick of ``bench.gateway_store``: a server that answers reads and writes of objects as S3 does, and has neither
signatures nor a disk. Every object holds the same :data:`SIZE` bytes; what is written is counted and forgotten. It waits for
``DELAY`` seconds before each answer::

    granian --interface rsgi --workers 1 --no-ws --factory bench.s3_like:create
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

SIZE = 64 << 20
AT_ONCE = 64 << 10
PIECE = 256 << 10
ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


def create() -> Callable[..., Awaitable[None]]:
    """The application of one worker."""
    data = memoryview(os.urandom(SIZE))
    delay = float(os.environ.get("DELAY", "0"))
    tail = f"/{SIZE}"

    async def application(scope: Any, protocol: Any) -> None:
        if scope.method == "PUT":
            size = 0
            async for piece in protocol:
                size += len(piece)
            assert size == int(scope.headers["content-length"])
            if delay:
                await asyncio.sleep(delay)
            protocol.response_empty(200, [("etag", ETAG)])
            return
        if delay:
            await asyncio.sleep(delay)
        if scope.method == "HEAD":
            protocol.response_empty(200, [("etag", ETAG), ("content-length", str(SIZE))])
            return
        headers = [("etag", ETAG), ("last-modified", "Fri, 27 Nov 2026 12:00:00 GMT"), ("accept-ranges", "bytes")]
        asked = scope.headers.get("range")
        start, end = (int(number) for number in asked.removeprefix("bytes=").split("-")) if asked else (0, SIZE - 1)
        headers += [("content-length", str(end + 1 - start)), ("content-range", f"bytes {start}-{end}{tail}")]
        status = 206 if asked else 200
        if end + 1 - start <= AT_ONCE:
            protocol.response_bytes(status, headers, bytes(data[start : end + 1]))
            return
        transport = protocol.response_stream(status, headers)
        async for piece in pieces(data, start, end + 1):
            await transport.send_bytes(piece)

    return application


async def pieces(data: memoryview, start: int, end: int) -> AsyncIterator[bytes]:
    """These bytes in pieces."""
    for begin in range(start, end, PIECE):
        yield bytes(data[begin : min(begin + PIECE, end)])
