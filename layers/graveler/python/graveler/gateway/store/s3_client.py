"""A client of S3 for the event loop: a bucket's requests, signed, over connections that are kept.

boto3 needs 1.4 ms of a core or more for a request, and a thread; this one 0.06 to 0.11 ms. It knows a dozen headers and no XML
but errors'. Requests are those that may be repeated: reads, and writes of a whole object or part. Errors and pauses are those of
:mod:`graveler.storage.aws_requests`, so a user reads the same sentence, whichever client fails.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from html import unescape
from ssl import SSLContext
from ssl import SSLError as TlsError
from types import TracebackType
from typing import Final

import msgspec
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)

from graveler.gateway.store.connection_pool import REPEATABLE as REPEATABLE
from graveler.gateway.store.connection_pool import ConnectionPool
from graveler.gateway.store.http_connection import BrokenConnectionError, HttpConnection, head_of
from graveler.gateway.store.port import PIECE
from graveler.gateway.store.s3_credentials import S3Credentials
from graveler.gateway.store.s3_origins import locate, proxy_of, redirected
from graveler.gateway.store.server_addresses import Origin
from graveler.storage.aws_requests import Attempts, error_code
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.objects.s3_signature import target_of

_ERROR_BYTES: Final = 64 << 10
_EXPIRED_CODES: Final = frozenset(("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"))
_TAG: Final = re.compile(r"<(Code|Message)>([^<]*)</")


class RepeatNowError(ConnectionClosedError):
    """The request had no effect, and can be repeated at once: the server closed a connection that was idle until then, or
    redirected the request."""


class S3Request(msgspec.Struct):
    """A request of ``key``, a key in the bucket. ``length`` is that of the body in bytes; -1: none. ``subject`` names it in
    errors; ``silence`` is the longest wait for the next byte in seconds, if not the settings'. ``origin`` is where a redirect
    led."""

    subject: str
    method: str
    key: str
    headers: Mapping[str, str] = {}
    query: Sequence[tuple[str, str]] = ()
    length: int = -1
    silence: float = 0
    origin: Origin | None = None


class S3Client:
    """The client for the bucket of ``objects``. Made in an event loop, and used in it alone."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self.settings: S3Settings = objects.settings
        self.etags_are_md5 = False
        """See :attr:`graveler.gateway.store.port.Bytes.etags_are_md5`."""
        self._lock = asyncio.Lock()
        self._origin: Origin | None = None
        self._credentials: S3Credentials
        self._context: SSLContext
        self._pool = ConnectionPool(proxy_of)

    async def begin(self, request: S3Request, data: bytes) -> HttpConnection:
        """Send a request's head, and the beginning ``data`` of its body. Close or release the connection. The SDK's errors."""
        await self._connected()
        signer = await self._credentials.signer()
        origin = request.origin or self._origin
        assert origin is not None
        headers = {"host": origin.authority, **request.headers}
        if request.length >= 0:
            headers["content-length"] = str(request.length)
        target = target_of(origin.base, request.key, request.query)
        signed = signer.sign(request.method, target, headers)
        proxy = self._pool.proxy_of(origin)
        if proxy is not None and not origin.is_tls:
            target, signed = f"http://{origin.authority}{target}", signed | proxy.headers
        head = head_of(request.method, target, signed)
        connection = self._pool.reused(origin, request.length) if origin is self._origin else None
        if connection is None:
            connection = await self._open(origin)
        is_small = len(data) < PIECE
        connection.send_head(
            head + data if is_small else head, request.length - len(data) if is_small else request.length
        )
        if not is_small:
            await self.send(request, connection, data)
        return connection

    async def send(self, request: S3Request, connection: HttpConnection, data: bytes) -> None:
        """Send more of a request's body, unless its response came already. Errors as of :meth:`response`."""
        with self._exchange(request, connection):
            await connection.send(data, self._silence(request))

    async def response(self, request: S3Request, connection: HttpConnection) -> HttpConnection:
        """Return the connection, once a successful response has begun on it; with an error it is closed, or released. The SDK's
        errors."""
        silence = self._silence(request)
        with self._exchange(request, connection):
            status = await connection.response(silence)
            if status in (200, 206):
                return connection
            body = await connection.body(_ERROR_BYTES, silence)
        headers = connection.headers
        self.release(request, connection)
        if status == 307 and request.origin is None and self._origin is not None:
            request.origin = redirected(self._origin, headers.get("location", ""))
            if request.origin is not None:
                raise RepeatNowError(endpoint_url=request.origin.url)
        raise refusal(status, headers, body, request.method)

    async def piece(self, request: S3Request, connection: HttpConnection) -> bytes:
        """Return the next bytes of a response's body, empty at its end. The SDK's errors."""
        with self._exchange(request, connection):
            return await connection.piece(self._silence(request))

    async def body(self, request: S3Request, connection: HttpConnection, limit: int) -> bytes:
        """Return a response's body, of which at most ``limit`` bytes are expected, and release the connection."""
        with self._exchange(request, connection):
            body = await connection.body(limit + 1, self._silence(request))
        self.release(request, connection)
        return body

    def release(self, request: S3Request, connection: HttpConnection) -> None:
        """Keep the connection of a request for another one, if its response was read to the end; otherwise close it."""
        if request.origin is None and self._origin is not None:
            self._pool.release(self._origin, connection)
        else:
            connection.close()

    def expire_credentials(self) -> None:
        """Look for new credentials before the next request."""
        self._credentials.forget()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    async def _open(self, origin: Origin) -> HttpConnection:
        try:
            return await self._pool.open(origin, self._context, self.settings.connect_timeout)
        except TimeoutError:
            raise ConnectTimeoutError(endpoint_url=origin.url) from None
        except TlsError as error:
            raise SSLError(endpoint_url=origin.url, error=error) from error
        except BrokenConnectionError as error:
            raise ProxyConnectionError(proxy_url=f"{self._pool.proxy_of(origin)} ({error})") from error
        except OSError as error:
            raise EndpointConnectionError(
                endpoint_url=f"{self._pool.proxy_of(origin) or origin.url} ({error})"
            ) from error

    def _silence(self, request: S3Request) -> float:
        return request.silence or self.settings.read_timeout

    def _exchange(self, request: S3Request, connection: HttpConnection) -> "_Exchange":
        return _Exchange(connection, request.origin or self._origin)

    async def _connected(self) -> None:
        if self._origin is not None:
            return
        async with self._lock:
            if self._origin is None:
                origin, region, self._context = await asyncio.to_thread(locate, self._objects)
                self._credentials = S3Credentials(region)
                self._origin = origin


class _Exchange:
    """A block that waits for a connection: an error closes it, and is raised as the SDK's."""

    __slots__ = ("_connection", "_origin")

    def __init__(self, connection: HttpConnection, origin: Origin | None) -> None:
        self._connection, self._origin = connection, origin

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        self._connection.close()
        url = self._origin.url if self._origin else ""
        if isinstance(error, TimeoutError):
            raise ReadTimeoutError(endpoint_url=f"{url} ({error})") from error
        if isinstance(error, BrokenConnectionError):
            if self._connection.requests > 1 and not error.answered:
                raise RepeatNowError(endpoint_url=url) from error
            raise ConnectionClosedError(endpoint_url=f"{url} ({error})") from error


class S3Attempts(Attempts):
    """The attempts at one request of a client."""

    def __init__(self, client: S3Client, request: S3Request) -> None:
        super().__init__(request.subject, client.settings.retries, has_effect=request.method not in ("GET", "HEAD"))
        self._client = client
        self._longest = client.settings.retries.longest
        self._has_renewed = self._is_exhausted = False

    def exhaust(self) -> None:
        """Make the current attempt the last one."""
        self._pauses = iter(())
        self._is_exhausted = True

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt, as long as the server says or longer. Raises as :meth:`pause_after`."""
        if self._is_exhausted:
            self.pause_after(error)
        if isinstance(error, RepeatNowError):
            return  # as many times as there were idle connections
        if error_code(error) in _EXPIRED_CODES and not self._has_renewed:
            self._has_renewed = True
            self._client.expire_credentials()
            return
        await asyncio.sleep(max(self.pause_after(error), min(_retry_after(error), self._longest)))


def _retry_after(error: Exception) -> float:
    if not isinstance(error, ClientError):
        return 0.0
    seconds = error.response["ResponseMetadata"]["HTTPHeaders"].get("retry-after", "")
    return float(seconds) if seconds.isdecimal() else 0.0


def refusal(status: int, headers: Mapping[str, str], body: bytes, method: str) -> ClientError:
    """Return the SDK's error for a response that is not a success."""
    tags = {name: unescape(text) for name, text in _TAG.findall(body.decode("utf-8", "replace"))}
    error = {"Code": tags.get("Code", str(status)), "Message": tags.get("Message", "no details")}
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers}
    return ClientError({"Error": error, "ResponseMetadata": metadata}, method)  # type: ignore[typeddict-item]
