"""Presigned URLs of objects in folders: reads and writes of bytes, answered as S3 answers them.

Only the signature counts: an ``Authorization`` header that comes along (clients follow redirects with it) is not looked at.
Bytes are streamed in both directions. Transfers occupy a thread for as long as the client takes, so a worker has places for some
of them only; who comes when all are taken is told to slow down, and the API goes on answering.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from hashlib import md5
from io import FileIO
from threading import BoundedSemaphore
from typing import Any, Final
from xml.sax.saxutils import escape

from graveler.errors import ForbiddenError, GravelerError, InvalidError, NotFoundError
from graveler.server.answers import Answer, Headers, RequestError
from graveler.server.bodies import PIECE, declared_length, pieces
from graveler.server.ranges import UnsatisfiableError, requested_range
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.objects import ObjectConditionError, Objects, StoredObject
from graveler.storage.presigned import Grant, UrlSigner

MAX_PUT: Final = 5 << 30
"""Bytes of one PUT, as in S3."""

_AT_ONCE: Final = 256 << 10
"""Bytes that are answered in one piece, whatever the client's pace."""


class DataPlane:
    """Answers presigned URLs. ``open_store`` turns a namespace into its objects, ``places`` is how many transfers may go on."""

    def __init__(self, signer: UrlSigner, open_store: Callable[[str], Objects], places: int) -> None:
        self._signer = signer
        self._open_store = open_store
        self._places = BoundedSemaphore(places)

    def __call__(self, environ: Mapping[str, Any], path: str) -> Answer:
        """The answer to a request for ``path``, still quoted."""
        method = environ["REQUEST_METHOD"]
        operation = "putBytes" if method == "PUT" else "getBytes"
        try:
            if method not in ("GET", "HEAD", "PUT"):
                return _error(405, "MethodNotAllowed", f"{method} is not for presigned URLs", operation)
            signed = "PUT" if method == "PUT" else "GET"
            grant = self._signer.verify(f"{path}?{environ['QUERY_STRING']}", signed)
            store = self._open_store(grant.namespace)
            if not isinstance(store, FolderObjects):
                return _error(404, "NoSuchBucket", f"{grant.namespace} is no folder", operation)
            answer = self._put(environ, store, grant) if signed == "PUT" else self._get(environ, store, grant)
        except RequestError as error:
            code = {411: "MissingContentLength", 413: "EntityTooLarge", 501: "NotImplemented", 503: "SlowDown"}
            return _error(error.status, code.get(error.status, "InvalidRequest"), error.message, operation)
        except _BadDigestError as error:
            return _error(400, "BadDigest", str(error), operation)
        except ForbiddenError as error:
            return _error(403, "AccessDenied", str(error), operation)
        except NotFoundError as error:
            return _error(404, "NoSuchUpload" if grant.part else "NoSuchKey", str(error), operation)
        except ObjectConditionError as error:
            return _error(412, "PreconditionFailed", str(error), operation)
        except InvalidError as error:
            return _error(400, "InvalidRequest", str(error), operation)
        except GravelerError as error:
            return _error(503, "ServiceUnavailable", str(error), operation)
        answer.operation = operation
        return answer

    def _get(self, environ: Mapping[str, Any], store: FolderObjects, grant: Grant) -> Answer:
        stored, file = store.open_object(grant.key)
        handed_on = False
        try:
            headers: Headers = [
                ("accept-ranges", "bytes"),
                ("etag", f'"{stored.etag}"'),
                ("last-modified", formatdate(stored.modified, usegmt=True)),
            ]
            if (wanted := environ.get("HTTP_IF_MATCH")) and not _names(wanted, stored):
                return _error(412, "PreconditionFailed", f"the object's ETag is {stored.etag}")
            if (known := environ.get("HTTP_IF_NONE_MATCH")) and _names(known, stored):
                return Answer(304, headers)
            header = environ.get("HTTP_RANGE")
            if (unless := environ.get("HTTP_IF_RANGE")) and unless.strip() != f'"{stored.etag}"':
                header = None
            try:
                part = requested_range(header, stored.size)
            except UnsatisfiableError:
                refusal = _error(416, "InvalidRange", f"the object has {stored.size:,} bytes")
                refusal.headers.append(("content-range", f"bytes */{stored.size}"))
                return refusal
            start, length = part or (0, stored.size)
            headers += [("content-type", "application/octet-stream"), ("content-length", str(length))]
            if part:
                headers.append(("content-range", f"bytes {start}-{start + length - 1}/{stored.size}"))
            status = 206 if part else 200
            if environ["REQUEST_METHOD"] == "HEAD":
                return Answer(status, headers)
            file.seek(start)
            if length <= _AT_ONCE:
                return Answer(status, headers, b"".join(_read(file, length)))
            self._take_place()
            handed_on = True
            return Answer(status, headers, _Sending(file, length, self._places))
        finally:
            if not handed_on:
                file.close()

    def _put(self, environ: Mapping[str, Any], store: FolderObjects, grant: Grant) -> Answer:
        if declared_length(environ) is None:
            raise RequestError(411, "a PUT must say its Content-Length, so that half of a body is not taken for all")
        condition = environ.get("HTTP_IF_NONE_MATCH", "").strip()
        if condition not in ("", "*") or "HTTP_IF_MATCH" in environ:
            raise RequestError(501, "the only condition for a PUT is If-None-Match: *")
        self._take_place()
        try:
            digest = md5(usedforsecurity=False)
            arriving = _checked(environ, digest.update, digest.digest)
            if grant.part:
                etag = store.put_part_pieces(grant.key, grant.upload_id, grant.part, arriving)
            else:
                store.put_pieces(grant.key, arriving, if_absent=bool(condition))
                etag = digest.hexdigest()
        finally:
            self._places.release()
        return Answer(200, [("etag", f'"{etag}"')])

    def _take_place(self) -> None:
        if not self._places.acquire(blocking=False):
            raise RequestError(503, "too many transfers are under way; try again in a second")


class _BadDigestError(Exception):
    """The bytes are not those that the header Content-MD5 speaks of."""


class _Sending:
    """A file on its way. Closed by the server, also when the client goes away before the end."""

    def __init__(self, file: FileIO, length: int, places: BoundedSemaphore) -> None:
        self._file = file
        self._pieces = _read(file, length)
        self._places = places

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        """Let go of the file and of the place."""
        if not self._file.closed:
            self._file.close()
            self._places.release()


def _read(file: FileIO, length: int) -> Iterator[bytes]:
    while length > 0:
        piece = file.read(min(length, PIECE))
        if not piece:
            return
        length -= len(piece)
        yield piece


def _checked(
    environ: Mapping[str, Any], update: Callable[[bytes], None], digest: Callable[[], bytes]
) -> Iterator[bytes]:
    for piece in pieces(environ, MAX_PUT):
        update(piece)
        yield piece
    said = environ.get("HTTP_CONTENT_MD5")
    if said:
        try:
            expected = b64decode(said, validate=True)
        except ValueError:
            raise RequestError(400, f"header Content-MD5 {said[:60]!r} is no base64") from None
        if expected != digest():
            raise _BadDigestError("the bytes that arrived have another MD5 than the header Content-MD5 says")


def _names(condition: str, stored: StoredObject) -> bool:
    """Does a list of ETags (or ``*``) name this object?"""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in condition.split(",")]
    return "*" in tags or stored.etag in tags


def _error(status: int, code: str, message: str, operation: str = "") -> Answer:
    printable = "".join(character if character.isprintable() else "?" for character in message)
    document = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(printable)}</Message></Error>\n"
    )
    headers = [("content-type", "application/xml")]
    if status == 503:
        headers.append(("retry-after", "1"))
    return Answer(status, headers, document.encode("utf-8", "replace"), operation)
