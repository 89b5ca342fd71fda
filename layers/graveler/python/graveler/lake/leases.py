"""Leases that trust no other process's clock: each process judges by its own monotonic clock whether an owner is alive.

An owner renews its lease by writing a new *beat*, any value that it has not written before. A lease is held as long as its
beat changes: it has expired once its beat stays the same for the lease's length, by the monotonic clock of the observer. No
wall clock takes part, so an owner whose clock is a day ahead holds a lease no longer than any other. A process that sees a lease
for the first time watches it for its whole length before it takes over.

A lease only keeps two processes from doing the same work: no promise but C5 rests on it (docs/concurrency.md).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from graveler.lake.clock import Backoff, Clock
from graveler.system.forks import new_lock

_LOOK: Final = 5.0
"""The maximum number of seconds between two looks at a lease while waiting for it."""

T = TypeVar("T")

_REMEMBERED: Final = 10_000
"""The number of leases that one process remembers. Beyond it, the process forgets the least recently seen, and watches them
anew."""


class LeaseWatch:
    """The leases that this process has seen. Safe to share between threads; one for each process and lake is best, so that a
    lease that one verb has watched need not be watched again by another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = new_lock()
        self._seen: dict[str, tuple[str, float, bool]] = {}
        """The last beat of each lease, when it was first seen, and whether there was another one before."""

    def is_held(self, lease: str, beat: str, seconds: float) -> bool:
        """Return whether the owner may still be alive, as far as this process knows. Call it with what was read just now.

        ``lease`` names the lease, uniquely in the lake; ``beat`` is what its owner wrote last; ``seconds`` is its length.
        No request.
        """
        return self.remaining(lease, beat, seconds) > 0

    def remaining(self, lease: str, beat: str, seconds: float) -> float:
        """Return for how many more seconds the lease is held if its beat does not change; 0 or less if it has expired."""
        now = self._clock.monotonic()
        with self._lock:
            observed = self._seen.pop(lease, None)
            if observed is None or observed[0] != beat:
                observed = (beat, now, observed is not None)
            self._seen[lease] = observed
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return observed[1] + seconds - now

    def is_renewed(self, lease: str) -> bool:
        """Return whether this process has seen the owner renew the lease: it was alive a moment ago, for certain."""
        with self._lock:
            observed = self._seen.get(lease)
        return observed is not None and observed[2]

    def forget(self, lease: str) -> None:
        """Forget a lease that is over and will not be looked at again."""
        with self._lock:
            self._seen.pop(lease, None)


class HeldError(Exception):
    """The owner of a lease is alive: it renewed the lease while it was watched. No caller of a verb sees this error."""


def wait_for(
    watch: LeaseWatch,
    clock: Clock,
    lease: str,
    seconds: float,
    look: Callable[[], tuple[str, T] | None],
    before_pause: Callable[[], None] = lambda: None,
) -> T | None:
    """Wait until a lease is free. :class:`HeldError` as soon as its owner, who may work for long, renews it. ``seconds`` is the
    lease's length. ``look`` reads the beat and a value for the caller, or None if the lease does not exist; return the value
    that it read last. ``before_pause`` is called before each pause, and may raise.

    Takes no time if the lease is free, and the lease's length by this process's clock if its owner has died. One ``look`` every
    few seconds.
    """
    backoff = Backoff(clock, longest=_LOOK, patience=2 * seconds)
    first_beat: str | None = None
    while (read := look()) is not None:
        beat, value = read
        if first_beat is not None and beat != first_beat:
            raise HeldError
        first_beat = beat
        if not watch.is_held(lease, beat, seconds):
            return value
        before_pause()
        if not backoff.wait():
            raise HeldError
    return None
