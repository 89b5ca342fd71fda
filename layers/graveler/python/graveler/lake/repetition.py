"""Work that repeats at intervals while something else goes on, all of it in one thread of the process.

Starting and joining a thread for each piece of work would take longer, on a busy machine, than most commits.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep
from typing import Final

from graveler.system.forks import new_lock

_STEP: Final = 0.5
"""Seconds between two checks for due work: the work is late by that much, at most."""
_IDLE: Final = 10.0
"""Seconds for which the thread stays alive with nothing to repeat."""


class _Repeated:
    """A piece of work that is called every ``seconds`` until it is over."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.seconds = seconds
        self.work = work
        self.next = monotonic() + seconds
        self.lock = new_lock()
        self.over = False

    def call(self) -> None:
        with self.lock:  # ending the work waits for a call in progress
            if not self.over:
                self.work()
                self.next = monotonic() + self.seconds


class _Repeater:
    """The thread, and the work that it repeats."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._all: set[_Repeated] = set()
        self._runs = False

    def add(self, work: _Repeated) -> None:
        with self._lock:
            self._all.add(work)
            if self._runs:
                return
            self._runs = True
        Thread(target=self._run, daemon=True, name="graveler-repeat").start()

    def remove(self, work: _Repeated) -> None:
        with self._lock:
            self._all.discard(work)

    def _run(self) -> None:
        busy = monotonic()
        try:
            while True:
                with self._lock:
                    now = monotonic()
                    due = [work for work in self._all if work.next <= now]
                    if self._all:
                        busy = now
                    elif now - busy > _IDLE:
                        self._runs = False
                        return
                for work in due:
                    work.call()
                sleep(_STEP)
        except BaseException:
            self._runs = False  # the next ``add`` starts another thread
            raise


_repeaters: dict[int, _Repeater] = {}
"""Repeaters by process ID: a forked child has none of its parent's threads."""


@contextmanager
def repeating(seconds: float, work: Callable[[], None]) -> Iterator[None]:
    """Call ``work``, which must not fail, every so many seconds while the body works. At the end no call is in progress."""
    repeated = _Repeated(seconds, work)
    repeater = _repeaters.get(os.getpid()) or _repeaters.setdefault(os.getpid(), _Repeater())
    repeater.add(repeated)
    try:
        yield
    finally:
        repeater.remove(repeated)
        with repeated.lock:
            repeated.over = True
