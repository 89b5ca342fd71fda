"""Gzip that refuses to unpack to more than a listing can."""

import gzip
import os
from typing import IO, Final

_ALWAYS: Final = 1 << 26
_RATIO: Final = 300
"""Gzip unpacks to a thousand times its size at most. Listings of long keys that are much alike reach 125 times."""


class UnpacksTooFarError(Exception):
    """The unpacked size is too large for a listing."""

    def __init__(self) -> None:
        super().__init__(
            f"it unpacks to more than {_RATIO} times its size, unlike any real listing; if it is one, unpack it first"
        )


class ListingGzip(gzip.GzipFile):
    """A gzip file to read, of which at most 64 MiB, or 300 times its own size, is unpacked: :class:`UnpacksTooFarError`."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._left = max(_ALWAYS, os.fstat(raw.fileno()).st_size * _RATIO)

    def read(self, size: int | None = -1) -> bytes:
        """Read as a file does; reading to the end in one piece holds it in memory."""
        return self._counted(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """Read as a file does."""
        return self._counted(super().read1(size))

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise UnpacksTooFarError
        return piece
