"""Deadlines for publishing: half the grace period of garbage collection, less the clock skew. And the error of a lost condition.

Files younger than the grace period are never collected. A verb writes files, or finds some that are at most half the grace
period old, and names them later in a commit or a staged change; it must not if by then they could be older than the grace
period. So each verb notes when it began, and checks the clock as the last step before the request that publishes.

The skew that is subtracted is also the longest time for which a process may be stopped between that check and its request.
"""

from typing import Final

from graveler.errors import InvalidError, PreconditionError, TooLateError
from graveler.lake.clock import Clock

SKEW: Final = 300.0
"""Seconds by which the clocks of writers, object store and collector may differ."""


class StoppedError(PreconditionError):
    """The condition ``only_while`` of a :class:`graveler.lake.context.Context` no longer holds: nothing was changed."""


class Deadline:
    """The deadline for one piece of work, which begins now: by the wall clock or the monotonic one, whichever went on more."""

    def __init__(self, clock: Clock, seconds: float, began: float | None = None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began = clock.now() if began is None else began
        self._ticks = clock.monotonic()

    def check(self, doing: str) -> None:
        """Raise :class:`TooLateError` if the time is over. ``doing`` begins the message: "committing on branch 'main'". No
        request."""
        took = max(self._clock.now() - self._began, self._clock.monotonic() - self._ticks)
        if took > self._seconds:
            raise TooLateError(
                f"{doing} took {took:,.0f} s. After {self._seconds:,.0f} s (half the grace period of garbage collection) the "
                "first files written may be about to be removed, so it was not published; nothing was changed. Try again, or do "
                "it in smaller parts"
            )


class Deadlines:
    """A factory of deadlines for the verbs of a lake with this ``grace`` and ``skew`` (seconds)."""

    def __init__(self, clock: Clock, grace: float, skew: float) -> None:
        if skew < 0 or skew >= grace / 2:
            raise InvalidError(
                f"a skew of {skew:g} s leaves no time for work within half the grace period of {grace:g} s; choose a longer "
                "grace period"
            )
        self._clock = clock
        self._seconds = grace / 2 - skew

    def begin(self, began: float | None = None) -> Deadline:
        """Return the deadline of work that begins now, or that ``began`` earlier (Unix seconds), perhaps in another process."""
        return Deadline(self._clock, self._seconds, began)
