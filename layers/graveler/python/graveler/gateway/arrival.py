"""Bodies on their way into a store: decoded, hashed and written as they arrive."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final

from graveler.gateway.exchange import SILENCE_SECONDS, Channel, Exchange
from graveler.gateway.protocol.body import DOCUMENTS, MAX_OBJECT, BodyDecoder
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.store.port import Writer
from graveler.server.bodies import LINGER_SECONDS
from graveler.server.threads import Threads
from graveler.storage.objects.port import StoredObject

_IN_LOOP: Final = 16 << 10
"""Bytes that the event loop decodes and hashes by itself, in some 30 µs: handing them to a thread takes longer."""


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
            raise S3Error(
                "RequestTimeout", f"no bytes of the body arrived for {SILENCE_SECONDS:.0f} seconds; send it again"
            ) from None
        if piece:
            yield piece


async def write_body(exchange: Exchange, decoder: BodyDecoder, writer: Writer, disk: Threads) -> StoredObject:
    """Write a request's body, and return the object once the store has it. If anything fails, the writer is aborted: of a body
    that is incomplete, or not what its head or its trailer says, nothing is stored under its name. :class:`S3Error`."""
    async with writer:
        async for piece in arriving(exchange):
            data = decoder.feed(piece) if len(piece) <= _IN_LOOP else await disk.run(decoder.feed, piece)
            if data:
                await writer.write(data)
        decoder.finish()
        return await writer.finish()


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
