"""Waits that take no time."""

import pytest

from graveler.lake.clock import SystemClock


def skip_waits(patch: pytest.MonkeyPatch) -> None:
    """Whoever sleeps by the machine's clock finds at once that the time has passed, by the monotonic one."""
    skipped = [0.0]
    monotonic = SystemClock.monotonic

    def sleep(_: SystemClock, seconds: float) -> None:
        skipped[0] += seconds

    patch.setattr(SystemClock, "sleep", sleep)
    patch.setattr(SystemClock, "monotonic", lambda clock: monotonic(clock) + skipped[0])


class ClockAhead(SystemClock):
    """The machine's clock, so many seconds ahead. Who sleeps by it finds at once that the time has passed."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._ahead = seconds
        self._slept = 0.0

    def now(self) -> float:
        return super().now() + self._ahead + self._slept

    def monotonic(self) -> float:
        return super().monotonic() + self._slept

    def sleep(self, seconds: float) -> None:
        self._slept += seconds
