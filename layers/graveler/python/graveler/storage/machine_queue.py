"""Queues of the processes and threads of one machine, kept by the kernel: one that dies leaves at once, and no step waits for a
disk.

A file holds 1,024 queues, and a name determines which one it uses; two names that share one occasionally wait for each other. A
newcomer takes the next number, and locks the byte of that number (:mod:`graveler.storage.file_locks`). Its turn comes when no
byte of a smaller number is locked. Each newcomer opens the file anew, so threads of one process queue like processes. The file
contains only two counters: the next number, and the number below which none is waited for any more, since one there stayed too
long. They are hints, as the whole queue is: whatever they hold after a crash of the machine, at worst one process goes out of
turn once.

A kernel without such locks has no queues here (:data:`graveler.storage.file_locks.AVAILABLE`).
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

_QUEUES: Final = 1024
_COUNTERS: Final = Struct("<QQ")
"""The next number; those below the other one are not waited for."""
_NUMBERS: Final = 1 << 40
"""Number of lockable bytes per queue, which lie behind those of all queues before it. None of them is ever written."""
_TRIES: Final = 50
"""Milliseconds to wait for the counters, which others hold for microseconds unless they are stopped."""


class MachineQueue:
    """The queues in a file, which is made on first use. Safe to share between threads and processes."""

    def __init__(self, path: Path, modes: Modes) -> None:
        self._path = path
        self._modes = modes

    def enter(self, name: str) -> "QueueSlot | None":
        """Join the end of a queue; None if that is impossible: a file that cannot be written, or a process that was stopped in
        the middle. Takes some ten microseconds."""
        try:
            descriptor = self._modes.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return None  # going out of turn only costs others time
        slot = QueueSlot(descriptor, int.from_bytes(sha256(name.encode()).digest()[:2], "big") % _QUEUES)
        entered = False
        try:
            entered = slot._count(slot._take)
        except OSError:
            return None
        finally:
            if not entered:
                os.close(descriptor)
        return slot if entered else None


class QueueSlot:
    """A slot in a queue. For one thread."""

    def __init__(self, descriptor: int, queue: int) -> None:
        self._descriptor = descriptor
        self._counters = queue * _COUNTERS.size
        self._counters_lock = ByteRange(self._counters)
        self._start = (queue + 1) * _NUMBERS
        self.number = 0

    def predecessor(self) -> int | None:
        """Return the number that this slot waits for, the one that has been in the queue for longest; None: it is this one's
        turn, or the system does not tell."""
        try:
            _, passed = self._read()
            if passed >= self.number:
                return None
            blocker = ByteRange(self._start + passed, self.number - passed).blocker(self._descriptor)
        except OSError:
            return None
        return None if blocker is None else max(blocker - self._start, passed)

    def pass_over(self, number: int) -> bool:
        """Stop all waiting for this number, and for those before it. Returns False if that cannot be written."""
        try:
            return self._count(lambda upcoming, passed: (upcoming, max(passed, number + 1)))
        except OSError:
            return False

    def leave(self) -> None:
        """Leave the queue. A process that was forked meanwhile does not hold the slot either."""
        try:
            with suppress(OSError):
                ByteRange(self._start + self.number).unlock(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _take(self, upcoming: int, passed: int) -> tuple[int, int]:
        """Take the next number."""
        self.number = upcoming if upcoming < _NUMBERS - 1 else 0
        ByteRange(self._start + self.number).lock(self._descriptor)
        return self.number + 1, passed if passed <= self.number else 0

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
