"""Clocks, passed in: no room below the faces reads the wall clock by itself."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event
from typing import Final, Protocol

from graveler.system import pauses
from graveler.system.retries import Retries

GRACE: Final = 86_400.0
"""The grace period in seconds: garbage collection leaves younger files alone."""
TABLE_GRACE: Final = 7 * 86_400.0
"""The same for files in the folders of tables, which a job may write for days before it commits them."""

_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A source of time that can also wait."""

    def now(self) -> float:
        """Return the Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment, by a clock that cannot be set and goes on while the machine sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        ...

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait until the event is set, for at most so many seconds; return whether it is set."""
        ...

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        """While the body works, call ``work``, which must not fail, every so many seconds, or a little later, in another thread.
        At the end of the block no call is in progress."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    def sleep(self, seconds: float) -> None:
        pauses.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        return event.wait(seconds)

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        from graveler.lake.repetition import repeating  # not on the path of a cold start

        return repeating(seconds, work)


class Backoff:
    """Waits between retries: doubling from ``first`` to ``longest`` seconds, each with full jitter, ``patience`` seconds in all.

    Only the waiting counts, not the work between: a long build that loses a race once has all its patience left (promise C6).
    """

    def __init__(self, clock: Clock, *, shortest: float = 0.005, longest: float = 0.5, patience: float = 30.0) -> None:
        self._clock = clock
        self._retries = Retries(shortest=shortest, longest=longest)
        self._waited = 0
        self._left = patience

    def wait(self) -> bool:
        """Wait for the next retry; return False, at once, when the patience is used up."""
        if self._left <= 0:
            return False
        pause = self._retries.pause(self._waited)
        self._clock.sleep(pause)
        self._left -= pause
        self._waited += 1
        return True


class Polls:
    """Evenly spaced waits between polls, ``patience`` seconds in all. They do not back off exponentially, so that later comers
    cannot overtake a process that has waited for long.

    The first polls are ``step`` seconds apart, times the number of processes ahead; as long as nothing changes, the pause grows
    by one step every ``even`` polls, up to 100 ms.
    """

    def __init__(self, clock: Clock, *, step: float = 0.005, even: int = 4, patience: float = 30.0) -> None:
        self._clock = clock
        self._step = step
        self._even = even
        self._looks = 0
        self._left = patience

    def progress(self) -> None:
        """Note that something has changed: the next poll comes soon."""
        self._looks = 0

    def wait(self, place: int = 1) -> bool:
        """Wait for the next poll, when ``place`` have to go, this one included; return False, at once, when the patience is used
        up."""
        if self._left <= 0:
            return False
        pause = random.uniform(0.5, 1.5) * min(self._step * (place + self._looks // self._even), 0.1)
        self._clock.sleep(pause)
        self._left -= pause
        self._looks += 1
        return True
