"""Requests to a server of the HTTP API: sent with an access key, repeated where that is safe, their error responses raised.

A request is repeated if it did not arrive, if its response was lost, or if the server could not serve it at the moment (429,
502, 503, 504, and the 500 of a gateway), after a random pause whose limit doubles (full jitter). Every request may be repeated:
those that create something carry an ``Idempotency-Key``, so the server performs them once. With 429 the server names the wait
(``Retry-After``) and the same request is sent again: this continues work that takes longer than one request.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from random import uniform
from secrets import token_hex
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3
from msgspec import Struct
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, ProxyError, SSLError
from urllib3.util import Timeout, make_headers

from graveler import __version__
from graveler.access.refusals import AuthenticationError
from graveler.errors import UNREADABLE, AnswerLostError, CorruptError, InvalidError, UnavailableError
from graveler.history.names import check_branch
from graveler.location.environment import Network
from graveler.remote.error_responses import refusal
from graveler.remote.pools import Pools
from graveler.storage.objects.presigned import DAMAGED
from graveler.system.retries import Retries
from graveler.text.readable import without_password
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error

SILENCE: Final = 120.0
"""Seconds for which a server may stay silent before it answers, for most requests."""
PAGE: Final = 1000
"""Results per page, and the number of objects that one request may name."""

_BASE: Final = "/api/v1"
CATALOG: Final = "/iceberg/v1"
"""The path of the catalog of Iceberg tables, for :meth:`Connection.call`."""
_REPEATED: Final = frozenset((429, 502, 503, 504))
_GATEWAYS: Final = frozenset((502, 504))
"""Statuses of a gateway that does not know what the server behind it did."""
_REQUEST_ID: Final = "x-request-id"
"""Header of each response of the HTTP API. API Gateway itself sends a 500 without it if Lambda cannot start a copy of a function,
or if a copy breaks down: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-troubleshooting-lambda.html and
https://docs.aws.amazon.com/lambda/latest/dg/services-apigateway-errors.html"""
_LONGEST_WAIT: Final = 60.0
_PIECE: Final = 1 << 20

Query = Mapping[str, str | int | bool | Sequence[str] | None]
"""Query parameters; None and empty ones are omitted."""
Document = TypeVar("Document")


def branch_path(repository: Sequence[str], branch: str, *rest: str) -> tuple[str, ...]:
    """Return the path of a branch of a repository, or of something below it. :class:`InvalidError` for an invalid name: a
    gateway that decodes paths might take the path of such a branch for that of something else."""
    return (*repository, "branches", check_branch(branch), *rest)


class Paged(Protocol):
    """A page of a listing."""

    @property
    def pagination(self) -> Pagination:
        """The position in the listing."""


Listed = TypeVar("Listed", bound=Paged)


class ServerRetries(Retries, frozen=True):
    """Retry limits for requests to a server. A client told to come back later does so for ``patience`` seconds in total."""

    attempts: int = 6
    shortest: float = 0.2
    longest: float = 5.0
    patience: float = 900.0


class Response(msgspec.Struct, frozen=True):
    """A server's response; header names are in lower case. ``lost``: an earlier attempt of the same request got no response, and
    may have taken effect."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    lost: bool = False

    @property
    def is_of_gateway(self) -> bool:
        """True if the response is from a gateway, which does not know what the server behind it did."""
        return self.status in _GATEWAYS or (self.status == 500 and _REQUEST_ID not in self.headers)

    def read(self, kind: type[Document]) -> Document:
        """Return the body as a document of this kind. :class:`UnavailableError` if it is none: then the response is not
        graveler's."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except UNREADABLE as error:
            raise UnavailableError(
                f"the response is not from graveler's HTTP API ({error}); check the endpoint"
            ) from None


class Session(Protocol):
    """A temporary identity at a server."""

    def authorization(self) -> str:
        """Return the ``authorization`` header."""
        ...

    def renewed(self, refused: str) -> str:
        """Return a new header to replace ``refused``, which the server no longer accepts."""
        ...


class SessionToken(msgspec.Struct, frozen=True):
    """A token obtained elsewhere, which cannot be renewed."""

    token: str

    def authorization(self) -> str:
        """Return the ``authorization`` header."""
        return f"Bearer {self.token}"

    def renewed(self, refused: str) -> str:
        """Return the same header: no other exists."""
        return refused

    def __repr__(self) -> str:
        return "SessionToken(token=…)"


class Connection:
    """A connection to a server with an access key, or a ``session`` instead; an empty key is anonymous. ``host`` replaces the
    URL's own host name in requests, for servers that tell their APIs apart by it; ``network`` is how servers are reached. Shared
    by threads. Opening it sends no request. :class:`InvalidError` for an invalid URL."""

    def __init__(
        self,
        url: str,
        key_id: str,
        secret: str,
        *,
        host: str | None = None,
        retries: ServerRetries | None = None,
        network: Network | None = None,
        session: Session | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidError(f"endpoint {without_password(url)!r} is not the URL of a server; write https://HOST")
        self.url = url.rstrip("/").removesuffix(_BASE)
        self.shown_url = without_password(self.url)
        """The URL for messages."""
        self._headers = {
            "user-agent": f"graveler/{__version__}",
            **(make_headers(basic_auth=f"{key_id}:{secret}") if key_id else {}),
            **({"host": host} if host else {}),
        }
        self._retries = retries or ServerRetries()
        self._pool = Pools(network or Network())
        self._session = session

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def get(self, path: Sequence[str], kind: type[Document], query: Query | None = None) -> Document:
        """Return the document at ``path``."""
        return self.call("GET", path, query).read(kind)

    def pages(self, path: Sequence[str], kind: type[Listed], query: Query | None = None) -> Iterator[Listed]:
        """Yield all pages of a listing. One request each."""
        after: str | None = ""
        while after is not None:
            page = self.get(path, kind, {**(query or {}), "after": after, "amount": PAGE})
            yield page
            after = page.pagination.next_after

    def call(
        self,
        method: str,
        path: Sequence[str],
        query: Query | None = None,
        document: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        passing: Sequence[int] = (),
        seconds: float = SILENCE,
        base: str = _BASE,
    ) -> Response:
        """Send one request and return its response. ``path`` holds the segments below ``base``, ``document`` becomes the JSON
        body; a POST carries the Idempotency-Key ``key``, or a random one. A status of 400 or above is raised as its error
        (:func:`graveler.remote.error_responses.refusal`), unless ``passing`` has the status. ``seconds`` limits how long the
        server may stay silent. :class:`UnavailableError` without a response."""
        target = "/".join(quote(segment, safe="") for segment in path)
        doing = f"{method} {self.shown_url}{base}/{target}"
        all_headers = {**self._headers, **(headers or {})}
        body: bytes | None = None
        if document is not None:
            body = _json(document, doing)
            all_headers["content-type"] = "application/json"
        if method == "POST":
            all_headers["idempotency-key"] = key or token_hex(16)
        url = f"{self.url}{base}/{target}{_encoded(query)}"
        if self._session is not None:
            all_headers["authorization"] = self._session.authorization()
        response = self._send(method, url, body, all_headers, doing, seconds)
        if (
            self._session is not None
            and response.status == 401
            and _error_of(response).code == AuthenticationError.code
        ):
            # The request had no effect: the token expired early.
            renewed = self._session.renewed(all_headers["authorization"])
            if renewed != all_headers["authorization"]:
                response = self._send(method, url, body, {**all_headers, "authorization": renewed}, doing, seconds)
        if response.status < 400 or response.status in passing:
            return response
        if response.lost and method == "DELETE" and response.status == 404:
            return response  # deleted as requested: by the attempt whose response was lost, if not before
        if response.lost and method != "POST" and response.status in (409, 412):
            raise AnswerLostError(
                f"{doing}: a response was lost, so it may or may not have happened; check, then try again "
                f"({_error_of(response).sentence})"
            )
        error = refusal(response.status, _error_of(response), doing)
        unsure = method != "GET" and (response.lost or response.is_of_gateway)
        if unsure and isinstance(error, UnavailableError) and not isinstance(error, AnswerLostError):
            raise AnswerLostError(f"{error}; it may or may not have happened: check, then try again")
        raise error

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], doing: str, seconds: float
    ) -> Response:
        lost = False
        attempt = 0
        waited = 0.0
        while True:
            failure: str
            try:
                timeout = Timeout(connect=10, read=seconds)
                received = self._pool.request(method, url, body=body, headers=headers, redirect=False, timeout=timeout)
            except HTTPError as error:
                lost = lost or not _never_arrived(error)
                failure = _reason(error)
                if isinstance(error, SSLError):
                    attempt = self._retries.attempts  # a retry cannot fix it
            else:
                received_headers = {name.lower(): value for name, value in received.headers.items()}
                response = Response(received.status, received_headers, received.data, lost)
                if response.status not in _REPEATED and not response.is_of_gateway:
                    return response
                wait = _retry_after(received_headers) if response.status == 429 else None
                if wait is not None and waited + wait <= self._retries.patience:
                    time.sleep(wait + uniform(0, wait / 4))
                    waited += wait
                    continue
                lost = lost or response.status != 429  # a gateway that timed out may send one of these, too
                if attempt + 1 >= self._retries.attempts:
                    return response
                failure = f"status {response.status}"
            attempt += 1
            if attempt >= self._retries.attempts:
                unsure = lost and method != "GET"
                happened = "it may or may not have happened" if unsure else "nothing was changed"
                raise (AnswerLostError if unsure else UnavailableError)(
                    f"{doing}: no response ({failure}); {happened}. Check the network and the endpoint"
                )
            time.sleep(self._retries.pause(attempt))

    def bytes_at(self, url: str, start: int, length: int | None) -> Iterator[bytes]:
        """Yield the bytes at a presigned URL, in pieces; ``length`` of them from ``start``. A broken transfer resumes where it
        ended. The URL's host does not see the access key."""
        done = 0
        attempt = 0
        while length is None or done < length:
            last = "" if length is None else str(start + length - 1)
            # A server that verifies whole objects breaks the connection on a damaged one; of a range it sends the stored bytes,
            # and the reader detects the damage.
            ranged = start + done or length is not None or attempt
            headers = {"range": f"bytes={start + done}-{last}"} if ranged else {}
            try:
                with self._stream(url, headers) as response:
                    if response.status == 416:
                        return
                    whole = start + done == 0 and (length is None or _size_of(response) <= length)
                    _expect_bytes(response, url, whole=whole)
                    for piece in response.stream(_PIECE):
                        done += len(piece)
                        attempt = 0
                        yield piece
                    return
            except HTTPError as error:
                attempt += 1
                if attempt >= self._retries.attempts:
                    raise UnavailableError(
                        f"reading {_shown(url)}: the transfer was interrupted ({_reason(error)}); try again"
                    ) from None
            except _BusyStoreError as error:
                attempt += 1
                if attempt >= self._retries.attempts:
                    raise UnavailableError(f"reading {_shown(url)}: {error}; try again") from None
            time.sleep(self._retries.pause(attempt))

    def headers_at(self, url: str) -> Mapping[str, str]:
        """Return the headers that the store sends for a presigned URL, along with one byte. :class:`UnavailableError` without a
        response."""
        attempt = 0
        while True:
            try:
                with self._stream(url, {"range": "bytes=0-0"}) as response:
                    _expect_bytes(response, url, whole=True)
                    return {name.lower(): value for name, value in response.headers.items()}
            except (HTTPError, _BusyStoreError) as error:
                attempt += 1
                if attempt >= self._retries.attempts:
                    reason = _reason(error) if isinstance(error, HTTPError) else error
                    raise UnavailableError(f"looking at {_shown(url)}: {reason}; try again") from None
            time.sleep(self._retries.pause(attempt))

    def put_bytes(self, url: str, data: "bytes | OpenFile") -> Mapping[str, str]:
        """Write to a presigned URL and return the response headers. :class:`UnavailableError` if the store refuses."""
        attempt = 0
        while True:
            body = data if isinstance(data, bytes) else data.begin()
            size = len(data) if isinstance(data, bytes) else data.size
            try:
                received = self._pool.request(
                    "PUT", url, body=body, headers={"content-length": str(size)}, redirect=False, preload_content=True
                )
                if received.status < 300:
                    return {name.lower(): value for name, value in received.headers.items()}
                failure = f"status {received.status}: {received.data[:300].decode('utf-8', 'replace')}"
                if received.status < 500 and received.status != 429:
                    raise UnavailableError(f"writing to {_shown(url)}: the store refused it ({failure})")
            except HTTPError as error:
                failure = _reason(error)
            attempt += 1
            if attempt >= self._retries.attempts:
                raise UnavailableError(f"writing to {_shown(url)}: {failure}; nothing was staged, try again")
            time.sleep(self._retries.pause(attempt))

    @contextmanager
    def _stream(self, url: str, headers: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        response = self._pool.request("GET", url, headers=headers, preload_content=False, redirect=False)
        try:
            yield response
            response.drain_conn()
        finally:
            response.close()
            response.release_conn()


class OpenFile:
    """A file to send, possibly several times. ``size`` in bytes. ``sent`` is called with the bytes that were sent for the first
    time."""

    def __init__(self, file: Any, size: int, start: int = 0, sent: Callable[[int], None] | None = None) -> None:
        self._file, self.size, self._start, self._sent = file, size, start, sent
        self._reported = 0

    def begin(self) -> Iterator[bytes]:
        """Yield the bytes again from the beginning."""
        self._file.seek(self._start)
        remaining = self.size
        while remaining and (piece := self._file.read(min(_PIECE, remaining))):
            remaining -= len(piece)
            yield piece
            if self._sent is not None and self.size - remaining > self._reported:
                self._sent(self.size - remaining - self._reported)
                self._reported = self.size - remaining


class _BusyStoreError(Exception):
    """The store is temporarily unable to respond."""


def _size_of(response: urllib3.BaseHTTPResponse) -> int:
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _expect_bytes(response: urllib3.BaseHTTPResponse, url: str, *, whole: bool) -> None:
    """Raise unless the response carries the requested bytes; ``whole``: they would be the whole object."""
    if response.status in (200, 206):
        if not whole and response.status == 200:
            raise UnavailableError(f"reading {_shown(url)}: the store sends only whole objects, not ranges")
        return
    body = response.read(600).decode("utf-8", "replace")
    if f"<Code>{DAMAGED}</Code>" in body:
        from xml.sax.saxutils import unescape  # few objects are damaged

        raise CorruptError(unescape(body.partition("<Message>")[2].partition("</Message>")[0]))
    if response.status >= 500 or response.status == 429:
        raise _BusyStoreError(f"status {response.status}: {body}")
    raise refusal(response.status, Error(body), f"reading {_shown(url)}")


def _encoded(query: Query | None) -> str:
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif isinstance(value, int):
            pairs.append((name, str(value)))
        elif isinstance(value, str):
            pairs += [(name, value)] if value else []
        elif value is not None:
            pairs += [(name, item) for item in value]
    return f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""


class _CatalogWords(Struct):
    message: str


class _CatalogError(Struct):
    """An error as Iceberg's REST catalog protocol has it."""

    error: _CatalogWords


def _error_of(response: Response) -> Error:
    with suppress(*UNREADABLE):
        return Error(msgspec.json.decode(response.body, type=_CatalogError).error.message)
    try:
        return msgspec.json.decode(response.body, type=Error)
    except UNREADABLE:
        return Error(response.body[:300].decode("utf-8", "replace").strip())


def _json(document: object, doing: str) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError as error:
        raise InvalidError(f"{doing}: {error.object[:200]!r} cannot be written as UTF-8") from None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdecimal() else None


def _never_arrived(error: HTTPError) -> bool:
    inner: object = error.reason if isinstance(error, MaxRetryError) else error
    if isinstance(inner, ProxyError):  # the proxy did not let the request through
        inner = inner.original_error
    return isinstance(inner, NewConnectionError | SSLError)


def _reason(error: HTTPError) -> str:
    inner = error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error
    return str(inner).partition(": ")[2] or str(inner)


def _shown(url: str) -> str:
    """Return a URL without its signature, which is a secret while it is valid."""
    return url.partition("?")[0]
