"""Presigned URLs of objects in folders: reads and writes of bytes, served as S3 serves them.

Only the signature counts: an ``Authorization`` header, which clients send along when they follow redirects, is ignored. A URL for
reading carries the recorded size and MD5 of the object: the server refuses a file of another size, and by option one with another
MD5. If that shows only after most of it was sent, the connection is broken before the last byte, so that the client does not take
the object for complete. Bytes are streamed in both directions, and a transfer occupies a thread only while a piece is read from
or written to disk. A worker has slots for a number of transfers; once all are taken, further clients are told to slow down, and
the API keeps responding.
"""

from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from hashlib import md5
from io import FileIO
from threading import BoundedSemaphore
from typing import Final
from xml.sax.saxutils import escape

from graveler.api.object_documents import OBJECT_POLICY
from graveler.api.ranges import requested
from graveler.errors import CorruptError, ForbiddenError, GravelerError, InvalidError, NotFoundError, UnavailableError
from graveler.server.bodies import PIECE, declared_length, pieces
from graveler.server.namespaces import Namespaces
from graveler.server.requests import Receive, Request
from graveler.server.responses import Headers, RequestError, ServerResponse
from graveler.server.threads import Threads
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_writer import FolderWriter
from graveler.storage.objects.port import ObjectConditionError, StoredObject
from graveler.storage.objects.presigned import DAMAGED, Grant, UrlSigner

MAX_PUT: Final = 5 << 30
"""Largest PUT in bytes, as in S3."""

_NO_PAGE: Final = (("x-content-type-options", "nosniff"), ("content-security-policy", OBJECT_POLICY))
"""Headers that keep browsers from treating an object as one of the server's own pages, whatever its content."""

_AT_ONCE: Final = 256 << 10
"""Largest response sent in one piece, whatever the client's pace."""


class DataPlane:
    """The handler of presigned URLs, restricted to ``namespaces``. ``slots`` limits concurrent transfers, ``disk`` reads and
    writes files, and ``verify_bytes`` also verifies the MD5 of whole objects."""

    def __init__(
        self,
        signer: UrlSigner,
        namespaces: Namespaces,
        slots: int,
        disk: Threads,
        *,
        verify_bytes: bool = False,
    ) -> None:
        self._signer = signer
        self._namespaces = namespaces
        self._slots = BoundedSemaphore(slots)
        self._disk = disk
        self._verify_bytes = verify_bytes

    async def __call__(self, request: Request, receive: Receive) -> ServerResponse:
        """Return the response to a request. The caller must close a body in pieces, whatever happens."""
        operation = "putBytes" if request.method == "PUT" else "getBytes"
        try:
            response = await self._answer(request, receive)
        except RequestError as error:
            code = {411: "MissingContentLength", 413: "EntityTooLarge", 501: "NotImplemented", 503: "SlowDown"}
            response = _error(error.status, code.get(error.status, "InvalidRequest"), error.message)
        except _BadDigestError as error:
            response = _error(400, "BadDigest", str(error))
        except ForbiddenError as error:
            response = _error(403, "AccessDenied", str(error))
        except NotFoundError as error:
            response = _error(404, "NoSuchUpload" if "uploadId=" in request.query else "NoSuchKey", str(error))
        except ObjectConditionError as error:
            response = _error(412, "PreconditionFailed", str(error))
        except InvalidError as error:
            response = _error(400, "InvalidRequest", str(error))
        except CorruptError as error:
            response = _error(500, DAMAGED, str(error))
        except GravelerError as error:
            response = _error(503, "ServiceUnavailable", str(error))
        response.operation = operation
        response.headers += _NO_PAGE
        return response

    async def _answer(self, request: Request, receive: Receive) -> ServerResponse:
        if request.method not in ("GET", "HEAD", "PUT"):
            return _error(405, "MethodNotAllowed", f"{request.method} is not allowed for presigned URLs")
        signed = "PUT" if request.method == "PUT" else "GET"
        grant = self._signer.verify(f"{request.path}?{request.query}", signed)
        store = self._namespaces.at_hand(grant.namespace)
        if store is None:
            try:
                store = await self._disk.run(self._namespaces.look_up, grant.namespace)
            except NotFoundError as error:
                return _error(404, "NoSuchBucket", str(error))
        if not isinstance(store, FolderObjects):
            return _error(404, "NoSuchBucket", f"{grant.namespace} is not a folder")
        if signed == "PUT":
            if store.foreign:
                return _error(403, "AccessDenied", f"{grant.namespace} is an import source, which is read-only")
            return await self._put(request, receive, store, grant)
        return await self._disk.run(self._get, request, store, grant)

    def _get(self, request: Request, store: FolderObjects, grant: Grant) -> ServerResponse:
        stored, file = store.open_object(grant.key)
        handed_on = False
        try:
            noted = grant.noted
            if noted is not None and noted.size != stored.size:
                raise CorruptError(f"{stored.size:,} bytes")
            headers: Headers = [
                ("accept-ranges", "bytes"),
                ("etag", f'"{stored.etag}"'),
                ("last-modified", formatdate(stored.modified, usegmt=True)),
            ]
            if (required := request.headers.get("if-match")) and not _names(required, stored):
                return _error(412, "PreconditionFailed", f"the object's ETag is {stored.etag}")
            if (cached_etags := request.headers.get("if-none-match")) and _names(cached_etags, stored):
                return ServerResponse(304, headers)
            part = requested(request.headers, stored.etag, stored.size)
            if part is not None and not part.length:
                refusal = _error(416, "InvalidRange", f"the object has {stored.size:,} bytes")
                refusal.headers.append(("content-range", part.content_range))
                return refusal
            start, length = (0, stored.size) if part is None else (part.start, part.length)
            headers += [("content-type", "application/octet-stream"), ("content-length", str(length))]
            if part:
                headers.append(("content-range", part.content_range))
            status = 206 if part else 200
            if request.method == "HEAD":
                return ServerResponse(status, headers)
            file.seek(start)
            md5_noted = noted.md5 if noted is not None and self._verify_bytes and part is None else ""
            if length <= _AT_ONCE:
                body = _read(file, length)
                if md5_noted and body:
                    _expect_md5(md5(body, usedforsecurity=False).hexdigest(), md5_noted, length)
                return ServerResponse(status, headers, body)
            self._take_slot()
            handed_on = True
            return ServerResponse(status, headers, _Sending(file, length, self._slots, self._disk, md5_noted))
        finally:
            if not handed_on:
                file.close()

    async def _put(self, request: Request, receive: Receive, store: FolderObjects, grant: Grant) -> ServerResponse:
        if declared_length(request) is None:
            raise RequestError(
                411, "a PUT needs a Content-Length, so that a partial body is not taken for a complete one"
            )
        condition = request.headers.get("if-none-match", "").strip()
        if condition not in ("", "*") or "if-match" in request.headers:
            raise RequestError(501, "the only condition allowed for a PUT is If-None-Match: *")
        expected = _digest_of(request)
        self._take_slot()
        try:
            if grant.part:
                writer = await self._disk.run(store.part_writer, grant.key, grant.upload_id, grant.part)
                stored, _ = await self._write(request, receive, writer, expected)
                return _written(stored.etag)
            return _written(await self._put_once(request, receive, store, grant.key, expected))
        finally:
            self._slots.release()

    async def _put_once(
        self, request: Request, receive: Receive, store: FolderObjects, key: str, expected: bytes | None
    ) -> str:
        """Write an object that does not exist yet, and return its MD5. An existing one stays: a PUT of the same bytes gets the
        original response, one of other bytes raises :class:`ObjectConditionError`."""
        try:
            writer = await self._disk.run(store.writer, key, if_absent=True)
        except ObjectConditionError as error:
            if declared_length(request) != (await self._disk.run(store.head, key)).size:
                raise
            digest = await self._take(request, receive, lambda _: None, expected)
            await self._disk.run(_expect_same, store, key, digest, error)
            return digest
        try:
            _, digest = await self._write(request, receive, writer, expected)
        except _TakenError as error:
            await self._disk.run(_expect_same, store, key, error.md5, error.taken)
            return error.md5
        return digest

    async def _write(
        self, request: Request, receive: Receive, writer: FolderWriter, expected: bytes | None
    ) -> tuple[StoredObject, str]:
        """Return the stored object and the MD5 of its bytes. :class:`_TakenError` if a concurrent writer was faster."""
        try:
            digest = await self._take(request, receive, writer.write, expected)
            try:
                return await self._disk.run(writer.finish), digest
            except ObjectConditionError as error:
                raise _TakenError(digest, error) from None
        finally:
            await self._disk.run(writer.abort)

    async def _take(
        self, request: Request, receive: Receive, take: Callable[[bytes], None], expected: bytes | None
    ) -> str:
        """Consume the body as it arrives, and return its MD5. :class:`_BadDigestError` if another one was declared."""
        digest = md5(usedforsecurity=False)

        def took(piece: bytes) -> None:
            digest.update(piece)
            take(piece)

        async for piece in pieces(request, receive, MAX_PUT):
            await self._disk.run(took, piece)
        if expected not in (None, digest.digest()):
            raise _BadDigestError("the MD5 of the received bytes differs from the header Content-MD5")
        return digest.hexdigest()

    def _take_slot(self) -> None:
        if not self._slots.acquire(blocking=False):
            raise RequestError(503, "too many transfers are in progress; try again in a second")


class _BadDigestError(Exception):
    """The bytes do not match the header Content-MD5."""


class _TakenError(Exception):
    """A concurrent writer's object exists by now; ``md5`` is that of the bytes that arrived."""

    def __init__(self, md5: str, error: ObjectConditionError) -> None:
        self.md5, self.taken = md5, error
        super().__init__(str(error))


class _Sending:
    """A part of a file in transit. It must be closed, even if the client disconnects early. With ``md5_noted`` it is a whole
    file, whose last piece is sent only if that is its MD5."""

    def __init__(self, file: FileIO, length: int, slots: BoundedSemaphore, disk: Threads, md5_noted: str = "") -> None:
        self._file = file
        self._left = length
        self._length = length
        self._slots = slots
        self._disk = disk
        self._md5_noted = md5_noted
        self._digest = md5(usedforsecurity=False)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._left > 0:
            yield await self._disk.run(self._next)

    def _next(self) -> bytes:
        piece = _read(self._file, min(self._left, PIECE))
        self._left -= len(piece)
        if self._md5_noted:
            self._digest.update(piece)
            if not self._left:
                _expect_md5(self._digest.hexdigest(), self._md5_noted, self._length)
        return piece

    def close(self) -> None:
        """Release the file and the slot."""
        if not self._file.closed:
            self._file.close()
            self._slots.release()


def _read(file: FileIO, length: int) -> bytes:
    """Read exactly ``length`` bytes; :class:`UnavailableError` if the file has become shorter."""
    held: list[bytes] = []
    while length > 0:
        piece = file.read(length)
        if not piece:
            raise UnavailableError("an object became shorter while it was being read; only graveler may write there")
        length -= len(piece)
        held.append(piece)
    return b"".join(held)


def _expect_md5(actual: str, noted: str, size: int) -> None:
    if actual != noted:
        raise CorruptError(f"{size:,} bytes with MD5 {actual}")


def _expect_same(store: FolderObjects, key: str, arrived: str, error: ObjectConditionError) -> None:
    """Raise ``error`` unless the existing object has this MD5."""
    digest = md5(usedforsecurity=False)
    for piece in store.stream(key):
        digest.update(piece)
    if digest.hexdigest() != arrived:
        raise error


def _written(etag: str) -> ServerResponse:
    return ServerResponse(200, [("etag", f'"{etag}"')])


def _digest_of(request: Request) -> bytes | None:
    header = request.headers.get("content-md5")
    try:
        return b64decode(header, validate=True) if header else None
    except ValueError:
        raise RequestError(400, f"header Content-MD5 {str(header)[:60]!r} is not base64") from None


def _names(condition: str, stored: StoredObject) -> bool:
    """Return whether a list of ETags (or ``*``) names this object."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in condition.split(",")]
    return "*" in tags or stored.etag in tags


def _error(status: int, code: str, message: str) -> ServerResponse:
    printable = "".join(character if character.isprintable() else "?" for character in message)
    document = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(printable)}</Message></Error>\n"
    )
    headers = [("content-type", "application/xml"), ("cache-control", "no-store")]
    if status == 503:
        headers.append(("retry-after", "1"))
    return ServerResponse(status, headers, document.encode("utf-8", "replace"))
