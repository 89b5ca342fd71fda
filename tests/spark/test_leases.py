"""Leases: one job at a time, whoever dies."""

import pytest

from graveler.errors import BusyError
from graveler.spark.leases import SECONDS, held, take
from graveler.storage.memory_objects import MemoryObjects
from tests.lake.support import FakeClock

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
        place.clock.time += 60
        with pytest.raises(BusyError, match=r"another export to 'x' is going on; .* this can begin in 4 minutes"):
            place.take()
        lease.renew()
        place.clock.time += SECONDS - 1
        with pytest.raises(BusyError):
            place.take()
    place.take()


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
