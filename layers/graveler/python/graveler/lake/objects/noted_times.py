"""Checksums that are a time instead of a digest: of files that an import recorded by size and time, without reading them.

``mtime:<nanoseconds since 1970>`` is the time of the last modification. With the size and the address, which are parts of an
identity too, it stands for the bytes. No digest has this form, neither in hex nor in base 64, so they cannot be confused.

The inode is not part of it. It would distinguish a file that was replaced by one of the same size and time; but it differs on
each mount of some network file systems, and after each restore of a backup, when nothing has changed.
"""

from typing import Final

MARK: Final = "mtime:"


def time_checksum(nanoseconds: int) -> str:
    """Return the substitute for a checksum of a file that was last modified at this time."""
    return f"{MARK}{nanoseconds}"


def noted_time(checksum: str) -> int | None:
    """Return the time, in nanoseconds since 1970, that a checksum is; None for any other checksum."""
    if not checksum.startswith(MARK):
        return None
    digits = checksum[len(MARK) :]
    return int(digits) if digits.isascii() and digits.removeprefix("-").isdecimal() and len(digits) <= 20 else None
