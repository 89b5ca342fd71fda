"""A client's connection of HTTP/1.1: one request after the other, bodies in pieces, back pressure in both directions.

It knows nothing of S3. A request is written as bytes; its response is a status, headers, and a body that is read piece by piece.
While :data:`PIECE` bytes of it wait to be read, nothing more is taken from the socket; while as many wait to be sent, a writer
waits. A connection serves another request only if its last response ended where it said.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, cast

from httptools import HttpParserError, HttpResponseParser

from graveler.gateway.store.port import PIECE

if TYPE_CHECKING:
    from typing import Self

_CONTINUE: Final = 100
_CHECK_SECONDS: Final = 1.0
"""Longest time after which a wait is compared with its limit: a connection is used with several limits."""


class BrokenConnectionError(Exception):
    """The connection ended before the response did, or the response is not HTTP. ``answered``: some of it came."""

    def __init__(self, reason: str, *, answered: bool) -> None:
        self.answered = answered
        super().__init__(reason)


class HttpConnection(asyncio.Protocol):
    """An open connection. ``requests`` counts those that were sent on it, ``buffered`` the bytes of the current response that
    wait to be read. One coroutine uses it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._silence = self._deadline = 0.0
        """Longest time for which the current wait may last, and the time of the loop at which it ends."""
        self._error: BrokenConnectionError | None = None
        self._parser: HttpResponseParser | None = None
        self._pieces: deque[bytes] = deque()
        self._is_paused = self._is_full = False
        self._is_answered = self._has_head = self._is_complete = self._keeps_alive = self._has_no_body = False
        self.requests = 0
        self.buffered = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        """Of the current response: names in small letters; of a repeated one the last value."""
        self._unsent = 0
        self._length = 0
        self._rest = -1
        """Bytes of the body to come, where they bypass the parser; -1: they do not."""

    @classmethod
    async def open(cls, host: str, port: int, context: SSLContext | None) -> "Self":
        """Connect; with a ``context`` by TLS. ``OSError`` and ``ssl.SSLError`` if that fails."""
        loop = asyncio.get_running_loop()
        name = host if context else None
        _, connection = await loop.create_connection(cls, host, port, ssl=context, server_hostname=name)
        return connection

    async def tunnel(self, authority: str, headers: Mapping[str, str], silence: float) -> None:
        """Have the proxy on the other side connect to another server. :class:`BrokenConnectionError` if it refuses."""
        self.send_head(head_of("CONNECT", authority, {"host": authority, **headers}), 0)
        status = await self.response(silence)
        if status != 200:
            raise BrokenConnectionError(f"the proxy refuses a connection with status {status}", answered=True)
        self.requests = 0

    async def secure(self, host: str, context: SSLContext) -> None:
        """Continue by TLS with the server ``host``. ``ssl.SSLError``."""
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:
            raise BrokenConnectionError("the connection was closed", answered=False)
        self.connection_made(transport)

    # Requests

    def send_head(self, head: bytes, unsent: int) -> None:
        """Begin a request: its first line and headers, with or without bytes of its body, of which ``unsent`` are still to come
        (0 or less: none)."""
        self.requests += 1
        self._unsent = unsent
        self.status, self.headers = 0, {}
        self._is_answered = self._has_head = self._is_complete = self._keeps_alive = False
        self._rest = -1
        self._has_no_body = head.startswith(b"HEAD ")
        self._parser = HttpResponseParser(self)
        self._transport.write(head)

    async def send(self, piece: bytes, silence: float) -> None:
        """Send bytes of the request's body, unless the response has begun. Waits until there is room for more: TimeoutError if
        nothing is taken for ``silence`` seconds. :class:`BrokenConnectionError`."""
        if self._has_head:
            return
        if self._error is not None:
            raise self._error
        self._unsent -= len(piece)
        self._transport.write(piece)
        while self._is_full and not self._has_head:
            await self._wait(silence)

    @property
    def has_response(self) -> bool:
        """True once the head of the response has arrived, maybe before the request was complete."""
        return self._has_head

    async def response(self, silence: float) -> int:
        """Return the response's status, once its head has arrived. TimeoutError after ``silence`` seconds without a byte,
        :class:`BrokenConnectionError`."""
        while not self._has_head:
            await self._wait(silence)
        return self.status

    async def piece(self, silence: float) -> bytes:
        """Return the next bytes of the response's body, up to :data:`PIECE`, empty at its end. Errors as of :meth:`response`."""
        pieces = self._pieces
        while not pieces:
            if self._is_complete:
                return b""
            await self._wait(silence)
        piece = pieces.popleft()
        if pieces and len(piece) + len(pieces[0]) <= PIECE:
            joined = [piece]
            size = len(piece)
            while pieces and size + len(pieces[0]) <= PIECE:
                joined.append(pieces[0])
                size += len(pieces.popleft())
            piece = b"".join(joined)
        self.buffered -= len(piece)
        if self._is_paused and self.buffered < PIECE:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    async def body(self, limit: int, silence: float) -> bytes:
        """Return the response's body, or its beginning of ``limit`` bytes or a little more."""
        size, pieces = 0, []
        while size < limit and (piece := await self.piece(silence)):
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def is_reusable(self) -> bool:
        """True if another request can be sent: the last one was sent and its response read to the end, and both sides keep the
        connection."""
        return (
            self._error is None
            and not self._transport.is_closing()
            and not self._is_full
            and self._unsent <= 0
            and (not self.requests or (self._is_complete and self._keeps_alive and not self._pieces))
        )

    def close(self) -> None:
        """Close at once: what was not sent stays unsent, so the other side sees an incomplete request as such."""
        self._transport.abort()

    async def _wait(self, silence: float) -> None:
        """Wait until something happens."""
        if self._error is not None:
            raise self._error
        self._silence, self._deadline = silence, self._loop.time() + silence
        if self._timer is None:
            self._timer = self._loop.call_later(min(silence, _CHECK_SECONDS), self._check_silence)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check_silence(self) -> None:
        """End a wait that lasts too long, or look again later. One timer for many waits: each needs a fraction of a timer's
        time."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        rest = self._deadline - self._loop.time()
        if rest > 0:
            self._timer = self._loop.call_later(min(rest, _CHECK_SECONDS), self._check_silence)
        else:
            self._waiter.set_exception(TimeoutError(f"nothing came for {self._silence:g} seconds"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _break(self, reason: str) -> None:
        if self._error is None:
            self._error = BrokenConnectionError(reason, answered=self._is_answered)
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._error)

    # The loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=PIECE)

    def connection_lost(self, error: Exception | None) -> None:
        if self._has_head and self._rest == -1 and not self._is_complete and self._ends_with_connection():
            self._is_complete = True
            self._wake()
        self._break(f"the connection was closed{f' ({error})' if error else ''}")

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._rest >= 0:
            self._take(data)
        elif self._parser is None or self._is_complete:
            self._break("bytes came that belong to no response")
        else:
            self._is_answered = True
            try:
                self._parser.feed_data(data)
            except HttpParserError as error:
                self._break(f"the response is not HTTP ({error})")
                return
            self._bypass_parser()
        if self.buffered >= PIECE and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def _bypass_parser(self) -> None:
        """Take the rest of a body of known length as it comes: there is nothing to parse, and the parser copies bytes."""
        length = self.headers.get("content-length")
        if self._has_head and not self._is_complete and length and "transfer-encoding" not in self.headers:
            self._rest = int(length) - self._length

    def _take(self, data: bytes) -> None:
        if len(data) > self._rest:
            self._break("the response is longer than it said")
            return
        self._rest -= len(data)
        self.on_body(data)
        if not self._rest:
            self._rest = -1
            self._is_complete = True

    def _ends_with_connection(self) -> bool:
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    # The parser's side

    def on_message_begin(self) -> None:
        self._length = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        parser = cast(HttpResponseParser, self._parser)
        self.status = parser.get_status_code()
        if self.status // 100 * 100 == _CONTINUE:
            self.headers = {}
            return
        self._keeps_alive = parser.should_keep_alive()
        self._has_head = True
        self._is_complete = self._has_no_body

    def on_body(self, data: bytes) -> None:
        self._length += len(data)
        self.buffered += len(data)
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._is_complete = self._has_head


def head_of(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Return the first line and the headers of a request."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
