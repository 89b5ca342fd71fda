"""Bodies on their way into a store: decoded, hashed and written as they arrive."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from graveler.gateway.exchange import SILENCE_SECONDS, Channel, Exchange
from graveler.gateway.protocol.body import DOCUMENTS, MAX_OBJECT, BodyDecoder
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.silence import SilenceLimit
from graveler.gateway.store.port import Writer
from graveler.server.bodies import LINGER_SECONDS
from graveler.server.threads import Threads
from graveler.storage.objects.port import StoredObject

_AHEAD: Final = 256 << 10
"""Bytes of a body that may arrive while others are decoded and written."""

_IN_LOOP: Final = 16 << 10
"""Length of bodies that the event loop decodes and hashes by itself, in some 30 µs: handing them to a thread takes longer."""


async def arriving(exchange: Exchange) -> AsyncIterator[bytes]:
    """Yield a request's body as it arrives. :class:`S3Error` if nothing arrives for :data:`SILENCE_SECONDS`. A body that is cut
    short just ends: the decoder compares lengths."""
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(exchange.body)
        except StopAsyncIteration:
            exchange.body_has_arrived = True
            return
        except TimeoutError:
            raise _silent() from None
        if piece:
            yield piece


class Arrival:
    """The large body of a request, for a block that works on it while more of it arrives. At most :data:`_AHEAD` bytes and a
    piece of the server's wait to be taken; then nothing more is read from the client."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._wake)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._reading.done():
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def take(self) -> bytes:
        """Return all that has arrived; empty once the body has ended. Errors as of :func:`arriving`."""
        while not self._pieces:
            if self._reading.done():
                self._reading.result()
                return b""
            await self._wait()
        pieces, self._pieces, self._size = self._pieces, [], 0
        self._wake()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _read(self) -> None:
        body = self._exchange.body
        try:
            async with SilenceLimit(SILENCE_SECONDS) as client:
                while True:
                    piece = await anext(body)
                    if piece:
                        self._pieces.append(piece)
                        self._size += len(piece)
                        self._wake()
                    client.pause()
                    while self._size >= _AHEAD:
                        await self._wait()
                    client.hear()
        except StopAsyncIteration:
            self._exchange.body_has_arrived = True
        except TimeoutError:
            raise _silent() from None

    async def _wait(self) -> None:
        """Wait for the other side: never both wait, as one of them does only while there are pieces."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _silent() -> S3Error:
    return S3Error("RequestTimeout", f"no bytes of the body arrived for {SILENCE_SECONDS:.0f} seconds; send it again")


async def write_body(exchange: Exchange, decoder: BodyDecoder, writer: Writer, disk: Threads) -> StoredObject:
    """Write a request's body, and return the object once the store has it. If anything fails, the writer is aborted: of a body
    that is incomplete, or not what its head or its trailer says, nothing is stored under its name. :class:`S3Error`."""
    async with writer:
        if decoder.length <= _IN_LOOP:
            async for piece in arriving(exchange):
                await writer.write(decoder.feed(piece))
        else:
            async with Arrival(exchange) as arrival:
                await _write_large(arrival, decoder, writer, disk)
        decoder.finish()
        return await writer.finish()


async def _write_large(arrival: Arrival, decoder: BodyDecoder, writer: Writer, disk: Threads) -> None:
    """Write a body: while a thread decodes and hashes what has arrived, what was decoded before is written."""
    while decoder.is_plain and (piece := await arrival.take()):
        await writer.write(decoder.feed(piece))
    data = b""
    while piece := await arrival.take():
        decoding = disk.run(decoder.feed, piece)
        try:
            if data:
                await writer.write(data)
        finally:
            await asyncio.wait([decoding])  # in any case: no two threads work on one body
        data = await decoding
    if data:
        await writer.write(data)


def known_checksums(decoder: BodyDecoder) -> Mapping[str, str]:
    """Return the checksum that a body's head names, for a store that compares it too."""
    declared = decoder.declared
    return {} if declared is None or declared.value is None else {declared.name: declared.value}


async def read_document(exchange: Exchange, *, checksum_is_of_body: bool = True) -> bytes:
    """Return the document in a request's body. :class:`S3Error`."""
    decoder = BodyDecoder(exchange.head, exchange.payload, DOCUMENTS, checksum_is_of_body)
    document = b"".join([decoder.feed(piece) async for piece in arriving(exchange)])
    decoder.finish()
    return document


async def respond_early(
    channel: Channel,
    head: Head,
    status: int,
    headers: list[tuple[str, str]],
    document: bytes,
    body: AsyncIterator[bytes] | None = None,
) -> None:
    """Respond to a request whose body has not arrived, and end its connection: what follows there is the body, or with
    ``Expect: 100-continue`` perhaps the next request. A client that is still sending has the response, except its last byte,
    before the rest of its body is discarded: many would lose it with the connection, and send everything again. ``body`` is
    that rest, if its beginning was read."""
    headers = [*headers, ("connection", "close")]
    if "expect" in head.headers:
        channel.response_bytes(status, headers, document)
        return
    transport = channel.response_stream(status, [*headers, ("content-length", str(len(document)))])
    await transport.send_bytes(document[:-1])
    rest = aiter(channel) if body is None else body
    discarded = 0
    with suppress(TimeoutError, StopAsyncIteration):
        async with asyncio.timeout(LINGER_SECONDS):
            while discarded <= MAX_OBJECT:
                discarded += len(await anext(rest))
    await transport.send_bytes(document[-1:])
