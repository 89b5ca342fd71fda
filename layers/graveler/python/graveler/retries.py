"""How often a request is repeated, and after how long."""

from collections.abc import Iterator
from random import uniform

from msgspec import Struct


class Retries(Struct, frozen=True):
    """Limits of repetition. A request is sent ``attempts`` times at most. The pause before each repetition is a random time up to
    ``first`` seconds, then twice as much each time, at most ``longest`` (full jitter: of many who were refused together, few
    come back together)."""

    attempts: int = 10
    first: float = 0.05
    longest: float = 2.0

    def pause(self, attempt: int) -> float:
        """Seconds before the repetition of attempt ``attempt`` (from 0)."""
        return uniform(0, min(self.longest, self.first * 2**attempt))

    def pauses(self) -> Iterator[float]:
        """Seconds before each repetition."""
        return map(self.pause, range(self.attempts - 1))
