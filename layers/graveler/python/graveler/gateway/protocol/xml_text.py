"""Text of XML documents, and the elements that many of S3's documents share."""

import re
import time
from functools import lru_cache
from typing import Final

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
XML_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'

SPECIAL: Final = re.compile('[&<>"\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\ud800-\udfff]')
"""The characters that :func:`escape` replaces."""

_OWNER: Final = "graveler"
_DAY: Final = 86400
_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799
"""Unix seconds of the years 1 to 9999."""

_TWO: Final = [f"{number:02}" for number in range(60)]
_NAMES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """Return ``text`` as the content of an element.

    A control character becomes a reference to it, as in S3's documents. XML 1.0 knows no such references, except for a carriage
    return, so most parsers refuse a document with one: clients must ask for ``encoding-type=url``, and never see another key.
    """
    if text.isprintable() and not ("&" in text or "<" in text or ">" in text or '"' in text):  # most, in half the time
        return text
    return SPECIAL.sub(_reference, text)


@lru_cache(maxsize=4096)
def iso_time(seconds: int) -> str:
    """Return a time (Unix seconds) as documents of S3 have it; one beyond the years 1 to 9999 becomes the nearest. Objects of one
    job share their seconds, so they are remembered."""
    if not _FIRST <= seconds <= _LAST:
        seconds = min(max(seconds, _FIRST), _LAST)
    day, second = divmod(seconds, _DAY)
    minute = second // 60
    return f"{_date(day)}T{_TWO[minute // 60]}:{_TWO[minute % 60]}:{_TWO[second % 60]}.000Z"


def owner_element(name: str = "Owner", display: str = _OWNER) -> str:
    """Return an element about the owner of all buckets and objects; a lake has no other."""
    return f"<{name}><ID>{_OWNER}</ID><DisplayName>{escape(display)}</DisplayName></{name}>"


def document(root: str, content: str) -> bytes:
    """Return a document of S3 with this content in the element ``root``."""
    return f'{XML_DECLARATION}<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    date = time.gmtime(day * _DAY)
    return f"{date.tm_year:04}-{date.tm_mon:02}-{date.tm_mday:02}"


def _reference(match: re.Match[str]) -> str:
    character = match[0]
    return _NAMES.get(character) or f"&#x{ord(character):x};"
