"""How fast files are removed: all threads together, slower when the store asks for that, then little by little faster again.

Additive increase, multiplicative decrease, as of TCP (Chiu and Jain 1989): several collectors on one bucket find their shares.
"""

from threading import Lock
from typing import Final

from graveler.lake.clock import Clock

RATE: Final = 2_000.0
"""Files a second to begin with, and at most. S3 takes 3,500 writes and deletes a second under one prefix, those of others too; of
a request that deletes many, each counts."""

_LEAST: Final = 1.0
_LONGEST: Final = 60.0
_GAIN: Final = 0.02
"""Of the highest rate, that an answer adds for each file that goes through in a second."""


class Pace:
    """Tells threads when to make their next request. ``most`` files a second."""

    def __init__(self, clock: Clock, most: float = RATE) -> None:
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._next = 0.0
        self.rate = most

    def wait(self, files: int = 1) -> None:
        """Wait for one's turn to remove some."""
        with self._lock:
            now = self._clock.now()
            at = min(max(self._next, now), now + _LONGEST)  # a clock that was set back stops nobody
            self._next = at + files / self.rate
        if at > now:
            self._clock.sleep(at - now)

    def answered(self, files: int = 1) -> None:
        """So many were removed."""
        if self.rate < self._most:
            with self._lock:
                self.rate = min(self._most, self.rate + files * _GAIN * self._most / self.rate)

    def slow_down(self) -> None:
        """The store asked for that."""
        with self._lock:
            self.rate = max(_LEAST, self.rate / 2)
