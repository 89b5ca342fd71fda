"""The yardstick of ``bench.gateway_store``: a server that answers reads and writes of objects as S3 does, and has neither
signatures nor a disk. It keeps what is written if that is small; any other object holds the same :data:`SIZE` bytes. Unless
``MD5`` is 0, it answers a write with the MD5 of the bytes, as S3 does. It waits for ``DELAY`` seconds before each answer::

    granian --interface rsgi --workers 1 --no-ws --factory bench.s3_like:create
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import md5
from typing import Any

SIZE = 64 << 20
MAX_KEPT = 1 << 20
AT_ONCE = 64 << 10
PIECE = 256 << 10
ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


def create() -> Callable[..., Awaitable[None]]:
    """The application of one worker."""
    large = memoryview(os.urandom(SIZE))
    small: dict[str, bytes] = {}
    has_md5 = os.environ.get("MD5") != "0"
    delay = float(os.environ.get("DELAY", "0"))

    async def application(scope: Any, protocol: Any) -> None:
        if scope.method == "PUT":
            size, is_kept, pieces = 0, int(scope.headers["content-length"]) <= MAX_KEPT, []
            digest, hashing = md5(usedforsecurity=False), None
            async for piece in protocol:
                size += len(piece)
                if is_kept:
                    pieces.append(piece)
                if hashing is not None:
                    await hashing
                if has_md5:
                    hashing = asyncio.get_running_loop().run_in_executor(None, digest.update, piece)
            if hashing is not None:
                await hashing
            assert size == int(scope.headers["content-length"])
            if is_kept:
                small[scope.path] = b"".join(pieces)
            if delay:
                await asyncio.sleep(delay)
            protocol.response_empty(200, [("etag", f'"{digest.hexdigest()}"' if has_md5 else ETAG)])
            return
        if delay:
            await asyncio.sleep(delay)
        data = memoryview(small.get(scope.path, large))
        if scope.method == "HEAD":
            protocol.response_empty(200, [("etag", ETAG), ("content-length", str(len(data)))])
            return
        headers = [("etag", ETAG), ("last-modified", "Fri, 27 Nov 2026 12:00:00 GMT"), ("accept-ranges", "bytes")]
        asked = scope.headers.get("range")
        start, end = (
            (int(number) for number in asked.removeprefix("bytes=").split("-")) if asked else (0, len(data) - 1)
        )
        end = min(end, len(data) - 1)
        headers += [("content-length", str(end + 1 - start)), ("content-range", f"bytes {start}-{end}/{len(data)}")]
        status = 206 if asked else 200
        if end + 1 - start <= AT_ONCE:
            protocol.response_bytes(status, headers, bytes(data[start : end + 1]))
            return
        transport = protocol.response_stream(status, headers)
        async for piece in pieces_of(data, start, end + 1):
            await transport.send_bytes(piece)

    return application


async def pieces_of(data: memoryview, start: int, end: int) -> AsyncIterator[bytes]:
    """These bytes in pieces."""
    for begin in range(start, end, PIECE):
        yield bytes(data[begin : min(begin + PIECE, end)])
