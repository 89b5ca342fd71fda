"""Checksums that are no digest but a time: of files that an import took over by size and time, without reading them.

``mtime:<nanoseconds since 1970>`` is the time of the last modification. With the size and the address, which are parts of an
identity too, it stands for the bytes. No digest has this form, neither in hex nor in base 64, so nobody takes one for the other.

The inode is no part of it. It would tell a file that was replaced by one of the same size and time; but it is another one on each
mount of some network file systems, and after each restoring of a backup, when nothing has changed.
"""

from typing import Final

MARK: Final = "mtime:"


def time_checksum(nanoseconds: int) -> str:
    """What stands in the place of a checksum for a file that was modified last at this time."""
    return f"{MARK}{nanoseconds}"


def noted_time(checksum: str) -> int | None:
    """The time, in nanoseconds since 1970, that a checksum is; None for one that is something else."""
    if not checksum.startswith(MARK):
        return None
    digits = checksum[len(MARK) :]
    return int(digits) if digits.isascii() and digits.removeprefix("-").isdecimal() and len(digits) <= 20 else None
