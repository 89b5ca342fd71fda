"""Lines in which the processes of one machine stand, kept by the kernel: who dies leaves at once, and nobody waits for a disk.

A file holds 1,024 lines, and a line's name says which it uses; two names that share one wait for each other now and then. Who
comes takes the next number, and locks the byte of that number with a lock of the open file (``F_OFD_SETLK``). Its turn has come
when nobody holds a byte of a smaller number. Two counters are all that the file contains: the next number, and below which number
nobody is waited for any more, since one there stayed too long. They are hints, as the whole line is: whatever they say after a
crash of the machine, somebody goes out of turn once.

A kernel without such locks (macOS) has no lines here: :data:`AVAILABLE`.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct, calcsize
from typing import Final

from graveler import pauses
from graveler.storage.modes import Modes

AVAILABLE: Final = hasattr(fcntl, "F_OFD_SETLK") and calcsize("P") == 8
"""Whether this system has locks of open files, in the shape that is written here."""

_LINES: Final = 1024
_COUNTERS: Final = Struct("<QQ")
"""The next number; those below the other one are not waited for."""
_NUMBERS: Final = 1 << 40
"""Of each line: its bytes lie behind those of all lines before it. None of them is ever written."""
_LOCK: Final = Struct("@hhqqi0q")
"""``struct flock`` of 64-bit Linux: type, whence, start, length, process (0)."""
_TRIES: Final = 50
"""Milliseconds for which the counters are waited for, which others hold for microseconds unless they are stopped."""


class Lines:
    """The lines in a file, which is made when somebody first stands in one. Safe to share between threads and processes."""

    def __init__(self, path: Path, modes: Modes) -> None:
        self._path = path
        self._modes = modes

    def enter(self, name: str) -> "Place | None":
        """Stand at the end of a line; None where that cannot be done: a file that may not be written, or a process that was
        stopped in the middle. Takes some ten microseconds."""
        try:
            descriptor = self._modes.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return None  # who goes out of turn costs others time alone
        number = int.from_bytes(sha256(name.encode()).digest()[:2], "big") % _LINES
        try:
            place = Place._take(descriptor, number)
        except OSError:
            place = None
        except BaseException:
            os.close(descriptor)
            raise
        if place is None:
            os.close(descriptor)
        return place


class Place:
    """A place in a line. For one thread."""

    def __init__(self, descriptor: int, line: int, number: int) -> None:
        self._descriptor = descriptor
        self._counters = line * _COUNTERS.size
        self._first = (line + 1) * _NUMBERS
        self.number = number

    @classmethod
    def _take(cls, descriptor: int, line: int) -> "Place | None":
        place = cls(descriptor, line, 0)

        def take(upcoming: int, passed: int) -> tuple[int, int]:
            place.number = upcoming if upcoming < _NUMBERS - 1 else 0
            place._lock(fcntl.F_WRLCK, place._first + place.number)
            return place.number + 1, passed if passed <= place.number else 0

        return place if place._count(take) else None

    def ahead(self) -> int | None:
        """The number of one that is waited for, the one that has been in line for longest; None: it is this one's turn, or the
        system does not tell."""
        try:
            _, passed = self._read()
            if passed >= self.number:
                return None
            asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, self._first + passed, self.number - passed, 0)
            kind, _, start, _, _ = _LOCK.unpack(fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, asked))
        except OSError:
            return None
        return None if kind == fcntl.F_UNLCK else max(start - self._first, passed)

    def pass_over(self, number: int) -> bool:
        """From now on nobody waits for this number, nor for those before it. False if that cannot be written."""
        try:
            return self._count(lambda upcoming, passed: (upcoming, max(passed, number + 1)))
        except OSError:
            return False

    def is_passed_over(self) -> bool:
        """Whether others wait for this one no more; False if the system does not tell."""
        try:
            return self._read()[1] > self.number
        except OSError:
            return False

    def leave(self) -> None:
        """Leave the line. A process that was forked meanwhile does not hold the place either."""
        try:
            with suppress(OSError):
                self._lock(fcntl.F_UNLCK, self._first + self.number)
        finally:
            os.close(self._descriptor)

    def _read(self) -> tuple[int, int]:
        found = os.pread(self._descriptor, _COUNTERS.size, self._counters)
        upcoming, passed = _COUNTERS.unpack(found.ljust(_COUNTERS.size, b"\0"))
        return upcoming, passed

    def _count(self, change: Callable[[int, int], tuple[int, int]]) -> bool:
        """Change the counters, alone. False if they are not to be had."""
        for _ in range(_TRIES):
            try:
                self._lock(fcntl.F_WRLCK, self._counters)
            except BlockingIOError:
                pauses.sleep(0.001)
                continue
            try:
                os.pwrite(self._descriptor, _COUNTERS.pack(*change(*self._read())), self._counters)
            finally:
                self._lock(fcntl.F_UNLCK, self._counters)
            return True
        return False

    def _lock(self, kind: int, at: int) -> None:
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, at, 1, 0))
