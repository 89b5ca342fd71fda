"""Leases: one job at a time, whoever dies."""

import pytest

from graveler.errors import BusyError
from graveler.spark.leases import SECONDS, held, take
from graveler.storage.objects.memory import MemoryObjects
from tests.lake.support import FakeClock, OwnClock

KEY = "place/lease"


class Place:
    """A store whose times are those of the clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.objects = MemoryObjects("mem://x", lambda: self.clock.time)

    def take(self) -> object:
        return take(self.objects, KEY, self.clock, "export to 'x'")


@pytest.fixture
def place() -> Place:
    return Place()


def test_one_at_a_time_and_the_next_one_at_once(place: Place) -> None:
    with held(place.objects, KEY, place.clock, "export to 'x'") as lease:
        lease.check()
        began = place.clock.time
        place.clock.on_sleep = lease.renew
        with pytest.raises(BusyError, match="another export to 'x' is in progress"):
            place.take()
        assert place.clock.time - began < 60, "one sign of life is enough"
    slept = place.clock.slept
    place.take()
    assert place.clock.slept == slept


@pytest.mark.parametrize("ahead", [-86_400.0, 300.0, 86_400.0])
def test_a_driver_that_died_is_waited_for_by_ones_own_clock(place: Place, ahead: float) -> None:
    """The store has a clock of its own, too, and an earlier version wrote the same bytes each time."""
    there = OwnClock(place.clock, ahead)
    objects = MemoryObjects("mem://x", there.now)
    objects.put(KEY, b"somebody")

    def renew() -> None:
        objects.put(KEY, b"somebody")

    place.clock.on_sleep = renew
    with pytest.raises(BusyError):
        take(objects, KEY, place.clock, "export to 'x'")
    place.clock.on_sleep = None
    began = place.clock.time
    take(objects, KEY, place.clock, "export to 'x'").check()
    assert SECONDS <= place.clock.time - began < SECONDS + 10


@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize("seconds", [-86_400.0, -SECONDS, SECONDS, 86_400.0])
def test_a_clock_that_is_set_while_somebody_watches_changes_nothing(
    place: Place, seconds: float, *, alive: bool
) -> None:
    """That of whoever watches, which is the holder's and the store's here, too."""
    lease = take(place.objects, KEY, place.clock, "export to 'x'")
    began = place.clock.monotonic()

    def passes() -> None:
        place.clock.jump(seconds)
        if alive:
            lease.renew()

    place.clock.on_sleep = passes
    if alive:
        with pytest.raises(BusyError, match="another export to 'x' is in progress"):
            place.take()
        lease.check()
        assert place.clock.monotonic() - began < 60
    else:
        place.take()
        assert SECONDS <= place.clock.monotonic() - began < SECONDS + 10


def test_what_nobody_renewed_is_anybodys_and_who_had_it_hears_of_it(place: Place) -> None:
    slow = take(place.objects, KEY, place.clock, "export to 'x'")
    place.clock.time += SECONDS + 1
    fast = take(place.objects, KEY, place.clock, "export to 'x'")
    with pytest.raises(BusyError, match="the lease of the export to 'x' was not renewed in time"):
        slow.check()
    with pytest.raises(BusyError):
        slow.renew()
    slow.release()
    fast.renew()
    fast.check()
    place.objects.delete(KEY)
    with pytest.raises(BusyError):
        fast.renew()
