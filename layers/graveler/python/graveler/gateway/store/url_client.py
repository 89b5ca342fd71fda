"""A client of presigned URLs for the event loop: bytes of objects, over connections that are kept."""

import re
from collections.abc import Mapping
from html import unescape
from ssl import SSLContext, SSLError, create_default_context
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from graveler.gateway.store.connection_pool import ConnectionPool
from graveler.gateway.store.http_connection import BrokenConnectionError, HttpConnection, head_of
from graveler.gateway.store.port import PIECE
from graveler.gateway.store.server_addresses import Origin, Proxy
from graveler.location.environment import Network
from graveler.remote.pools import proxy_address, proxy_of
from graveler.storage.objects.presigned import DAMAGED
from graveler.system.retries import Retries

_CONNECT_SECONDS: Final = 10.0
_RETRIES: Final = Retries(attempts=5, shortest=0.1, longest=1.0)
_SILENCE_SECONDS: Final = 60.0
_ERROR_BYTES: Final = 64 << 10
_TAG: Final = re.compile(r"<(Code|Message)>([^<]*)</")


class UrlRequest(Struct, frozen=True):
    """A request of a presigned ``url``. ``length`` is that of the body in bytes; -1: none. ``subject`` names it in errors, in
    which no URL stands, since its signature is a secret."""

    subject: str
    method: str
    url: str
    headers: Mapping[str, str] = {}
    length: int = -1


class TransferError(Exception):
    """A transfer failed: with the response ``status`` (0: there was none) and its ``headers``, and ``code`` and message of its
    document. ``had_no_effect``: the server closed a connection that was idle until then; ``lasting``: no repetition helps."""

    def __init__(
        self,
        message: str,
        status: int = 0,
        code: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        had_no_effect: bool = False,
        lasting: bool = False,
    ) -> None:
        self.status = status
        self.code = code
        self.headers = headers or {}
        self.had_no_effect = had_no_effect
        self._lasting = lasting
        super().__init__(message)

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed later."""
        if not self.status:
            return not self._lasting
        return self.status == 429 or (self.status >= 500 and self.code != DAMAGED)


class UrlClient:
    """The client for servers that URLs name, reached as ``network`` says. ``silence`` is the longest wait for the next byte in
    seconds. Made in an event loop, and used in it alone."""

    def __init__(self, network: Network, retries: Retries = _RETRIES, silence: float = _SILENCE_SECONDS) -> None:
        self.retries = retries
        self._silence = silence
        self._context: SSLContext = create_default_context(cafile=network.certificates or None)
        self._pool = ConnectionPool(lambda origin: _proxy(network, origin))

    async def begin(self, request: UrlRequest, data: bytes) -> HttpConnection:
        """Send a request's head, and the beginning ``data`` of its body. Close or release the connection.
        :class:`TransferError`."""
        origin, target = _parsed(request.url)
        headers = {"host": origin.authority, **request.headers}
        if request.length >= 0:
            headers["content-length"] = str(request.length)
        proxy = self._pool.proxy_of(origin)
        if proxy is not None and not origin.is_tls:
            target, headers = f"{origin.url}{target}", headers | proxy.headers
        connection = self._pool.reused(origin, request.length)
        if connection is None:
            try:
                connection = await self._pool.open(origin, self._context, _CONNECT_SECONDS)
            except TimeoutError:
                raise TransferError(f"no connection to {origin.url} within {_CONNECT_SECONDS:g} seconds") from None
            except (OSError, BrokenConnectionError) as error:
                is_tls = isinstance(error, SSLError)
                raise TransferError(f"no connection to {origin.url} ({error})", lasting=is_tls) from error
        head = head_of(request.method, target, headers)
        is_small = len(data) < PIECE
        connection.send_head(
            head + data if is_small else head, request.length - len(data) if is_small else request.length
        )
        if not is_small:
            await self.send(connection, data)
        return connection

    async def send(self, connection: HttpConnection, data: bytes) -> None:
        """Send more of a request's body, unless its response came already. :class:`TransferError`."""
        with _Exchange(connection):
            await connection.send(data, self._silence)

    async def response(self, request: UrlRequest, connection: HttpConnection) -> None:
        """Wait until a successful response has begun; otherwise close the connection. :class:`TransferError`."""
        with _Exchange(connection):
            status = await connection.response(self._silence)
            if status in (200, 201, 204, 206):
                return
            body = await connection.body(_ERROR_BYTES, self._silence)
        headers = connection.headers
        self.release(request, connection)
        tags = {name: unescape(text) for name, text in _TAG.findall(body.decode("utf-8", "replace"))}
        raise TransferError(tags.get("Message", f"status {status}"), status, tags.get("Code", ""), headers)

    async def piece(self, connection: HttpConnection) -> bytes:
        """Return the next bytes of a response's body, empty at its end. :class:`TransferError`."""
        with _Exchange(connection):
            return await connection.piece(self._silence)

    def release(self, request: UrlRequest, connection: HttpConnection) -> None:
        """Keep the connection of a request for another one, if its response was read to the end; otherwise close it."""
        self._pool.release(_parsed(request.url)[0], connection)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()


class _Exchange:
    """A block that waits for a connection: an error closes it, and is raised as :class:`TransferError`."""

    __slots__ = ("_connection",)

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        self._connection.close()
        if isinstance(error, TimeoutError):
            raise TransferError(str(error)) from error
        if isinstance(error, BrokenConnectionError):
            was_idle = self._connection.requests > 1 and not error.answered
            raise TransferError(str(error), had_no_effect=was_idle) from error


def _parsed(url: str) -> tuple[Origin, str]:
    """Return the server of a URL, and the target of a request there."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    origin = Origin(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, "")
    return origin, parts._replace(scheme="", netloc="", fragment="").geturl()


def _proxy(network: Network, origin: Origin) -> Proxy | None:
    url = proxy_of(network, origin.url)
    if not url:
        return None
    where, headers = proxy_address(url)
    is_tls = where.scheme == "https"
    return Proxy(where.hostname or "", where.port or (443 if is_tls else 80), is_tls, headers)
