"""The rate of file removal by all threads together: reduced when the store asks for it, then gradually increased.

Additive increase, multiplicative decrease, as of TCP (Chiu and Jain 1989): several collectors on one bucket find their shares.
"""

from threading import Lock
from typing import Final

from graveler.lake.clock import Clock

RATE: Final = 2_000.0
"""Initial and maximum number of files per second. S3 accepts 3,500 writes and deletes per second under one prefix, including
those of others; each deletion of a bulk request counts."""

_LEAST: Final = 1.0
_LONGEST: Final = 60.0
_GAIN: Final = 0.02
"""Fraction of the highest rate that a success adds per file and second."""


class Pace:
    """The schedule of the threads' requests. ``most`` files per second."""

    def __init__(self, clock: Clock, most: float = RATE) -> None:
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._next = 0.0
        self.rate = most

    def wait(self, files: int = 1) -> None:
        """Wait for the turn to remove ``files`` files."""
        with self._lock:
            now = self._clock.now()
            start = min(max(self._next, now), now + _LONGEST)  # a clock that was set back must not block
            self._next = start + files / self.rate
        if start > now:
            self._clock.sleep(start - now)

    def answered(self, files: int = 1) -> None:
        """Record that ``files`` files were removed."""
        if self.rate < self._most:
            with self._lock:
                self.rate = min(self._most, self.rate + files * _GAIN * self._most / self.rate)

    def slow_down(self) -> None:
        """Halve the rate: the store asked to slow down."""
        with self._lock:
            self.rate = max(_LEAST, self.rate / 2)
