"""The header ``Range``: which bytes of an object are asked for (RFC 9110, 14.2)."""

import re
from typing import Final

from msgspec import Struct

_BYTES: Final = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


class Span(Struct, frozen=True):
    """``length`` bytes from ``start``, of ``size``. ``length`` is 0 for what cannot be satisfied."""

    start: int
    length: int
    size: int

    @property
    def content_range(self) -> str:
        """The header ``Content-Range`` that goes with it."""
        if not self.length:
            return f"bytes */{self.size}"
        return f"bytes {self.start}-{self.start + self.length - 1}/{self.size}"


def span(header: str | None, size: int) -> Span | None:
    """What a header asks for of an object of ``size`` bytes. None for the whole: without a header, and for one that is malformed
    or asks for several ranges, both of which a server may ignore."""
    match = _BYTES.fullmatch(header.strip()) if header else None
    if match is None:
        return None
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    elif last:
        start, end = max(size - int(last), 0), size
    else:
        return None
    return Span(start, max(end - start, 0), size)
