"""The port *bytes* behind a server, which signs a URL for each object or part: it sees none of the bytes that lie in S3."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from msgspec.structs import replace

from graveler.errors import BusyError, CorruptError, GravelerError, UnavailableError
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import NO_CHECKSUMS, SMALL, Body, Bytes, UrlObjects, Writer, too_short
from graveler.gateway.store.streamed_writer import StreamedWriter
from graveler.gateway.store.url_client import TransferError, UrlClient, UrlRequest
from graveler.storage.limits import check_part_number
from graveler.storage.objects.port import NotPermittedError, ObjectMissingError, StoredObject, UploadMissingError
from graveler.storage.objects.presigned import DAMAGED
from graveler.system.retries import Retries

_TOTAL: Final = re.compile(r"bytes (?:\d+-\d+|\*)/(\d+)")
_MD5: Final = "content-md5"
"""The only checksum that may be sent along: S3 accepts no header ``x-amz-…`` that is not signed."""


class UrlBytes(Bytes):
    """The objects of ``objects``, through ``client``."""

    def __init__(self, objects: UrlObjects, client: UrlClient) -> None:
        self._objects = objects
        self._client = client

    @property
    def namespace(self) -> str:
        return self._objects.namespace

    async def read(self, key: str, start: int, length: int) -> Body:
        """See :meth:`Bytes.read`. One request; one more each time that a connection breaks on the way."""
        if not length:
            return b""
        reading = _UrlRead(self._client, self.namespace, key, self._objects.url("GET", key), start, length)
        await reading.open()
        if length > SMALL:
            return reading
        body = b"".join([piece async for piece in reading])
        await reading.aclose()
        return body

    def writer(self, key: str, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS) -> Writer:
        url = self._objects.url("PUT", key)

        async def known() -> str:
            return url

        return _UrlWriter(self._client, self.namespace, key, known, length, checksums)

    def part_writer(
        self, key: str, upload_id: str, number: int, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS
    ) -> Writer:
        check_part_number(number)

        async def requested() -> str:
            return await asyncio.to_thread(self._objects.part_url, key, upload_id, number)

        return _UrlWriter(self._client, self.namespace, key, requested, length, checksums, upload_id)


class _Attempts:
    """The attempts at one request."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._attempt = 0
        self.are_over = False

    async def pause(self, error: TransferError) -> bool:
        """Wait before the next attempt, and return whether there is one."""
        if error.had_no_effect and not self.are_over:
            return True  # as many times as there were idle connections
        self._attempt += 1
        if self.are_over or not error.may_pass or self._attempt >= self._retries.attempts:
            return False
        await asyncio.sleep(self._retries.pause(self._attempt))
        return True


class _UrlRead:
    """``length`` bytes of an object from offset ``start``. A broken connection is replaced: the rest is read on another one, if
    the object is still the same."""

    def __init__(self, client: UrlClient, namespace: str, key: str, url: str, start: int, length: int) -> None:
        self._client = client
        self._namespace = namespace
        self._key = key
        self._position = start
        self._end = start + length
        self._request = UrlRequest(f"{namespace}/{key}: get", "GET", url)
        self._attempts = _Attempts(client.retries)
        self._connection: HttpConnection | None = None
        self._etag = ""

    async def open(self) -> None:
        """Send the request, and wait until the store has answered."""
        while self._connection is None:
            try:
                self._connection = await self._begin()
            except TransferError as error:
                await self._pause(error)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._position < self._end:
            await self.open()
            assert self._connection is not None
            try:
                piece = await self._client.piece(self._connection)
                if not piece:
                    raise TransferError("the response ended too early")
            except TransferError as error:
                self._connection = None
                await self._pause(error)
            else:
                self._position += len(piece)
                yield piece

    async def aclose(self) -> None:
        """Keep the connection, if the response was read to its end; otherwise close it."""
        if self._connection is not None:
            self._client.release(self._request, self._connection)
            self._connection = None

    async def _begin(self) -> HttpConnection:
        headers = {"range": f"bytes={self._position}-{self._end - 1}"}
        if self._etag:
            headers["if-match"] = self._etag
        self._request = replace(self._request, headers=headers)
        connection = await self._client.begin(self._request, b"")
        await self._client.response(self._request, connection)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._etag = connection.headers.get("etag", "")
        return connection

    def _check(self, connection: HttpConnection) -> None:
        """Raise unless the response has the bytes that were requested."""
        length = connection.headers.get("content-length", "")
        if connection.status == 206:
            total = _TOTAL.fullmatch(connection.headers.get("content-range", ""))
            if total is not None and int(total[1]) < self._end:
                raise too_short(self._namespace, self._key, int(total[1]), self._end)
        elif self._position or not length.isdecimal() or int(length) != self._end:
            raise UnavailableError(f"{self._request.subject}: the store ignores the range of a request")

    async def _pause(self, error: TransferError) -> None:
        if not await self._attempts.pause(error):
            if error.status == 416:
                total = _TOTAL.fullmatch(error.headers.get("content-range", ""))
                raise too_short(self._namespace, self._key, int(total[1]) if total else 0, self._end) from None
            raise _explained(error, self._request, self._namespace, self._key) from error


class _UrlWriter(StreamedWriter):
    """An object or part of ``length`` bytes on its way to the URL that ``find_url`` returns."""

    def __init__(
        self,
        client: UrlClient,
        namespace: str,
        key: str,
        find_url: Callable[[], Awaitable[str]],
        length: int,
        checksums: Mapping[str, str],
        upload_id: str = "",
    ) -> None:
        super().__init__(length)
        self._client = client
        self._namespace = namespace
        self._key = key
        self._find_url = find_url
        self._headers = {_MD5: checksums[_MD5]} if _MD5 in checksums else {}
        self._upload_id = upload_id
        self._attempts = _Attempts(client.retries)
        self._request: UrlRequest | None = None

    def _stored(self, headers: Mapping[str, str]) -> StoredObject:
        return StoredObject(self._key, self._length, headers.get("etag", "").strip('"'), time.time())

    async def _send(self, data: bytes, *, is_last: bool) -> Mapping[str, str]:
        if self._request is None:
            url = await self._find_url()
            self._request = UrlRequest(f"{self._namespace}/{self._key}: put", "PUT", url, self._headers, self._length)
        while True:
            try:
                return await self._attempt(self._request, data, is_last=is_last)
            except TransferError as error:
                await self.abort()
                self._attempts.are_over = not self._is_repeatable
                if not await self._attempts.pause(error):
                    raise _explained(error, self._request, self._namespace, self._key, self._upload_id) from error

    async def _attempt(self, request: UrlRequest, data: bytes, *, is_last: bool) -> Mapping[str, str]:
        if self._connection is None:
            self._connection = await self._client.begin(request, b"".join((*self._repeatable, data)))
        else:
            await self._client.send(self._connection, data)
        connection = self._connection
        if is_last or connection.has_response:
            await self._client.response(request, connection)
            if not is_last:
                raise TransferError("the store answered before the bytes were sent")
            while await self._client.piece(connection):
                pass
            self._client.release(request, connection)
            self._connection = None
            return connection.headers
        self._note(data)
        return {}


def _explained(
    error: TransferError, request: UrlRequest, namespace: str, key: str, upload_id: str = ""
) -> GravelerError:
    """Return the error of the lake for a transfer that failed for good."""
    subject = f"{request.subject}: {error}"
    if error.status == 404:
        return UploadMissingError(namespace, key, upload_id) if upload_id else ObjectMissingError(namespace, key)
    if error.code == DAMAGED:
        return CorruptError(f"{subject}; restore it from a copy")
    if error.status == 403 and "expired" not in f"{error.code} {error}".lower():
        return NotPermittedError(f"{subject}: the store refuses what the server has signed")
    if error.status in (429, 503):
        return BusyError(f"{subject}; try again later")
    return UnavailableError(f"{subject}; try again")
