"""Patterns of paths, as a shell has them for files: ``*``, ``?`` and ``[abc]`` within a part of a path, ``**`` for any parts."""

import re
from fnmatch import fnmatchcase
from typing import Final

_SPECIAL: Final = re.compile(r"[*?[]")


def is_pattern(path: str) -> bool:
    """Return whether a path has characters of a pattern. It may be an object's path all the same."""
    return _SPECIAL.search(path) is not None


def beginning(pattern: str) -> str:
    """Return the part of a pattern that every matching path starts with."""
    special = _SPECIAL.search(pattern)
    return pattern if special is None else pattern[: special.start()]


def matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern."""
    parts = pattern.split("/")
    ends = _behind_any(parts, {0})
    for name in path.split("/"):
        following = set()
        for index in ends:
            if index == len(parts):
                continue
            if parts[index] == "**":
                following.add(index)
            elif fnmatchcase(name, parts[index]):
                following.add(index + 1)
        ends = _behind_any(parts, following)
    return len(parts) in ends


def _behind_any(parts: list[str], ends: set[int]) -> set[int]:
    """Return the positions in a pattern that are reached from these without a further part of a path: behind ``**``."""
    reached = set(ends)
    for index in range(len(parts)):
        if index in reached and parts[index] == "**":
            reached.add(index + 1)
    return reached
