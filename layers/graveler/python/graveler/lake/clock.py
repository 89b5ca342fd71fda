"""Time, handed in: no room below the faces looks at the wall clock by itself."""

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event
from typing import Final, Protocol

from graveler import pauses
from graveler.lake.repeating import repeating

GRACE: Final = 86_400.0
"""Seconds for which garbage collection leaves young files alone."""

_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, by a clock that nobody sets and that goes on while the machine sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait until the event is set, for at most so many seconds; whether it is set."""
        ...

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        """While the body works, call ``work``, which must not fail, every so many seconds, or a little later, in another thread.
        At the end of the block no call is under way."""
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
        return repeating(seconds, work)


class Backoff:
    """Waits between tries: doubling from ``first`` to ``longest`` seconds, each with full jitter, ``patience`` seconds in all.

    Only the waiting counts, not the work between: a long build that loses a race once has all its patience left (promise C6).
    """

    def __init__(self, clock: Clock, *, first: float = 0.005, longest: float = 0.5, patience: float = 30.0) -> None:
        self._clock = clock
        self._pause = first
        self._longest = longest
        self._left = patience

    def wait(self) -> bool:
        """Wait for the next try; False, at once, when the patience is used up."""
        if self._left <= 0:
            return False
        pause = random.uniform(0, self._pause)
        self._clock.sleep(pause)
        self._left -= pause
        self._pause = min(self._pause * 2, self._longest)
        return True


class Polls:
    """Waits between looks at what others do, evenly: who waits for long must not look ever more rarely, or those that come later
    overtake it. ``patience`` seconds in all.

    The first looks are ``step`` seconds apart, or as many times that as others are before; where nothing changes, up to 100 ms:
    every ``even`` looks it is a step more.
    """

    def __init__(self, clock: Clock, *, step: float = 0.005, even: int = 4, patience: float = 30.0) -> None:
        self._clock = clock
        self._step = step
        self._even = even
        self._looks = 0
        self._left = patience

    def progress(self) -> None:
        """Something has changed: the next look is soon."""
        self._looks = 0

    def wait(self, place: int = 1) -> bool:
        """Wait for the next look, when ``place`` have to go, this one included; False, at once, when the patience is used up."""
        if self._left <= 0:
            return False
        pause = random.uniform(0.5, 1.5) * min(self._step * (place + self._looks // self._even), 0.1)
        self._clock.sleep(pause)
        self._left -= pause
        self._looks += 1
        return True
