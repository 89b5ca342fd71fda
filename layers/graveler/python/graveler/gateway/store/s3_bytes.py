"""The port *bytes* on S3: reads by ranges, writes of whole objects and parts as they come, copies inside S3."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote

from graveler.errors import GravelerError, UnavailableError
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import NO_CHECKSUMS, SMALL, Body, Bytes, Writer, too_short
from graveler.gateway.store.s3_client import S3Attempts, S3Client, S3Request, refusal
from graveler.gateway.store.streamed_writer import StreamedWriter
from graveler.storage.aws_requests import FAILURES, error_code
from graveler.storage.limits import check_part_number
from graveler.storage.objects.port import StoredObject
from graveler.storage.objects.presigned import has_opaque_etag
from graveler.storage.objects.s3 import S3Objects

_COPIED_BYTES: Final = 5 << 30
"""S3 copies no more in one request."""
_COPIED_PART: Final = 1 << 30
_COPIES: Final = 4
_COPY_SILENCE: Final = 300.0
"""S3 answers a copy of 5 GiB after minutes; it sends spaces on the way."""
_COPY_RESULT_BYTES: Final = 64 << 10
_TOTAL: Final = re.compile(r"bytes (?:\d+-\d+|\*)/(\d+)")
_ETAG: Final = re.compile(rb"<ETag>(?:&quot;|&#34;|\")?([^<&\"]+)")


class S3Bytes(Bytes):
    """The objects of ``objects``, through ``client``."""

    def __init__(self, objects: S3Objects, client: S3Client) -> None:
        self._objects = objects
        self._client = client

    @property
    def namespace(self) -> str:
        return self._objects.namespace

    @property
    def etags_are_md5(self) -> bool:
        return self._client.etags_are_md5

    def compare_etag(self, stored: StoredObject, md5: str) -> None:
        self._client.etags_are_md5 = not stored.encrypted and stored.etag == md5

    async def read(self, key: str, start: int, length: int) -> Body:
        """See :meth:`Bytes.read`. One request; one more each time that a connection breaks on the way."""
        reading = _S3Read(self._objects, self._client, key, start, length)
        if not length:
            return b""
        return await reading.whole() if length <= SMALL else await reading.open()

    def writer(self, key: str, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS) -> Writer:
        request = self._request("put", "PUT", key, length, checksums)
        return _S3Writer(self._objects, self._client, key, request)

    def part_writer(
        self, key: str, upload_id: str, number: int, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS
    ) -> Writer:
        check_part_number(number)
        request = self._request("put_part", "PUT", key, length, checksums)
        request.query = _part_query(upload_id, number)
        return _S3Writer(self._objects, self._client, key, request, upload_id)

    async def copy(self, source: Bytes, source_key: str, length: int, key: str) -> StoredObject:
        """See :meth:`Bytes.copy`. Inside S3, if both are there with the same settings: one request up to 5 GiB."""
        if not isinstance(source, S3Bytes) or source._client.settings != self._client.settings:
            return await super().copy(source, source_key, length, key)
        if length > _COPIED_BYTES:
            return await self._copy_in_parts(source, source_key, length, key)
        request = self._request("copy", "PUT", key, 0, source._copy_headers(source_key))
        return await self._copied(request, key, source, source_key, length)

    async def copy_part(
        self, source: Bytes, source_key: str, start: int, length: int, key: str, upload_id: str, number: int
    ) -> StoredObject:
        """See :meth:`Bytes.copy_part`. Inside S3 as :meth:`copy`."""
        if not isinstance(source, S3Bytes) or source._client.settings != self._client.settings or not length:
            return await super().copy_part(source, source_key, start, length, key, upload_id, number)
        check_part_number(number)
        headers = source._copy_headers(source_key)
        headers["x-amz-copy-source-range"] = f"bytes={start}-{start + length - 1}"
        request = self._request("copy_part", "PUT", key, 0, headers)
        request.query = _part_query(upload_id, number)
        return await self._copied(request, key, source, source_key, length, upload_id)

    async def _copy_in_parts(self, source: "S3Bytes", source_key: str, length: int, key: str) -> StoredObject:
        upload_id = await asyncio.to_thread(self._objects.create_multipart, key)
        places = asyncio.Semaphore(_COPIES)

        async def copy_part(number: int) -> tuple[int, str]:
            start = (number - 1) * _COPIED_PART
            size = min(_COPIED_PART, length - start)
            async with places:
                return number, (await self.copy_part(source, source_key, start, size, key, upload_id, number)).etag

        try:
            async with asyncio.TaskGroup() as group:
                copies = [group.create_task(copy_part(number)) for number in range(1, -(-length // _COPIED_PART) + 1)]
            parts = [copy.result() for copy in copies]
            return await asyncio.to_thread(self._objects.complete_multipart, key, upload_id, parts)
        except BaseException as error:
            with suppress(GravelerError):  # the bucket's lifecycle rule removes what stays
                await asyncio.shield(asyncio.to_thread(self._objects.abort_multipart, key, upload_id))
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise

    async def _copied(
        self,
        request: S3Request,
        key: str,
        source: "S3Bytes",
        source_key: str,
        length: int,
        upload_id: str | None = None,
    ) -> StoredObject:
        request.silence = _COPY_SILENCE
        attempts = S3Attempts(self._client, request)
        while True:
            attempts.begin()
            try:
                connection = await self._client.response(request, await self._client.begin(request, b""))
                headers = connection.headers
                body = await self._client.body(request, connection, _COPY_RESULT_BYTES)
                etag = _ETAG.search(body)
                if etag is None:  # S3 has sent the status before the copy failed
                    raise refusal(500, headers, body, "PUT")
                return _stored(key, length, etag[1].decode("latin-1"), headers)
            except FAILURES as error:
                failure: Exception = error
            try:
                await attempts.pause(failure)
            except FAILURES as error:
                if error_code(error) == "NoSuchKey":
                    raise source._objects.explain(error, "copy", source_key) from error
                raise self._objects.explain(error, "copy", key, upload_id=upload_id) from error

    def _copy_headers(self, key: str) -> dict[str, str]:
        path = quote(f"{self._objects.bucket}/{self._objects.key_in_bucket(key)}", safe="/-_.~")
        return {"x-amz-copy-source": f"/{path}"}

    def _request(self, verb: str, method: str, key: str, length: int, headers: Mapping[str, str]) -> S3Request:
        s3_key = self._objects.key_in_bucket(key)
        return S3Request(f"{self.namespace}/{key}: {verb}", method, s3_key, headers, length=length)


class _S3Read:
    """``length`` bytes of an object from offset ``start``. A broken connection is replaced: the rest is read on another one, if
    the object is still the same."""

    def __init__(self, objects: S3Objects, client: S3Client, key: str, start: int, length: int) -> None:
        self._objects = objects
        self._client = client
        self._key = key
        self._position = start
        self._end = start + length
        subject = f"{objects.namespace}/{key}: get"
        self._request = S3Request(subject, "GET", objects.key_in_bucket(key))
        self._attempts = S3Attempts(client, self._request)
        self._connection: HttpConnection | None = None
        self._etag = ""

    async def whole(self) -> bytes:
        """Return the bytes."""
        body = b"".join([piece async for piece in await self.open()])
        await self.aclose()
        return body

    async def open(self) -> "_S3Read":
        """Send the request, and return this once the store has answered."""
        while self._connection is None:
            self._attempts.begin()
            try:
                await self._begin()
            except FAILURES as error:
                failure = error
            else:
                break
            await self._pause(failure)
        return self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._position < self._end:
            if self._connection is None:
                await self.open()
                continue
            try:
                piece = await self._client.piece(self._request, self._connection)
                if not piece:
                    raise UnavailableError(f"{self._request.subject}: the response ended too early; try again")
            except FAILURES as error:
                failure = error
                self._connection = None
            else:
                self._position += len(piece)
                yield piece
                continue
            await self._pause(failure)

    async def aclose(self) -> None:
        """Keep the connection, if the response was read to its end; otherwise close it."""
        if self._connection is not None:
            self._client.release(self._request, self._connection)
            self._connection = None

    async def _begin(self) -> None:
        headers = {"range": f"bytes={self._position}-{self._end - 1}"}
        if self._etag:
            headers["if-match"] = self._etag
        self._request.headers = headers
        connection = await self._client.response(self._request, await self._client.begin(self._request, b""))
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._etag = connection.headers.get("etag", "")
        self._connection = connection

    def _check(self, connection: HttpConnection) -> None:
        """Raise unless the response has the bytes that were requested."""
        length = connection.headers.get("content-length", "")
        if connection.status == 206:
            total = _TOTAL.fullmatch(connection.headers.get("content-range", ""))
            if total is not None and int(total[1]) < self._end:
                raise too_short(self._objects.namespace, self._key, int(total[1]), self._end)
        elif self._position or not length.isdecimal() or int(length) != self._end:
            raise UnavailableError(f"{self._request.subject}: the store ignores the range of a request")

    async def _pause(self, error: Exception) -> None:
        try:
            await self._attempts.pause(error)
        except FAILURES as refusal:
            if error_code(refusal) in ("InvalidRange", "416"):
                size = await asyncio.to_thread(self._objects.head, self._key)
                raise too_short(self._objects.namespace, self._key, size.size, self._end) from None
            condition = "it was replaced while it was being read"
            raise self._objects.explain(refusal, "get", self._key, condition=condition) from refusal


class _S3Writer(StreamedWriter):
    """An object or part, written by one request."""

    def __init__(
        self, objects: S3Objects, client: S3Client, key: str, request: S3Request, upload_id: str | None = None
    ) -> None:
        super().__init__(request.length)
        self._objects = objects
        self._client = client
        self._key = key
        self._request = request
        self._upload_id = upload_id
        self._attempts = S3Attempts(client, request)

    def _stored(self, headers: Mapping[str, str]) -> StoredObject:
        return _stored(self._key, self._length, headers.get("etag", "").strip('"'), headers)

    async def _send(self, data: bytes, *, is_last: bool) -> Mapping[str, str]:
        while True:
            try:
                return await self._attempt(data, is_last=is_last)
            except FAILURES as error:
                failure = error
                await self.abort()
            if not self._is_repeatable:
                self._attempts.exhaust()
            try:
                await self._attempts.pause(failure)
            except FAILURES as error:
                raise self._objects.explain(error, "put", self._key, upload_id=self._upload_id) from error

    async def _attempt(self, data: bytes, *, is_last: bool) -> Mapping[str, str]:
        if self._connection is None:
            self._attempts.begin()
            before = b"".join(self._repeatable)
            self._connection = await self._client.begin(self._request, before + data if before else data)
        else:
            await self._client.send(self._request, self._connection, data)
        connection = self._connection
        if is_last or connection.has_response:
            await self._client.response(self._request, connection)
            if not is_last:
                connection.close()
                raise UnavailableError(f"{self._request.subject}: the store answered before the bytes were sent")
            headers = connection.headers
            await self._client.body(self._request, connection, _COPY_RESULT_BYTES)
            self._connection = None
            return headers
        self._note(data)
        return {}


def _part_query(upload_id: str, number: int) -> tuple[tuple[str, str], ...]:
    return ("partNumber", str(number)), ("uploadId", upload_id)


def _stored(key: str, size: int, etag: str, headers: Mapping[str, str]) -> StoredObject:
    encryption = headers.get("x-amz-server-side-encryption", "")
    is_encrypted = has_opaque_etag(encryption, headers.get("x-amz-server-side-encryption-customer-algorithm", ""))
    return StoredObject(key, size, etag, _date(headers.get("date", "")), is_encrypted)


def _date(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return time.time()
