"""Addresses that mean the same place to every reader."""

import re
from typing import Final
from urllib.parse import unquote

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\x00-\x1f\x7f]*")
_SLASHES: Final = re.compile(r"[/\\]")
_DOTS: Final = frozenset((".", ".."))
_DECODINGS: Final = 4


def is_plain(address: str) -> bool:
    """Return whether an address means the same place to every reader: a scheme in small letters, no control characters, and no
    ``.`` or ``..`` component, not even behind backslashes or one or several percent-encodings."""
    if not _ADDRESS.fullmatch(address):
        return False
    if "/." not in address and "%" not in address and "\\" not in address:  # most: nothing to decode or to cut
        return True
    rest = address.partition("://")[2]
    for _ in range(_DECODINGS):
        if not _DOTS.isdisjoint(_SLASHES.split(rest)) or "\0" in rest:
            return False
        decoded = unquote(rest, errors="surrogateescape")
        if decoded == rest:
            return True
        rest = decoded
    return False  # so many encodings are suspicious
