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
