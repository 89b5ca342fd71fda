"""The body of a request: decoded, counted, and compared with all that its head says of it."""

import hashlib
from typing import Final

from msgspec import Struct

from graveler.gateway.protocol.checksums import (
    Announced,
    Digest,
    announced_checksum,
    digest_of,
    encoded,
    is_base64,
    is_checksum,
)
from graveler.gateway.protocol.chunks import ChunkDecoder, malformed_trailer, wrong_length
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument
from graveler.gateway.protocol.signature import UNSIGNED, Payload

MAX_OBJECT: Final = 5 << 30
"""Largest body of a ``PutObject`` or an ``UploadPart``, in bytes."""

MAX_DOCUMENT: Final = 8 << 20
"""Largest XML document, in bytes: 10,000 parts with checksums, or 1,000 keys of 1,024 bytes, have less."""

_MAX_DIGITS: Final = 18


class Limit(Struct, frozen=True):
    """The largest length of a kind of body, and the error beyond."""

    size: int
    code: str
    message: str


OBJECTS: Final = Limit(MAX_OBJECT, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
DOCUMENTS: Final = Limit(MAX_DOCUMENT, "MaxMessageLengthExceeded", "Your request was too big.")


class BodyDecoder:
    """Decodes and checks one body, whose bytes arrive in pieces of any size.

    Nothing of it may be published before :meth:`finish` has returned. ``checksum_is_of_body`` is false for
    ``CompleteMultipartUpload``, whose ``x-amz-checksum-*`` is that of the object.

    Making one checks the head: ``MissingContentLength``, ``EntityTooLarge`` or ``MaxMessageLengthExceeded`` by ``limit``;
    ``InvalidDigest`` for a malformed Content-MD5, ``InvalidRequest`` for malformed checksums, ``InvalidArgument`` for a body that
    is ``aws-chunked`` by its encoding and not by its signature.
    """

    def __init__(self, head: Head, payload: Payload, limit: Limit = OBJECTS, checksum_is_of_body: bool = True) -> None:
        headers = head.headers
        self.length = _declared_length(head, payload)
        if self.length > limit.size:
            raise S3Error(
                limit.code, limit.message, {"ProposedSize": str(self.length), "MaxSizeAllowed": str(limit.size)}
            )
        if not payload.is_chunked and "aws-chunked" in headers.get("content-encoding", "").lower():
            raise invalid_argument(
                f"aws-chunked encoding is not supported when x-amz-content-sha256 is {payload.content_sha256}.",
                "Content-Encoding",
                headers["content-encoding"],
            )
        self._content_md5 = _content_md5(head)
        self._announced = announced_checksum(headers) if checksum_is_of_body else None
        if self._announced is not None and self._announced.value is None and not payload.has_trailer:
            raise malformed_trailer()
        self._chunks = ChunkDecoder(payload, self.length) if payload.is_chunked else None
        self._sha256 = None if payload.is_chunked or payload.content_sha256 == UNSIGNED else payload.content_sha256
        self._arrived = 0
        self._md5: Digest | None = hashlib.md5(usedforsecurity=False)
        self._content_hash = hashlib.sha256()
        self._checksum = None if self._announced is None else digest_of(self._announced.algorithm)
        self.checksums: dict[str, str] = {}

    @property
    def declared(self) -> Announced | None:
        """The checksum that is known before the body, for a store that checks it too. None without one in a header."""
        return None if self._announced is None or self._announced.value is None else self._announced

    @property
    def md5(self) -> str:
        """The MD5 of the decoded bytes so far, in hexadecimal digits: the ETag of the whole. Empty if it is not computed."""
        return "" if self._md5 is None else self._md5.digest().hex()

    def omit_md5(self) -> None:
        """Compute no MD5, which takes more time than all else, unless the head names one. Call it before the first piece."""
        if self._content_md5 is None:
            self._md5 = None

    @property
    def is_plain(self) -> bool:
        """True if :meth:`feed` only counts bytes: there is nothing to decode or to hash."""
        return self._md5 is None and self._sha256 is None and self._checksum is None and self._chunks is None

    def feed(self, piece: bytes) -> bytes:
        """Return the decoded bytes of the next piece. ``IncompleteBody`` for more bytes than declared, and the errors of
        :meth:`ChunkDecoder.feed`."""
        data = piece if self._chunks is None else self._chunks.feed(piece)
        self._arrived += len(data)
        if self._arrived > self.length:
            raise wrong_length(self.length, self._arrived)
        if self._md5 is not None:
            self._md5.update(data)
        if self._sha256 is not None:
            self._content_hash.update(data)
        if self._checksum is not None:
            self._checksum.update(data)
        return data

    def finish(self) -> None:
        """Check the whole body after its last piece, and fill ``checksums`` with the headers of the response.

        ``IncompleteBody``, ``XAmzContentSHA256Mismatch``, ``BadDigest`` for Content-MD5 and ``x-amz-checksum-*``; for a trailer
        ``MalformedTrailerError``, ``InvalidRequest`` and ``SignatureDoesNotMatch``.
        """
        trailer = {} if self._chunks is None else self._chunks.finish()
        if self._arrived != self.length:
            raise wrong_length(self.length, self._arrived)
        self._check_sha256()
        self._check_md5()
        self._check_checksum(trailer)

    def _check_sha256(self) -> None:
        if self._sha256 is not None and self._content_hash.hexdigest() != self._sha256:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                {
                    "ClientComputedContentSHA256": self._sha256,
                    "S3ComputedContentSHA256": self._content_hash.hexdigest(),
                },
            )

    def _check_md5(self) -> None:
        if self._content_md5 is None or self._md5 is None:
            return
        calculated = encoded(self._md5)
        if self._content_md5 != calculated:
            raise S3Error(
                "BadDigest",
                "The Content-MD5 you specified did not match what we received.",
                {"ExpectedDigest": self._content_md5, "CalculatedDigest": calculated},
            )

    def _check_checksum(self, trailer: dict[str, str]) -> None:
        announced = self._announced
        if announced is None or self._checksum is None:
            if trailer:
                raise malformed_trailer()
            return
        value = announced.value
        if value is None:
            if list(trailer) != [announced.name]:
                raise malformed_trailer()
            value = trailer[announced.name]
            if not is_checksum(announced.algorithm, value):
                raise S3Error("InvalidRequest", f"Value for {announced.name} trailing header is invalid.")
        elif trailer:
            raise malformed_trailer()
        if encoded(self._checksum) != value:
            raise S3Error(
                "BadDigest", f"The {announced.algorithm.upper()} you specified did not match the calculated checksum."
            )
        self.checksums[announced.name] = value


def _declared_length(head: Head, payload: Payload) -> int:
    name = "x-amz-decoded-content-length" if payload.is_chunked else "content-length"
    text = head.headers.get(name, "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        raise S3Error("MissingContentLength", "You must provide the Content-Length HTTP header.")
    return int(text)


def _content_md5(head: Head) -> str | None:
    value = head.headers.get("content-md5")
    if value is None:
        return None
    if not is_base64(value.strip(), 16):
        raise S3Error("InvalidDigest", "The Content-MD5 you specified was invalid.", {"Content-MD5": value[:1024]})
    return value.strip()
