"""How fast requests are made: all threads together, slower when the store asks for that, then little by little faster again.

Additive increase, multiplicative decrease, as of TCP (Chiu and Jain 1989): several collectors on one bucket find their shares.
"""

from threading import Lock
from typing import Final

from graveler.lake.clock import Clock

RATE: Final = 2_000.0
"""Requests a second to begin with, and at most. S3 takes 3,500 deletes and writes a second under one prefix, also of others."""

_LEAST: Final = 1.0
_GAIN: Final = 0.02
"""Of the highest rate, that a request which was answered adds for each that goes through in a second."""


class Pace:
    """Tells threads when to make their next request. ``most`` requests a second."""

    def __init__(self, clock: Clock, most: float = RATE) -> None:
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._next = 0.0
        self.rate = most

    def wait(self) -> None:
        """Wait for one's turn."""
        with self._lock:
            now = self._clock.now()
            at = min(max(self._next, now), now + 1 / _LEAST)  # a clock that was set back stops nobody
            self._next = at + 1 / self.rate
        if at > now:
            self._clock.sleep(at - now)

    def answered(self) -> None:
        """A request was answered."""
        if self.rate < self._most:
            with self._lock:
                self.rate = min(self._most, self.rate + _GAIN * self._most / self.rate)

    def slow_down(self) -> None:
        """The store asked for that."""
        with self._lock:
            self.rate = max(_LEAST, self.rate / 2)
