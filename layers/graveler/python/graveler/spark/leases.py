"""Mutual exclusion among jobs anywhere, by an object in a store: a lease, which its holder renews and which expires otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread
from typing import Final

from graveler.errors import BusyError, GravelerError
from graveler.lake.clock import Clock
from graveler.lake.leases import HeldError, LeaseWatch, wait_for
from graveler.storage.objects.port import ObjectConditionError, ObjectMissingError, Objects, StoredObject

SECONDS: Final = 300.0
"""Seconds without renewal after which a lease expires, by the clock of the process that watches it."""
_RENEWALS: Final = 5
_TRIES: Final = 3


class Lease:
    """A lease that this process holds, until another process takes it."""

    def __init__(self, objects: Objects, key: str, clock: Clock, held: StoredObject, owner: bytes, job: str) -> None:
        self._objects, self._key, self._clock = objects, key, clock
        self._held, self._owner, self._what = held, owner, job
        self._renewed = clock.monotonic()
        self._lost = False

    def renew(self) -> None:
        """Renew the lease. One head, one put. :class:`BusyError` if another process holds it by now."""
        try:
            self._lost = self._lost or self._objects.head(self._key).etag != self._held.etag
        except ObjectMissingError:
            self._lost = True
        self.check()
        self._held = self._objects.put(self._key, _beat(self._owner))
        self._renewed = self._clock.monotonic()

    def check(self) -> None:
        """Raise :class:`BusyError` unless the lease is held. No request."""
        if self._lost or self._clock.monotonic() - self._renewed > SECONDS:
            raise BusyError(
                f"the lease of the {self._what} was not renewed in time, and another may have started; start again"
            )

    def release(self) -> None:
        """Release the lease at once. If that fails, it expires."""
        with suppress(GravelerError):
            self._objects.delete(self._key, if_match=self._held.etag)


def take(objects: Objects, key: str, clock: Clock, job: str) -> Lease:
    """Take the lease at this key. ``job`` names it: "export to 'x'". One put. A lease held by another process is watched: until
    it is released; until its holder gives a sign of life, a minute at most (:class:`BusyError`); or for :data:`SECONDS`, if its
    driver has died. That costs a head every few seconds, and a delete."""
    owner = token_hex(16).encode()

    def look() -> tuple[str, StoredObject] | None:
        try:
            beat = objects.head(key)
        except ObjectMissingError:
            return None
        return f"{beat.etag} {beat.modified}", beat  # an earlier version writes the same bytes each time

    watch = LeaseWatch(clock)
    for _ in range(_TRIES):
        try:
            return Lease(objects, key, clock, objects.put(key, _beat(owner), if_absent=True), owner, job)
        except ObjectConditionError:
            pass
        try:
            dead = wait_for(watch, clock, key, SECONDS, look)
        except HeldError:
            break
        with suppress(ObjectMissingError, ObjectConditionError):  # another process was faster
            if dead is not None:
                objects.delete(key, if_match=dead.etag)
    raise BusyError(f"another {job} is in progress; wait until it is done")


def _beat(owner: bytes) -> bytes:
    """Return the content that the holder writes: different bytes each time."""
    return owner + b" " + token_hex(8).encode()


@contextmanager
def held(objects: Objects, key: str, clock: Clock, job: str) -> Iterator[Lease]:
    """Hold a lease taken by :func:`take`, renewed by a thread until the end of the block, and then release it."""
    lease = take(objects, key, clock, job)
    over = Event()

    def keep() -> None:
        while not over.wait(SECONDS / _RENEWALS):
            try:
                lease.renew()
            except BusyError:
                return  # check() informs the holder
            except GravelerError:
                continue  # the store was briefly unavailable; the next attempt comes before the lease expires

    thread = Thread(target=keep, name="graveler-lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join()
        lease.release()
