"""The clock of a file system: the times that it gives changes.

A file system's clock has steps, of milliseconds on most. Two changes in one step have one time, so a state of a file whose time
is the present cannot be told from that after one more change. Whoever waits until the clock has moved on can.
"""

import os
import time
from mmap import mmap
from typing import Final

from graveler.errors import UnavailableError

_PATIENCE: Final = 5.0
"""Seconds; the longest known step is two."""
_PAUSE: Final = 0.001


class FileClock:
    """The clock of a folder's file system. Asking it changes the folder's own times."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def now(self) -> int:
        """Return the time of a change that is made now, in nanoseconds. ``OSError``."""
        os.utime(self._folder)
        return os.stat(self._folder).st_ctime_ns  # noqa: PTH116

    def wait(self, moment: int) -> None:
        """Wait until each new change has a later time than ``moment``; a step of the clock at most, unless ``moment`` is in the
        future. ``OSError``; :class:`UnavailableError` for a clock that stands still."""
        deadline = time.monotonic() + _PATIENCE
        while self.now() <= moment:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the clock of the file system of {self._folder!r} stands still, or was set back, so changes of its files "
                    "could be overlooked; use a folder on another file system"
                )
            time.sleep(_PAUSE)


def notes_mapped_writes(folder: str) -> bool:
    """Return whether a write through mapped memory changes the times of a file in this empty folder, which is tried. Linux's
    tmpfs leaves them as they are if the page was read before. Cost: a step of the clock. Errors of :meth:`FileClock.wait`."""
    path = f"{folder}/probe"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"0")
        before = os.fstat(descriptor).st_ctime_ns
        FileClock(folder).wait(before)
        try:
            with mmap(descriptor, 1) as memory:
                memory[0] += 1
                memory.flush()
        except OSError:
            return True  # no program can map files here
        return os.fstat(descriptor).st_ctime_ns != before
    finally:
        os.close(descriptor)
        os.unlink(path)  # noqa: PTH108
