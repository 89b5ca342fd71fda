"""The ASGI application of a worker: routes requests, counts and logs them.

Its event loop moves bytes and handles short requests (:mod:`graveler.server.loop_requests`). All other handlers, which may wait
for a disk or for each other, run in threads; so no request waits for another one's handler, and no handler's thread waits
for a client.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from graveler.api.application import CATALOG, is_below
from graveler.api.compression import NO_STORE, compress, is_compressible
from graveler.api.errors import ApiError
from graveler.api.response import Response
from graveler.api.routing import BodyKind, Handling
from graveler.errors import BusyError, UnavailableError
from graveler.server.api_page import api_page, is_api_page
from graveler.server.bodies import (
    SILENCE_SECONDS,
    Body,
    SpoolRoom,
    declared_length,
    has_body,
    read_body,
    read_past,
    read_small_body,
)
from graveler.server.configuration import OBJECTS_PATH, ServerSettings
from graveler.server.cors import CrossOrigin
from graveler.server.data_plane import DataPlane
from graveler.server.events import event_of, response_of
from graveler.server.loop_requests import EventLoopRequests
from graveler.server.metrics import Metrics
from graveler.server.request_log import RequestLine, now, write_line
from graveler.server.requests import Message, Receive, Request, Scope, Send, request_of
from graveler.server.responses import Pieces, RequestError, ServerResponse, json_error
from graveler.server.threads import Threads
from graveler.system.departures import ClientLeftError, reading_for
from graveler.system.pauses import WouldWaitError
from graveler.system.random_bytes import random_bytes

_NO_BODY: Final = Body()
HEALTH: Final = ("/healthcheck", "/api/v1/healthcheck")
CLIENT_LEFT: Final = 499
"""Status in logs and figures of a read that ended because its client had left; as nginx has it."""
METRICS: Final = "/metrics"
_OBJECTS: Final = f"{OBJECTS_PATH}/"
MAX_HEADERS: Final = 32 << 10
"""Limit on the total bytes of the names and values of a request's headers."""
_MESSAGE: Final = 64 << 10
"""Bytes of a body sent at once: granian buffers 32 of these for a client that does not read them."""
_COMPRESSED_IN_LOOP: Final = 16 << 10
"""Bytes of a response that the event loop compresses, in 0.1 ms: handing it to a thread takes as long."""
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_WHILE_SENDING: Final = (413, 503)
"""Statuses of refusals of a body that is still arriving, and not because it arrives too slowly or was cut short."""


class Application(Protocol):
    """The application that responds to events of API Gateway."""

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        """Return the response to an event, and the name of the operation."""

    def handling(self, method: str, path: str, /) -> Handling:
        """Return what is to be known of such a request before its body is read."""

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        """Return the response to an event that is refused whatever its body, or None."""


class Gateway:
    """The handler of HTTP requests. Without a ``data_plane`` it serves no object URLs. ``handlers`` are the application's
    threads, ``scanners`` those for requests that may take long, ``disk`` those for bodies in files. With ``in_loop`` short
    requests run in the event loop: use it only if everything they access is on this machine."""

    def __init__(
        self,
        application: Application,
        data_plane: DataPlane | None,
        metrics: Metrics,
        settings: ServerSettings,
        worker: int,
        handlers: Threads,
        scanners: Threads,
        disk: Threads,
        *,
        in_loop: bool = False,
    ) -> None:
        self._application = application
        self._data_plane = data_plane
        self._metrics = metrics
        self._settings = settings
        self._worker = worker
        self._handlers = handlers
        self._scanners = scanners
        self._disk = disk
        self._room = SpoolRoom(settings.spooled_bytes)
        self._cross_origin = CrossOrigin(settings.cors_origins)
        self._in_loop = in_loop
        self._most_bytes = {
            BodyKind.SMALL: settings.max_small_bytes,
            BodyKind.JSON: settings.max_json_bytes,
            BodyKind.UPLOAD: settings.max_upload_bytes,
        }
        self._loop_requests: EventLoopRequests[ServerResponse] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        began = time.perf_counter()
        request = request_of(scope, self._settings.client_address_header, self._settings.base_path)
        request_id = random_bytes(8).hex()
        if request.header_bytes > MAX_HEADERS:
            response = _refused(
                request, 431, f"the headers have more than {MAX_HEADERS:,} bytes in total; send fewer or shorter ones"
            )
        else:
            response = self._cross_origin.preflight(request) or await self._respond(request, receive, request_id)
        pairs = [*response.headers, *self._cross_origin.headers(request)]
        headers = [(name.encode("latin-1"), value.encode("utf-8", "replace")) for name, value in pairs]
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        if isinstance(response.body, bytes):
            try:
                self._note(request, request_id, response, began)  # before the client has the response
            finally:  # an unwritable log must not hold back a response
                await _send_whole(response, start, receive, send)
            return
        await send(start)
        try:
            await _send_pieces(response.body, receive, send)
        finally:
            self._note(request, request_id, response, began)

    async def _respond(self, request: Request, receive: Receive, request_id: str) -> ServerResponse:
        if self._data_plane is not None and request.path.startswith(_OBJECTS):
            return await self._data_plane(request, receive)
        if request.method in ("GET", "HEAD"):
            if request.path in HEALTH:
                return ServerResponse(204, [], operation="healthCheck")
            if request.path == METRICS:
                text = await self._disk.run(self._metrics.text)
                return ServerResponse(200, [("content-type", _METRICS_TYPE)], text.encode(), "metrics")
            if is_api_page(request.path):
                page = await self._disk.run(api_page, request, self._settings.base_path)
                if page is not None:
                    return page

        handling = self._application.handling(request.method, request.path)
        try:
            if not has_body(request):
                response = self._begin_small(request, receive, _NO_BODY, request_id, handling)
                return response if isinstance(response, ServerResponse) else await response
            limit = self._most_bytes[handling.body_kind]
            spool = self._settings.spool_bytes
            if self._must_authenticate_before_body(request, limit):
                refusal = await self._handlers.run(self._refusal, request, request_id)
                if refusal is not None:
                    refusal.early = 0 if "expect" in request.headers else limit  # then no body follows a refusal
                    return refusal
            small = await read_small_body(request, receive, limit, spool)
            if small is not None:
                response = self._begin_small(request, receive, small, request_id, handling)
                return response if isinstance(response, ServerResponse) else await response
            async with read_body(request, receive, limit, spool, self._room, self._disk) as body:
                threads = self._scanners if handling.scans else self._handlers
                return await threads.run(self._handle, request, body, request_id)
        except RequestError as error:
            refused = _refused(request, error.status, error.message)
            refused.headers.append(("connection", "close"))
            refused.early = self._settings.max_upload_bytes if error.status in _WHILE_SENDING else 0
            return refused
        except UnavailableError as error:  # the temporary folder is full
            full = _refused(request, 503, str(error))
            full.early = self._settings.max_upload_bytes
            return full

    def _begin_small(
        self, request: Request, receive: Receive, body: Body, request_id: str, handling: Handling
    ) -> ServerResponse | Awaitable[ServerResponse]:
        """Return the response to a request with a complete body, or an awaitable of it: a short one runs in this thread unless it
        has to wait."""
        if self._in_loop and handling.short:
            requests = self._loop_requests
            if requests is None:
                requests = self._loop_requests = EventLoopRequests()
            try:
                if request.method == "GET":
                    return self._read_in_loop(request, request_id)
                return requests.run(partial(self._handle, request, body, request_id))
            except WouldWaitError:
                return self._handlers.run(self._handle, request, body, request_id)
        if handling.scans and request.method == "GET":
            return self._scan(request, receive, body, request_id)
        threads = self._scanners if handling.scans else self._handlers
        return threads.run(self._handle, request, body, request_id)

    async def _scan(self, request: Request, receive: Receive, body: Body, request_id: str) -> ServerResponse:
        """Return the response to a read that may take long. If the client leaves, it ends, and gives its thread to others."""
        departure = asyncio.ensure_future(_departure(receive))
        try:
            return await self._scanners.run(self._handle_for, departure.done, request, body, request_id)
        finally:
            departure.cancel()

    def _handle_for(
        self, has_left: Callable[[], bool], request: Request, body: Body, request_id: str
    ) -> ServerResponse:
        try:
            with reading_for(has_left):
                return self._handle(request, body, request_id)
        except ClientLeftError:
            return ServerResponse(CLIENT_LEFT, [])

    def _must_authenticate_before_body(self, request: Request, limit: int) -> bool:
        """Return whether to authenticate the request before its body is read, which may have ``limit`` bytes."""
        length = declared_length(request) if limit else 0
        return self._settings.max_small_bytes < (limit if length is None else length) <= limit

    def _refusal(self, request: Request, request_id: str) -> ServerResponse | None:
        """Return the response to a request that is refused whatever its body, or None."""
        refusal = self._application.reject_without_body(event_of(request, Body(), request_id))
        return None if refusal is None else response_of(*refusal, request.method)

    def _handle(self, request: Request, body: Body, request_id: str) -> ServerResponse:
        response, operation = self._application.respond(event_of(request, body, request_id))
        if is_compressible(response, request.headers):
            compress(response)
        return response_of(response, operation, request.method)

    def _read_in_loop(self, request: Request, request_id: str) -> ServerResponse | Awaitable[ServerResponse]:
        """Return the response to a short GET, or an awaitable of it while a thread compresses a long one."""
        response, operation = self._application.respond(event_of(request, _NO_BODY, request_id))
        if is_compressible(response, request.headers):
            if len(response.body) > _COMPRESSED_IN_LOOP:
                return self._handlers.run(_compressed, response, operation, request.method)
            compress(response)
        return response_of(response, operation, request.method)

    def _note(self, request: Request, request_id: str, response: ServerResponse, began: float) -> None:
        seconds = time.perf_counter() - began
        self._metrics.note(response.operation, response.status, seconds)
        if self._settings.log_requests:
            write_line(
                RequestLine(
                    time=now(),
                    method=request.method,
                    path=request.path,
                    query="" if request.path.startswith(_OBJECTS) else request.query,
                    status=response.status,
                    ms=round(seconds * 1000, 3),
                    operation=response.operation,
                    source=request.source,
                    agent=request.headers.get("user-agent", ""),
                    request_id=request_id,
                    worker=self._worker,
                )
            )


def _refused(request: Request, status: int, message: str) -> ServerResponse:
    """Return the refusal of a request that the application does not see, as clients of the path's protocol understand it.
    Iceberg's take a 503 for an unknown outcome, and a 429 for what they may repeat."""
    if not is_below(request.path, CATALOG):
        return json_error(status, message)
    from graveler.api.iceberg.catalog_refusals import refusal  # which few servers load

    refused = refusal(BusyError(message) if status == 503 else ApiError(status, message), "", "")
    refused.headers["cache-control"] = NO_STORE
    return response_of(refused, "", request.method)


def _compressed(response: Response, operation: str, method: str) -> ServerResponse:
    compress(response)
    return response_of(response, operation, method)


async def _send_whole(response: ServerResponse, start: Message, receive: Receive, send: Send) -> None:
    """Send a response with its whole body. The client has an early one, except its last byte, before the rest of its own body is
    discarded, and the last byte afterwards."""
    if not response.early:
        await send(start)
        await send({"type": "http.response.body", "body": response.body})
        return
    assert isinstance(response.body, bytes)
    length = (b"content-length", str(len(response.body)).encode())
    headers = [header for header in start["headers"] if header[0].lower() != length[0]]
    await send({**start, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": response.body[:-1], "more_body": True})
    await read_past(receive, response.early)
    await send({"type": "http.response.body", "body": response.body[-1:], "more_body": False})


async def _send_pieces(body: Pieces, receive: Receive, send: Send) -> None:
    """Send them at the client's pace, until it disconnects, or reads nothing for :data:`SILENCE_SECONDS`: other clients wait for
    its slot."""
    departure = asyncio.ensure_future(_departure(receive))
    try:
        async for piece in body:
            if departure.done():
                return
            for start in range(0, len(piece), _MESSAGE):
                async with asyncio.timeout(SILENCE_SECONDS):
                    await send(
                        {"type": "http.response.body", "body": piece[start : start + _MESSAGE], "more_body": True}
                    )
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        return  # early, which breaks the connection
    finally:
        departure.cancel()
        body.close()


async def _departure(receive: Receive) -> None:
    """Wait until the client disconnects, ignoring whatever it sends meanwhile."""
    while (await receive())["type"] == "http.request":
        pass
