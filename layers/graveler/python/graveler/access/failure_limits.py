"""Limits on one address's failures with one key.

After :data:`MOST` failures within :data:`WINDOW` seconds the table is not read until the window ends: the digest of the key's
secret, as the last failure found it, is kept that long, and distinguishes a right try, which succeeds as ever, from a wrong one.
So failures cannot lock out the holder of a key. It counts in one process: several workers allow as many times more. That is
enough, since a secret cannot be guessed anyway; the limit keeps a mistaken script from being expensive, and makes an attack
visible. Memory is bounded: the oldest window makes room.
"""

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from graveler.access.keys import Proof
from graveler.access.refusals import TooManyFailuresError
from graveler.system.forks import new_lock

MOST: Final = 10
WINDOW: Final = 60.0
MAX_WINDOWS: Final = 10_000


class _Window(Struct, frozen=True):
    began: float
    failures: int
    proof: Proof | None = None


class Failures:
    """Counts failures by (address, key ID). Safe to share between threads."""

    def __init__(
        self, clock: Callable[[], float], most: int = MOST, window: float = WINDOW, windows: int = MAX_WINDOWS
    ) -> None:
        self._clock, self._most, self._window, self._windows = clock, most, window, windows
        self._windows_of: dict[tuple[str, str], _Window] = {}
        """In the order in which they began."""
        self._lock = new_lock()

    def check(self, source: str, key_id: str, secret: str | None = None) -> None:
        """Raise :class:`TooManyFailuresError` if this address failed with this key too often, unless ``secret`` is the one that
        the key had then."""
        now = self._clock()
        window = self._windows_of.get((source, key_id))
        if window is None or window.failures < self._most or not self._is_open(window, now):
            return
        if secret is None or window.proof is None or not window.proof.is_of(secret):
            raise TooManyFailuresError(max(1, math.ceil(window.began + self._window - now)))

    def note(self, source: str, key_id: str, proof: Proof | None = None) -> None:
        """Count a failure; ``proof`` is what the secret was compared with."""
        now, who = self._clock(), (source, key_id)
        with self._lock:
            window = self._windows_of.get(who)
            if window is not None and self._is_open(window, now):
                self._windows_of[who] = _Window(window.began, window.failures + 1, proof)
                return
            self._windows_of.pop(who, None)
            while len(self._windows_of) >= self._windows:
                del self._windows_of[next(iter(self._windows_of))]
            self._windows_of[who] = _Window(now, 1, proof)

    def _is_open(self, window: _Window, now: float) -> bool:
        return window.began <= now < window.began + self._window
