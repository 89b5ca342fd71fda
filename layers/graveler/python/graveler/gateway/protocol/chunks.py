"""The encoding ``aws-chunked``: chunks of a body, signed or not, and a trailer.

Sources: "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks" and "… Including Trailing
Headers" in the Amazon S3 API reference; S3's answers to malformed bodies as reported in the issues 1600, 1665, 1666, 1684 and
1691 of versity/versitygw.
"""

import re
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final

from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.signature import Payload

MAX_LINE: Final = 4096
"""Longest header of a chunk, in bytes."""

MAX_TRAILER: Final = 16384
"""Longest trailer, in bytes."""

MIN_CHUNK: Final = 8192
"""Smallest chunk, in bytes, except for the last one."""

_EMPTY_SHA256: Final = sha256().hexdigest()
_HEADER: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?\r\n")
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"


class ChunkDecoder:
    """Decodes a body of ``length`` bytes, whose encoded bytes arrive in pieces of any size.

    The bytes of a signed chunk are returned before its signature is verified: nothing may be published before :meth:`finish`.
    """

    def __init__(self, payload: Payload, length: int) -> None:
        self._payload = payload
        self._length = length
        self._signature = payload.seed
        self._chunk_signature = ""
        self._hash = sha256()
        self._missing = 0  # bytes of the current chunk that have not arrived
        self._decoded = 0
        self._chunks = 0
        self._size = MIN_CHUNK
        self._line = bytearray()
        self._is_after_data = False
        self._trailer: bytearray | None = None

    def feed(self, piece: bytes) -> bytes:
        """Return the decoded bytes of the next piece. ``IncompleteBody`` for a malformed encoding and for more bytes than the
        length; ``SignatureDoesNotMatch``, ``InvalidChunkSizeError``, ``MalformedTrailerError``."""
        if len(piece) < self._missing:
            self._take(piece)
            return piece
        decoded = []
        view = memoryview(piece)
        position = 0
        while position < len(piece):
            if self._missing:
                data = view[position : position + self._missing]
                self._take(data)
                decoded.append(data)
                position += len(data)
            elif self._trailer is not None:
                self._trailer += view[position:]
                position = len(piece)
                if len(self._trailer) > MAX_TRAILER:
                    raise malformed_trailer()
            else:
                position = self._read_line(piece, position)
        return b"".join(decoded)

    def finish(self) -> dict[str, str]:
        """Return the trailer after the last piece: values by name in lower case. ``IncompleteBody`` if the body is cut short;
        ``MalformedTrailerError`` and ``SignatureDoesNotMatch`` for the trailer."""
        trailer = self._trailer
        if trailer is None or not (trailer == b"\r\n" or trailer.endswith(b"\r\n\r\n")):
            raise _malformed()
        if self._decoded != self._length:
            raise wrong_length(self._length, self._decoded)
        return self._read_trailer(trailer.decode("latin-1"))

    def _take(self, data: bytes | memoryview) -> None:
        self._missing -= len(data)
        if self._payload.has_signed_chunks:
            self._hash.update(data)
        if not self._missing:
            self._end_chunk()

    def _read_line(self, piece: bytes, position: int) -> int:
        """Read the header of a chunk, or the end of the line after its data; return the position behind it."""
        end = piece.find(b"\n", position) + 1
        self._line += piece[position : end or len(piece)]
        if len(self._line) > MAX_LINE:
            raise _malformed()
        if not end:
            return len(piece)
        line = bytes(self._line)
        self._line.clear()
        if self._is_after_data:
            if line != b"\r\n":
                raise _malformed()
            self._is_after_data = False
        else:
            self._begin_chunk(line)
        return end

    def _begin_chunk(self, line: bytes) -> None:
        header = _HEADER.fullmatch(line)
        if header is None or (header[2] is None) is self._payload.has_signed_chunks:
            raise _malformed()
        size = int(header[1], 16)
        self._chunks += 1
        if size and self._size < MIN_CHUNK:
            raise S3Error(
                "InvalidChunkSizeError",
                f"Only the last chunk is allowed to have a size less than {MIN_CHUNK} bytes",
                {"Chunk": str(self._chunks), "BadChunkSize": str(self._size)},
            )
        self._size = self._missing = size
        self._decoded += size
        if self._decoded > self._length:
            raise wrong_length(self._length, self._decoded)
        self._chunk_signature = (header[2] or b"").decode()
        if not size:
            self._end_chunk()
            self._trailer = bytearray()

    def _end_chunk(self) -> None:
        self._is_after_data = True
        if self._payload.has_signed_chunks:
            self._check_signature("PAYLOAD", f"{_EMPTY_SHA256}\n{self._hash.hexdigest()}", self._chunk_signature)
            self._hash = sha256()

    def _check_signature(self, kind: str, hashes: str, signature: str) -> None:
        payload = self._payload
        text = f"AWS4-HMAC-SHA256-{kind}\n{payload.instant}\n{payload.scope}\n{self._signature}\n{hashes}"
        self._signature = hmac_digest(payload.signing_key, text.encode(), "sha256").hex()
        if not compare_digest(self._signature, signature):
            raise S3Error(
                "SignatureDoesNotMatch",
                f"The signature of chunk {self._chunks} does not match the one we calculated. Check your key and signing method.",
                {"StringToSign": text, "SignatureProvided": signature},
            )

    def _read_trailer(self, text: str) -> dict[str, str]:
        trailer: dict[str, str] = {}
        for line in filter(None, (line.strip() for line in text.split("\n"))):
            name, colon, value = line.partition(":")
            if not colon or name.strip().lower() in trailer:
                raise malformed_trailer()
            trailer[name.strip().lower()] = value.strip()
        signature = trailer.pop(_TRAILER_SIGNATURE, None)
        if trailer and not self._payload.has_trailer:
            raise malformed_trailer()
        if self._payload.has_signed_chunks and self._payload.has_trailer:
            if signature is None or not signature.isascii():
                raise _malformed()
            canonical = "".join(f"{name}:{value}\n" for name, value in trailer.items())
            self._check_signature("TRAILER", sha256(canonical.encode("latin-1")).hexdigest(), signature)
        elif signature is not None:
            raise malformed_trailer()
        return trailer


def wrong_length(expected: int, provided: int) -> S3Error:
    """Return the error for a body of another length than the head says."""
    return S3Error(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
        {"NumberBytesExpected": str(expected), "NumberBytesProvided": str(provided)},
    )


def _malformed() -> S3Error:
    return S3Error("IncompleteBody", "The request body terminated unexpectedly")


def malformed_trailer() -> S3Error:
    """Return the error for a trailer that is malformed, missing, or was not announced."""
    return S3Error(
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    )
