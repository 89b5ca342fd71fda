"""Request bodies: read as they arrive, bounded, large ones spooled to a file.

A client that disconnects midway must not leave half of its data, whatever the kind of body: the server detects a connection that
ends before the body does (:class:`CutShortError`). An arriving body occupies no thread; the server gives up on one that stays
silent for a minute.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Final

from msgspec import Struct

from graveler.server.requests import Message, Receive, Request
from graveler.server.responses import RequestError
from graveler.server.threads import Threads
from graveler.storage.spooled import SpooledFile

PIECE: Final = 256 << 10
"""Bytes collected before a thread writes them."""

SILENCE_SECONDS: Final = 60.0
"""Longest silence within a body."""

LINGER_SECONDS: Final = 0.5
"""Longest time for which an unwanted body is discarded. A client that reads the response first waits as long for its end."""

PATIENCE_SECONDS: Final = 30.0
"""Seconds for which a body may arrive at any speed."""

SLOWEST: Final = 1024
"""Bytes per second, averaged over the body so far, below which the server gives up on it after that time."""


class CutShortError(RequestError):
    """The client disconnected before the end of its body, and does not read the response."""


class _Arrival:
    """A body in transit."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._began = monotonic()
        self.arrived = 0

    async def next(self) -> Message:
        """Return its next message. :class:`RequestError` (408) if nothing or too little arrives; :class:`CutShortError` (400) if
        the client disconnects."""
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(408, f"no bytes of the body arrived for {SILENCE_SECONDS:.0f} seconds") from None
        if message["type"] != "http.request":
            raise CutShortError(
                400, f"the body ended after {self.arrived:,} bytes, before it was complete; send it again"
            )
        self.arrived += len(message.get("body", b""))
        took = monotonic() - self._began
        if took > PATIENCE_SECONDS and self.arrived < took * SLOWEST and message.get("more_body", False):
            raise RequestError(
                408,
                f"{self.arrived:,} bytes of the body arrived in {took:,.0f} seconds; send {SLOWEST:,} a second or more",
            )
        return message


class Body(Struct):
    """A complete body: in memory, or in a file that is removed after the request."""

    data: bytes = b""
    file: Path | None = None


def declared_length(request: Request) -> int | None:
    """Return ``Content-Length``, if present. :class:`RequestError` (400) if it is no number."""
    header = request.headers.get("content-length", "")
    if not header:
        return None
    if not (header.isascii() and header.isdigit()):
        raise RequestError(400, f"header Content-Length {header[:40]!r} is not a number of bytes")
    return int(header)


def has_body(request: Request) -> bool:
    """Return whether a body follows the head. :class:`RequestError` as :func:`declared_length`."""
    length = declared_length(request)
    return length != 0 and (length is not None or "transfer-encoding" in request.headers)


async def pieces(request: Request, receive: Receive, limit: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, in pieces of :data:`PIECE` bytes or a little more; the last one may be smaller.

    :class:`RequestError`: 413 beyond ``limit`` bytes, 408 if nothing arrives, or less than :data:`SLOWEST`;
    :class:`CutShortError` (400) if the client disconnects before its end.
    """
    length = declared_length(request)
    if length is not None and length > limit:
        raise RequestError(413, f"the body has {length:,} bytes, but at most {limit:,} are accepted here")
    if not has_body(request):
        return
    arrival = _Arrival(receive)
    held: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await arrival.next()
        more = message.get("more_body", False)
        piece = message.get("body", b"")
        if arrival.arrived > limit:
            raise RequestError(413, f"the body has more than {limit:,} bytes, the most that is accepted here")
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    _check_complete(arrival.arrived, length)
    if size:
        yield b"".join(held)


def _check_complete(arrived: int, length: int | None) -> None:
    if length is not None and arrived < length:
        raise CutShortError(400, f"the body ended after {arrived:,} of {length:,} bytes; send it again")


class SpoolRoom:
    """A quota for bodies in temporary files: ``size`` bytes for all of them together."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Provide a function that takes bytes from the quota until the end of the block. :class:`RequestError` (503) once it is
        used up."""
        reserved = 0

        def take(size: int) -> None:
            nonlocal reserved
            if size > self._left:
                raise RequestError(503, "too many large bodies are in progress; try again in a second")
            self._left -= size
            reserved += size

        try:
            yield take
        finally:
            self._left += reserved


async def read_past(receive: Receive, most: int) -> None:
    """Read and discard what a client still sends of an unwanted body, for :data:`LINGER_SECONDS` and ``most`` bytes at most. Call
    it before the response is complete: after that, granian reports a disconnect, and closes the connection of a client that is
    still sending. Many clients would lose the response with it, and send everything again."""
    rest = most
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while rest > 0 and (message := await receive())["type"] == "http.request" and message.get("more_body"):
                rest -= len(message.get("body", b""))


async def read_small_body(request: Request, receive: Receive, limit: int, spool_bytes: int) -> Body | None:
    """Return the whole body if its length is declared and it may stay in memory; otherwise read nothing and return None, for
    :func:`read_body`. Most requests have none, or a small one. :class:`RequestError` as :func:`pieces`."""
    if not has_body(request):
        return Body()
    length = declared_length(request)
    if length is None or length > min(limit, spool_bytes):
        return None
    arrival = _Arrival(receive)
    data = b""
    more = True
    while more and len(data) < length:  # the message that only says that nothing follows would cost a round of the loop
        message = await arrival.next()
        data += message.get("body", b"")
        more = message.get("more_body", False)
    _check_complete(len(data), length)
    return Body(data)


@asynccontextmanager
async def read_body(
    request: Request,
    receive: Receive,
    limit: int,
    spool_bytes: int,
    room: SpoolRoom,
    disk: Threads,
) -> AsyncIterator[Body]:
    """Read the whole body, at most ``limit`` bytes. ``disk`` writes a body beyond ``spool_bytes`` to a file, if there is
    ``room``. :class:`RequestError` as for :func:`pieces` and :meth:`SpoolRoom.share`; :class:`graveler.errors.UnavailableError`
    if the temporary folder is full."""
    arriving = pieces(request, receive, limit)
    begun: list[bytes] = []
    size = 0
    async for piece in arriving:
        begun.append(piece)
        size += len(piece)
        if size > spool_bytes:
            break
    else:
        yield Body(b"".join(begun))
        return
    file = await disk.run(SpooledFile, "keeping the body of a request", "body-")

    def write(piece: bytes) -> None:
        file.write(piece)
        file.flush()

    try:
        with room.share() as take:
            take(size)
            await disk.run(write, b"".join(begun))
            begun.clear()
            async for piece in arriving:
                take(len(piece))
                await disk.run(write, piece)
            yield Body(file=file.path)
    finally:
        await disk.run(file.close)
