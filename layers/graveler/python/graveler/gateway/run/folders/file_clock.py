"""The clock of a file system: the times that it gives changes.

A file system's clock has steps, of milliseconds on most. Two changes in one step have one time, so a state of a file whose time
is the present cannot be told from that after one more change. Whoever waits until the clock has moved on can.
"""

import os
import time
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
    """Return whether a write through a mapping of memory changes the times of a file in this folder. Linux's tmpfs lets them as
    they are."""
    device = os.stat(folder).st_dev  # noqa: PTH116
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:  # noqa: PTH123
            kinds = {fields[fields.index("-") + 1] for fields in map(str.split, mounts) if fields[2] == number}
    except FileNotFoundError:
        return True  # not Linux
    return kinds.isdisjoint(("tmpfs", "ramfs"))
