"""How often one address may be wrong about one key.

After :data:`MOST` failures within :data:`WINDOW` seconds no more tries are looked at until the window ends, not even right ones.
It counts in one process: several workers allow as many times more. That is enough, since a secret cannot be guessed anyway; the
limit keeps a mistaken script from being expensive, and makes an attack visible. Memory is bounded: the oldest window makes room.
"""

import math
from collections.abc import Callable
from typing import Final

from graveler.access.errors import TooManyFailuresError
from graveler.forks import new_lock

MOST: Final = 10
WINDOW: Final = 60.0
MAX_WINDOWS: Final = 10_000


class Failures:
    """Counts failures by (address, key ID). Safe to share between threads."""

    def __init__(
        self, clock: Callable[[], float], most: int = MOST, window: float = WINDOW, windows: int = MAX_WINDOWS
    ) -> None:
        self._clock, self._most, self._window, self._windows = clock, most, window, windows
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}
        """To the beginning of the window and the failures in it; in the order in which windows began."""
        self._lock = new_lock()

    def check(self, source: str, key_id: str) -> None:
        """:class:`TooManyFailuresError` if this address was wrong about this key too often."""
        now = self._clock()
        began, count = self._counts.get((source, key_id), (now, 0))
        if count >= self._most and self._open(began, now):
            raise TooManyFailuresError(max(1, math.ceil(began + self._window - now)))

    def note(self, source: str, key_id: str) -> None:
        """Count a failure."""
        now, who = self._clock(), (source, key_id)
        with self._lock:
            began, count = self._counts.get(who, (now, 0))
            if count and self._open(began, now):
                self._counts[who] = (began, count + 1)
                return
            self._counts.pop(who, None)
            while len(self._counts) >= self._windows:
                del self._counts[next(iter(self._counts))]
            self._counts[who] = (now, 1)

    def _open(self, began: float, now: float) -> bool:
        return began <= now < began + self._window
