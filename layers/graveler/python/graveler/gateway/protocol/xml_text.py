"""Text of XML documents."""

import re
from typing import Final

_SPECIAL: Final = re.compile('[&<>"\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\ud800-\udfff]')
_NAMES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """Return ``text`` as the content of an element.

    A control character becomes a reference to it, as in S3's documents. XML 1.0 knows no such references, except for a carriage
    return, so most parsers refuse a document with one: clients must ask for ``encoding-type=url``, and never see another key.
    """
    return _SPECIAL.sub(_reference, text) if _SPECIAL.search(text) else text


def _reference(match: re.Match[str]) -> str:
    character = match[0]
    return _NAMES.get(character) or f"&#x{ord(character):x};"
