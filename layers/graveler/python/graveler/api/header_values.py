"""Values that may appear in a response header. Content types and checksums come from clients; a line break in one would let them
inject a header."""

import time
from typing import Final

_MAX: Final = 1000
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Unix seconds of the years 1 to 9999, the only ones that HTTP can express."""


def is_header_value(text: str) -> bool:
    """Return whether a text can be a header's value as it is: printable ASCII, not too long."""
    return len(text) <= _MAX and text.isascii() and text.isprintable()


def http_date(seconds: int) -> str:
    """Return a time (Unix seconds) in HTTP's format; one out of range becomes the nearest valid one."""
    date = time.gmtime(min(max(seconds, _FIRST), _LAST))
    return (
        f"{_DAYS[date.tm_wday]}, {date.tm_mday:02} {_MONTHS[date.tm_mon - 1]} {date.tm_year:04} "
        f"{date.tm_hour:02}:{date.tm_min:02}:{date.tm_sec:02} GMT"
    )
