"""``Range`` headers, as S3 reads them: one range of bytes; anything else is ignored, and the whole is sent."""

import re
from typing import Final

_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII | re.IGNORECASE)
_MOST_DIGITS: Final = 19
"""Beyond these no object reaches, and Python refuses to read thousands of them."""


class UnsatisfiableError(Exception):
    """The range begins behind the end, or is empty."""


def requested_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and length that a header asks for of an object of ``size`` bytes; None: all of it.
    :class:`UnsatisfiableError` for a range that holds no byte of it."""
    found = _RANGE.fullmatch(header) if header else None
    if found is None:
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        length = min(_number(last), size)
        if length == 0:
            raise UnsatisfiableError
        return size - length, length
    start = _number(first)
    end = _number(last) if last else size
    if end < start and last:
        return None  # no range at all, says RFC 9110
    if start >= size:
        raise UnsatisfiableError
    return start, min(end, size - 1) - start + 1


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS
