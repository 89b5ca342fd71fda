"""Leases are judged by the watcher's own monotonic clock, whatever the owner's wall clock says."""

from graveler.lake.leases import LeaseWatch
from tests.lake.support import FakeClock


def test_a_lease_that_does_not_change_is_believed_for_its_length_from_the_first_look() -> None:
    clock = FakeClock()
    watch = LeaseWatch(clock)
    assert watch.is_held("token/1", "a", 6.0)
    clock.time += 5.9
    assert watch.is_held("token/1", "a", 6.0)
    clock.time += 0.1
    assert not watch.is_held("token/1", "a", 6.0)


def test_a_lease_that_is_renewed_is_believed_on() -> None:
    clock = FakeClock()
    watch = LeaseWatch(clock)
    for beat in "abcdef":
        assert watch.is_held("token/1", beat, 6.0)
        clock.time += 5.0
    assert watch.remaining("token/1", "f", 6.0) == 1.0


def test_two_leases_are_watched_by_themselves() -> None:
    clock = FakeClock()
    watch = LeaseWatch(clock)
    assert watch.is_held("token/1", "a", 6.0)
    clock.time += 4.0
    assert watch.is_held("token/2", "a", 6.0)
    clock.time += 3.0
    assert not watch.is_held("token/1", "a", 6.0)
    assert watch.is_held("token/2", "a", 6.0)


def test_a_lease_that_is_forgotten_is_watched_anew() -> None:
    clock = FakeClock()
    watch = LeaseWatch(clock)
    watch.is_held("token/1", "a", 6.0)
    clock.time += 7.0
    watch.forget("token/1")
    assert watch.is_held("token/1", "a", 6.0)
