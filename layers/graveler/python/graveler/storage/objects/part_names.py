"""The names of the parts of unfinished uploads to a folder: number and MD5, so that listing them reads no bytes."""

import re
from typing import Final

_PART: Final = re.compile(r"([0-9]{1,5})-([0-9a-f]{32})", re.ASCII)


def part_name(number: int, md5: str) -> str:
    """Return the name of a part's file."""
    return f"{number}-{md5}"


def part_named(name: str) -> tuple[int, str] | None:
    """Return number and MD5 of the part with this name; None for another file."""
    match = _PART.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])
