"""Checksums of bodies (``x-amz-checksum-*``): announced in a header or in a trailer, and computed as the bytes arrive.

Source: "Checking object integrity for data uploads in Amazon S3" in the Amazon S3 user guide. Values are the big-endian bytes of
a checksum in Base64.
"""

import binascii
import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, Protocol

from msgspec import Struct

from graveler.gateway.protocol.s3_errors import S3Error

PREFIX: Final = "x-amz-checksum-"

ALGORITHMS: Final[Mapping[str, int]] = {
    "crc32": 4,
    "crc32c": 4,
    "crc64nvme": 8,
    "md5": 16,
    "sha1": 20,
    "sha256": 32,
    "sha512": 64,
    "xxhash128": 16,
    "xxhash3": 8,
    "xxhash64": 8,
}
"""The algorithms, with the length of their checksums in bytes."""

_CRC_MODELS: Final = {"crc32c": "CRC32C", "crc64nvme": "CRC64-NVME"}
"""anycrc's names of the checks that zlib does not have."""

_NOT_CHECKSUMS: Final = ("x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type")
_SDK_ALGORITHM: Final = "x-amz-sdk-checksum-algorithm"
_TRAILER: Final = "x-amz-trailer"


class Digest(Protocol):
    """A checksum in the making."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def digest(self) -> bytes:
        """Return the checksum of all bytes so far."""


class Announced(Struct, frozen=True):
    """The checksum that a request announces for its body. ``value`` is that of its header, in Base64; None if it follows in the
    trailer."""

    algorithm: str
    value: str | None

    @property
    def name(self) -> str:
        """The header or the trailer that has the value."""
        return PREFIX + self.algorithm


class _Crc:
    """A cyclic redundancy check of ``size`` bytes."""

    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function = function
        self._size = size
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


@cache
def _crc_of(model: str) -> Callable[[bytes, int], int]:
    from anycrc import Model  # loads a library of 2 MB

    calculation: Callable[[bytes, int], int] = Model(model).calc
    return calculation


def digest_of(algorithm: str) -> Digest:
    """Return a new digest of one of :data:`ALGORITHMS`."""
    size = ALGORITHMS[algorithm]
    if algorithm == "crc32":
        return _Crc(zlib.crc32, size)
    if model := _CRC_MODELS.get(algorithm):
        return _Crc(_crc_of(model), size)
    if algorithm.startswith("xxhash"):
        import xxhash

        names = {"xxhash64": xxhash.xxh64, "xxhash3": xxhash.xxh3_64, "xxhash128": xxhash.xxh3_128}
        return names[algorithm]()
    return hashlib.new(algorithm, usedforsecurity=False)


def encoded(digest: Digest) -> str:
    """Return a checksum as it stands in headers."""
    return b64encode(digest.digest()).decode()


def announced_checksum(headers: Mapping[str, str]) -> Announced | None:
    """Return the checksum that headers announce for the body, or None.

    ``InvalidRequest`` for several, for an algorithm that is unknown, for a value that is none of its algorithm, and for an
    ``x-amz-sdk-checksum-algorithm`` that names another one or stands alone.
    """
    names = [name for name in headers if name.startswith(PREFIX) and name not in _NOT_CHECKSUMS]
    trailers = [name.strip().lower() for name in headers.get(_TRAILER, "").split(",") if name.strip()]
    if len(names) + len(trailers) > 1:
        raise S3Error(
            "InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        )
    announced = None
    for name in trailers:
        if name.removeprefix(PREFIX) not in ALGORITHMS or not name.startswith(PREFIX):
            raise S3Error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported")
        announced = Announced(name.removeprefix(PREFIX), None)
    for name in names:
        announced = Announced(name.removeprefix(PREFIX), headers[name].strip())
        if announced.algorithm not in ALGORITHMS:
            raise S3Error("InvalidRequest", "The algorithm type you specified in x-amz-checksum- header is invalid.")
        if not is_checksum(announced.algorithm, headers[name].strip()):
            raise S3Error("InvalidRequest", f"Value for {name} header is invalid.")
    algorithm = headers.get(_SDK_ALGORITHM, "").lower()
    if algorithm and announced is None:
        raise S3Error(
            "InvalidRequest",
            f"{_SDK_ALGORITHM} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        )
    if algorithm and announced is not None and algorithm != announced.algorithm:
        raise S3Error("InvalidRequest", f"Value for {_SDK_ALGORITHM} header is invalid.")
    return announced


def is_checksum(algorithm: str, value: str) -> bool:
    """Return whether a text is a checksum of this algorithm in Base64."""
    return is_base64(value, ALGORITHMS[algorithm])


def is_base64(value: str, size: int) -> bool:
    """Return whether a text is ``size`` bytes in Base64."""
    try:
        return value.isascii() and len(b64decode(value, validate=True)) == size
    except binascii.Error:
        return False
