"""The number of retries of a request, and the pauses between them."""

from collections.abc import Iterator
from random import uniform
from typing import Final

from msgspec import Struct

_DOUBLINGS: Final = 60
"""Doublings after which a pause is the longest anyhow."""


class Retries(Struct, frozen=True):
    """Limits on retries. A request is sent ``attempts`` times at most. The pause before each retry is a random time up to
    ``shortest`` seconds, then twice as much each time, at most ``longest`` (full jitter: of many requests that were refused
    together, few come back together)."""

    attempts: int = 10
    shortest: float = 0.05
    longest: float = 2.0

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait before the retry after attempt ``attempt`` (from 0)."""
        return uniform(0, min(self.longest, self.shortest * 2.0 ** min(attempt, _DOUBLINGS)))

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each retry."""
        return map(self.pause, range(self.attempts - 1))
