"""HTTP/1.1 for a gateway: connections whose requests are answered one after the other, with back pressure in both directions.

While :data:`PIECE` bytes of a request's body wait to be read, nothing more is taken from the socket. While as many of a response
wait to be sent, its handler waits. Granian, which serves the HTTP API, queues a response without a limit: for a client that reads
slowly, whole objects would be in memory.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from graveler.gateway.exchange import SILENCE_SECONDS, ClientGoneError
from graveler.gateway.protocol.head import Head, join_headers
from graveler.gateway.store.port import PIECE
from graveler.server.listening import HEAD_BYTES, HEAD_SECONDS

if TYPE_CHECKING:
    from typing import Self

    from graveler.gateway.listener import Listener

Headers = Sequence[tuple[str, str]]
Handler = Callable[[Head, str, str, "HttpExchange"], Awaitable[None]]
"""Answers a request: its head, the network address of the client, ``http`` or ``https``, and the rest."""

_BACKLOG: Final = 8192
_DISCARDED: Final = 1 << 20
"""Longest rest of a body that is read and discarded, so that the connection can serve another request."""
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_BODILESS: Final = (204, 304)


class HttpServer:
    """A server at the address of ``listener``, in the running event loop."""

    def __init__(self, handler: Handler, listener: "Listener") -> None:
        self._handler = handler
        self._listener = listener
        self._stopped = asyncio.Event()

    async def serve(self) -> None:
        """Serve until :meth:`stop`. ``OSError`` if the address is not available; errors of :meth:`Listener.tls`."""
        place = self._listener
        context = place.tls()
        scheme = "http" if context is None else "https"
        server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self._handler, scheme),
            place.host,
            place.port,
            backlog=_BACKLOG,
            reuse_port=True,
            ssl=context,
        )
        try:
            await self._stopped.wait()
        finally:
            server.close()

    def stop(self) -> None:
        """Accept no further connections."""
        self._stopped.set()


class HttpExchange:
    """A request whose head has arrived, and its response. As an asynchronous iterator it yields the body in pieces; that ends
    early if the client disconnects."""

    def __init__(self, connection: "_Connection", head: Head, rest: int, *, keeps_alive: bool, waits: bool) -> None:
        self._connection = connection
        self.head = head
        self.rest = rest
        """Bytes of the body that have not arrived; -1 as long as that is not known."""
        self.keeps_alive = keeps_alive
        """True if the connection serves another request afterwards."""
        self.waiting = 0
        """Bytes of the body that wait to be read."""
        self._waits_for_100 = waits
        self._discards = False
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._unsent = -1
        """Bytes of the response that are still to be sent; -1 before its head."""

    # The body

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> bytes:
        if self._waits_for_100:
            self._waits_for_100 = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._pieces:
            if not self.rest or self._connection.is_lost:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        piece = self._pieces.popleft()
        self.waiting -= len(piece)
        self._connection.flow()
        return piece

    def take(self, piece: bytes) -> None:
        """Take bytes of the body that have arrived."""
        if self.rest > 0:
            self.rest -= len(piece)
        if not self._discards:
            self._pieces.append(piece)
            self.waiting += len(piece)
        self.wake()

    def wake(self) -> None:
        """Wake the reader of the body: there is more, or no more will come."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cut(self) -> None:
        """End the body early: what the client sends is none."""
        self.rest = 0
        self.wake()

    def discard(self) -> bool:
        """Discard the rest of the body; return whether that takes little."""
        self._discards = True
        self._pieces.clear()
        self.waiting = 0
        return 0 <= self.rest <= _DISCARDED

    # The response

    def response_empty(self, status: int, headers: Headers) -> None:
        """Respond without a body."""
        self._begin(
            status, headers, b"" if self.head.method == "HEAD" or status in _BODILESS else b"content-length: 0\r\n"
        )
        self._unsent = 0

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None:
        """Respond with a whole body."""
        if self.head.method == "HEAD":
            self.response_empty(status, [*headers, ("content-length", str(len(body)))])
            return
        length = b"" if any(name == "content-length" for name, _ in headers) else b"content-length: %d\r\n" % len(body)
        self._begin(status, headers, length, body)
        self._unsent = 0

    def response_stream(self, status: int, headers: Headers) -> "Self":
        """Begin a response with a body in pieces, for :meth:`send_bytes`. The headers have its length."""
        self._begin(status, headers)
        self._unsent = int(next(value for name, value in headers if name == "content-length"))
        return self

    async def send_bytes(self, data: bytes) -> None:
        """Send a piece of the body; wait while the client is slower. :class:`ClientGoneError`."""
        if self._connection.is_lost:
            raise ClientGoneError
        self._unsent -= len(data)
        if self._unsent < 0:
            self._unsent = 1  # which ends the connection
            raise ValueError("a response is longer than its head says")
        self._connection.write(data)
        await self._connection.drain()

    @property
    def is_answered(self) -> bool:
        """True once the whole response was given to the connection."""
        return self._unsent == 0

    def _begin(self, status: int, headers: Headers, more: bytes = b"", body: bytes = b"") -> None:
        if self._waits_for_100:  # nobody knows whether what follows is the body, or the next request
            self._waits_for_100 = self.keeps_alive = False
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
            raise ValueError("a header of a response has more than one line")
        if ("connection", "close") in headers:
            self.keeps_alive = False
        elif not self.keeps_alive:
            more += b"connection: close\r\n"
        self._connection.write(
            b"HTTP/1.1 %d %b\r\n%bdate: %b\r\n%b\r\n%b"
            % (
                status,
                _PHRASES.get(status, "").encode(),
                lines.encode("latin-1"),
                _http_date(int(time())),
                more,
                body,
            )
        )


class _Connection(asyncio.Protocol):
    """A client's connection. Its callbacks are those of the event loop and of the parser."""

    def __init__(self, handler: Handler, scheme: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        self._scheme = scheme
        self._client = ""
        self._transport: asyncio.Transport
        self._parser = HttpRequestParser(self)
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._head_bytes = 0
        self._is_in_head = True
        self._requests: deque[HttpExchange] = deque()
        """The requests that are not answered; of several, the others wait for the first one."""
        self._last: HttpExchange | None = None
        """The request whose body arrives."""
        self._task: asyncio.Task[None] | None = None
        self._idle_since = self._loop.time()
        self._timer = self._loop.call_later(HEAD_SECONDS, self._check_idle)
        self._is_paused = self._is_full = self._is_ending = False
        self._drained: asyncio.Future[None] | None = None
        self.is_lost = False

    # For its requests

    def write(self, data: bytes) -> None:
        """Send bytes, unless the client has disconnected."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until few bytes wait to be sent. :class:`ClientGoneError`."""
        while self._is_full and not self.is_lost:
            self._drained = self._loop.create_future()
            await self._drained
        if self.is_lost:
            raise ClientGoneError

    def flow(self) -> None:
        """Read from the socket, or not any more for now."""
        last = self._last
        is_paused = self._is_ending or len(self._requests) > 1 or (last is not None and last.waiting >= PIECE)
        if is_paused != self._is_paused and not self._transport.is_closing():
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # The loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=PIECE)
        self._client = str((transport.get_extra_info("peername") or ("",))[0])

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.is_lost = True
        self._timer.cancel()
        for request in self._requests:
            request.wake()
        self.resume_writing()

    def eof_received(self) -> bool:
        """Answer what has arrived, if anything."""
        if self._last is not None and self._last.rest:  # cut short: nobody waits for an answer
            self._transport.close()
            return False
        self._is_ending = True
        return bool(self._requests) and self._scheme == "http"

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        while data and not self._is_ending:
            last = self._last
            if last is not None and last.rest > 0:  # there is nothing to parse, and the parser copies bytes
                piece = data if len(data) <= last.rest else data[: last.rest]
                data = data[len(piece) :]
                last.take(piece)
                continue
            data = self._parse(data)
        self.flow()

    def _parse(self, data: bytes) -> bytes:
        """Parse bytes; return those that do not belong to the parser."""
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES + PIECE:
                self._end(431)
                return b""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:  # to a protocol that is not spoken here
            self._parser = HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except HttpParserError:
            self._end(400)
            return b""
        if self._last is not None and self._last.rest > 0:
            self._parser = HttpRequestParser(self)
        return b""

    def _end(self, status: int) -> None:
        """Read no more; once the requests that have arrived are answered, refuse what came behind them."""
        self._is_ending = True
        if self._last is not None and self._last.rest:  # its chunks are malformed: the handler waits for them
            self._last.cut()
        if not self._requests:
            self.write(
                b"HTTP/1.1 %d %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                % (status, _PHRASES[status].encode())
            )
            self._transport.close()

    def _check_idle(self) -> None:
        rest = HEAD_SECONDS - (self._loop.time() - self._idle_since)
        if self._task is not None:
            rest = HEAD_SECONDS
        elif rest <= 0:
            if self._transport.is_closing():  # the client does not read what is still to be sent
                self._transport.abort()
                return
            self._transport.close()
            rest = HEAD_SECONDS
        self._timer = self._loop.call_later(rest, self._check_idle)

    # The parser's side

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._is_in_head = True

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        text = value.decode("latin-1")
        if text.isascii() and text.replace("\t", " ").isprintable():  # as if others had not arrived
            self._headers.append((name.decode("latin-1"), text))

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        headers = join_headers(self._headers)
        is_chunked = "transfer-encoding" in headers
        length = headers.get("content-length", "0")
        parser = self._parser
        request = self._last = HttpExchange(
            self,
            _head(parser.get_method().decode("latin-1"), self._target, headers),
            -1 if is_chunked else int(length) if length.isdecimal() else 0,
            keeps_alive=parser.should_keep_alive(),
            waits=headers.get("expect", "").lower() == "100-continue",
        )
        self._requests.append(request)
        if self._task is None:
            self._task = self._loop.create_task(self._answer())

    def on_body(self, data: bytes) -> None:
        last = self._last
        if last is not None:
            last.take(data)

    def on_message_complete(self) -> None:
        last = self._last
        if last is not None and last.rest < 0:
            last.rest = 0
            last.wake()

    async def _answer(self) -> None:
        """Answer requests until none is left."""
        try:
            while self._requests and not self.is_lost:
                request = self._requests[0]
                await self._handler(request.head, self._client, self._scheme, request)
                if not request.is_answered:
                    self._transport.abort()  # so the client sees that the response is not complete
                    return
                if self._is_full:  # of requests that are pipelined, the responses would be queued
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await self.drain()
                if not request.keeps_alive or not (request.rest == 0 or request.discard()):
                    self._transport.close()
                    return
                request.discard()
                self._requests.popleft()
                self.flow()
            if self._is_ending:
                self._transport.close()
        except (ClientGoneError, TimeoutError):
            self._transport.abort()
        except BaseException:
            self._transport.abort()
            raise
        finally:
            self._task = None
            self._idle_since = self._loop.time()


def _head(method: str, target: bytes, headers: dict[str, str]) -> Head:
    if not target.startswith(b"/"):
        url = parse_url(target) if b"://" in target else None
        target = b"/" if url is None else (url.path or b"/") + (b"?" + url.query if url.query else b"")
    path, _, query = target.partition(b"?")
    text = (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")
    return Head(method, text, query.decode("latin-1"), headers)


@lru_cache(maxsize=4)
def _http_date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
