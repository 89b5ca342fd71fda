"""The headers ``Range`` and ``If-Range``: the requested bytes of an object (RFC 9110, 13.1.5 and 14.2)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

_SPACE: Final = " \t\n\r\f\v"
_MOST_DIGITS: Final = 19
"""No object is that long, and Python refuses to parse thousands of digits."""


class Span(Struct, frozen=True):
    """``length`` bytes from ``start``, of ``size``. ``length`` is 0 if the range cannot be satisfied."""

    start: int
    length: int
    size: int

    @property
    def content_range(self) -> str:
        """The matching header ``Content-Range``."""
        if not self.length:
            return f"bytes */{self.size}"
        return f"bytes {self.start}-{self.start + self.length - 1}/{self.size}"


def requested(headers: Mapping[str, str], etag: str, size: int) -> Span | None:
    """Return what a request's headers (names in lower case) ask for of an object with this ETag, as :func:`span`. With
    ``If-Range`` the range applies only to the object with that ETag: a client that resumes the read of another one gets the whole
    object."""
    condition = headers.get("if-range")
    if condition and condition.strip() != f'"{etag}"':
        return None
    return span(headers.get("range"), size)


def span(header: str | None, size: int) -> Span | None:
    """Return the range that a header asks for of an object of ``size`` bytes. None for the whole: without a header, and for a
    malformed one or one with several ranges, which a server may ignore."""
    if not header:
        return None
    unit, _, text = header.partition("=")
    begin, dash, end_said = text.partition("-")
    start_digits, last = begin.strip(_SPACE), end_said.strip(_SPACE)
    digits = start_digits + last
    if unit.strip(_SPACE).lower() != "bytes" or not dash or (digits and not (digits.isascii() and digits.isdigit())):
        return None
    if start_digits:
        start, end = _number(start_digits), min(_number(last) + 1, size) if last else size
        if last and _number(last) < start:
            return None
    elif last:
        start, end = max(size - _number(last), 0), size
    else:
        return None
    return Span(start, max(end - start, 0), size)


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS
