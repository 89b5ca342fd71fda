"""What may stand in a header of an answer. Content types and checksums are what clients once said; a line break in one would
begin a header of theirs."""

import time
from typing import Final

_MAX: Final = 1000
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Unix seconds of the years 1 to 9999: others have no spelling in HTTP."""


def is_header_value(text: str) -> bool:
    """Whether a text can be a header's value as it is: printable ASCII, not too long."""
    return len(text) <= _MAX and text.isascii() and text.isprintable()


def http_date(seconds: int) -> str:
    """A time (Unix seconds) as HTTP spells it; one that it cannot spell is the nearest that it can."""
    at = time.gmtime(min(max(seconds, _FIRST), _LAST))
    return (
        f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year:04} "
        f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    )
