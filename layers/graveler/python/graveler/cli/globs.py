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
    found = _SPECIAL.search(pattern)
    return pattern if found is None else pattern[: found.start()]


def matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern."""
    parts = pattern.split("/")
    ends = _behind_any(parts, {0})
    for name in path.split("/"):
        following = set()
        for at in ends:
            if at == len(parts):
                continue
            if parts[at] == "**":
                following.add(at)
            elif fnmatchcase(name, parts[at]):
                following.add(at + 1)
        ends = _behind_any(parts, following)
    return len(parts) in ends


def _behind_any(parts: list[str], ends: set[int]) -> set[int]:
    """Return the positions in a pattern that are reached from these without a further part of a path: behind ``**``."""
    reached = set(ends)
    for at in range(len(parts)):
        if at in reached and parts[at] == "**":
            reached.add(at + 1)
    return reached
