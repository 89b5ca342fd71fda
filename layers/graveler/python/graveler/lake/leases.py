"""Leases that trust no foreign clock: whether an owner is still at work, judged by this process's own monotonic clock.

An owner renews its lease by writing a new *beat*, any value that it has not written before. A lease is believed as long as its
beat changes: one whose beat stays the same for the lease's length, by the monotonic clock of whoever looks, has run out. No
wall clock takes part, so an owner whose clock is a day ahead holds a lease no longer than any other. A process that sees a lease
for the first time watches it for its whole length before it takes over.

A lease only keeps two processes from doing the same work: no promise but C5 rests on it (docs/concurrency.md).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from graveler.forks import new_lock
from graveler.lake.clock import Backoff, Clock

_LOOK: Final = 5.0
"""Seconds between two looks at a lease that is waited for, at most."""

T = TypeVar("T")

_REMEMBERED: Final = 10_000
"""Leases that one process remembers. Beyond them it forgets those seen least lately, and watches them anew."""


class LeaseWatch:
    """The leases that this process has seen. Safe to share between threads; one for each process and lake is best, so that what
    one verb has watched another one need not watch again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = new_lock()
        self._seen: dict[str, tuple[str, float]] = {}

    def is_held(self, lease: str, beat: str, seconds: float) -> bool:
        """Whether the owner may still be at work, as far as this process knows. Call it with what was read just now.

        ``lease`` names the lease, uniquely in the lake; ``beat`` is what its owner wrote last; ``seconds`` is its length.
        No request.
        """
        return self.remaining(lease, beat, seconds) > 0

    def remaining(self, lease: str, beat: str, seconds: float) -> float:
        """For how many seconds more the lease is believed if its beat does not change; 0 or less if it has run out."""
        now = self._clock.monotonic()
        with self._lock:
            seen = self._seen.pop(lease, None)
            if seen is None or seen[0] != beat:
                seen = (beat, now)
            self._seen[lease] = seen
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return seen[1] + seconds - now

    def forget(self, lease: str) -> None:
        """The lease is over: nobody will ask for it again."""
        with self._lock:
            self._seen.pop(lease, None)


class HeldError(Exception):
    """The owner of a lease is at work: it gave a sign of life while it was watched. No caller of a verb sees it."""


def wait_for(
    watch: LeaseWatch,
    clock: Clock,
    lease: str,
    seconds: float,
    look: Callable[[], tuple[str, T] | None],
    told: Callable[[], None] = lambda: None,
) -> T | None:
    """Wait until nobody holds a lease of this length, for one whose owner works for long: :class:`HeldError` as soon as the owner
    gives a sign of life. ``look`` reads the beat, and what the caller wants to know, or None if nobody has the lease; what was
    read last is the result. ``told`` is called before each pause, and may raise.

    Takes no time if the lease is free, and the lease's length by this process's clock if its owner has died. One ``look`` every
    few seconds.
    """
    backoff = Backoff(clock, longest=_LOOK, patience=2 * seconds)
    first: str | None = None
    while (found := look()) is not None:
        beat, read = found
        if first is not None and beat != first:
            raise HeldError
        first = beat
        if not watch.is_held(lease, beat, seconds):
            return read
        told()
        if not backoff.wait():
            raise HeldError
    return None
