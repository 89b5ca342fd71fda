"""Queues for the processes of one machine, kept by the kernel: a process that dies leaves at once, and no step waits for a disk.

A file holds 1,024 lines, and a line's name determines which it uses; two names that share one occasionally wait for each other. A
newcomer takes the next number, and locks the byte of that number (:mod:`graveler.storage.file_locks`). Its turn comes
when no byte of a smaller number is locked. The file contains only two counters: the next number, and the number below which none
is waited for any more, since one there stayed too long. They are hints, as the whole line is: whatever they hold after a crash of
the machine, at worst one process goes out of turn once.

A kernel without such locks has no lines here (:data:`graveler.storage.file_locks.AVAILABLE`).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Final

from graveler.storage.file_locks import ByteRange
from graveler.storage.file_modes import Modes
from graveler.system import pauses

_LINES: Final = 1024
_COUNTERS: Final = Struct("<QQ")
"""The next number; those below the other one are not waited for."""
_NUMBERS: Final = 1 << 40
"""Number of lockable bytes per line, which lie behind those of all lines before it. None of them is ever written."""
_TRIES: Final = 50
"""Milliseconds to wait for the counters, which others hold for microseconds unless they are stopped."""


class Lines:
    """The lines in a file, which is made on first use. Safe to share between threads and processes."""

    def __init__(self, path: Path, modes: Modes) -> None:
        self._path = path
        self._modes = modes

    def enter(self, name: str) -> "Place | None":
        """Join the end of a line; None if that is impossible: a file that cannot be written, or a process that was stopped in the
        middle. Takes some ten microseconds."""
        try:
            descriptor = self._modes.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return None  # going out of turn only costs others time
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
        self._counters_lock = ByteRange(self._counters)
        self._first = (line + 1) * _NUMBERS
        self.number = number

    @classmethod
    def _take(cls, descriptor: int, line: int) -> "Place | None":
        place = cls(descriptor, line, 0)

        def take(upcoming: int, passed: int) -> tuple[int, int]:
            place.number = upcoming if upcoming < _NUMBERS - 1 else 0
            place._byte().lock(descriptor)
            return place.number + 1, passed if passed <= place.number else 0

        return place if place._count(take) else None

    def ahead(self) -> int | None:
        """Return the number that this place waits for, the one that has been in line for longest; None: it is this one's turn, or
        the system does not tell."""
        try:
            _, passed = self._read()
            if passed >= self.number:
                return None
            start = ByteRange(self._first + passed, self.number - passed).blocker(self._descriptor)
        except OSError:
            return None
        return None if start is None else max(start - self._first, passed)

    def pass_over(self, number: int) -> bool:
        """Stop all waiting for this number, and for those before it. Returns False if that cannot be written."""
        try:
            return self._count(lambda upcoming, passed: (upcoming, max(passed, number + 1)))
        except OSError:
            return False

    def is_passed_over(self) -> bool:
        """Return whether others have stopped waiting for this one; False if the system does not tell."""
        try:
            return self._read()[1] > self.number
        except OSError:
            return False

    def leave(self) -> None:
        """Leave the line. A process that was forked meanwhile does not hold the place either."""
        try:
            with suppress(OSError):
                self._byte().unlock(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _read(self) -> tuple[int, int]:
        counters = os.pread(self._descriptor, _COUNTERS.size, self._counters)
        upcoming, passed = _COUNTERS.unpack(counters.ljust(_COUNTERS.size, b"\0"))
        return upcoming, passed

    def _count(self, change: Callable[[int, int], tuple[int, int]]) -> bool:
        """Change the counters, alone. Returns False if they stay locked."""
        for _ in range(_TRIES):
            try:
                self._counters_lock.lock(self._descriptor)
            except BlockingIOError:
                pauses.sleep(0.001)
                continue
            try:
                os.pwrite(self._descriptor, _COUNTERS.pack(*change(*self._read())), self._counters)
            finally:
                self._counters_lock.unlock(self._descriptor)
            return True
        return False

    def _byte(self) -> ByteRange:
        return ByteRange(self._first + self.number)
