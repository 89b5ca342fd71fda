"""Locks of open files (``F_OFD_SETLK``): they belong to one opening of a file, and not to the process.

The older locks of POSIX belong to the process. Closing *any* descriptor of a file drops all of the process's locks on it, and a
forked child has none of its parent's. A lock of an open file stays until its own descriptor is closed, and a fork shares it. Both
kinds exclude each other, even within a process (`fcntl_locking(2)
<https://man7.org/linux/man-pages/man2/fcntl_locking.2.html>`_).
"""

import fcntl
import os
from struct import Struct, calcsize
from typing import Final

AVAILABLE: Final = hasattr(fcntl, "F_OFD_SETLK") and calcsize("P") == 8
"""True if this system has locks of open files, in the layout that is written here. macOS has none."""

_FLOCK: Final = Struct("@hhqqi0q")
"""``struct flock`` of 64-bit Linux: type, whence, start, length, process (0)."""


class ByteRange:
    """A range of bytes of a file that can be locked; the file need not have these bytes. The system calls take about a
    microsecond each."""

    __slots__ = ("_exclusive", "_none", "_shared", "start")

    def __init__(self, start: int, length: int = 1) -> None:
        self.start = start
        self._exclusive, self._shared, self._none = (
            _FLOCK.pack(kind, os.SEEK_SET, start, length, 0) for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK)
        )

    def lock(self, descriptor: int) -> None:
        """Lock the range for this open file alone. ``BlockingIOError`` if it is locked, ``OSError`` if the file system has no
        locks."""
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, self._exclusive)

    def share(self, descriptor: int) -> None:
        """Lock the range together with others that share it. Errors as for :meth:`lock`."""
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, self._shared)

    def share_as_process(self, descriptor: int) -> None:
        """Share the range by a lock of the process, as SQLite does. Errors as for :meth:`lock`."""
        fcntl.fcntl(descriptor, fcntl.F_SETLK, self._shared)

    def unlock(self, descriptor: int) -> None:
        """Release the lock; nothing happens if there is none. ``OSError``."""
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, self._none)

    def blocker(self, descriptor: int) -> int | None:
        """Return the first byte of a lock that stands in the way of :meth:`lock`, or None. ``OSError``."""
        kind, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, self._exclusive))
        return None if kind == fcntl.F_UNLCK else int(start)
