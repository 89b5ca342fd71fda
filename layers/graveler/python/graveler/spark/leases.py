"""One at a time, among jobs anywhere, by an object in a store: a lease, which its holder renews and which runs out otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread
from typing import Final

from graveler.errors import BusyError, GravelerError
from graveler.lake.clock import Clock
from graveler.storage.objects import ObjectConditionError, ObjectMissingError, Objects, StoredObject

SECONDS: Final = 300.0
"""After which a lease that nobody renewed is anybody's. Far more than clocks differ."""
_RENEWALS: Final = 5
_TRIES: Final = 3


class Lease:
    """A lease that this process holds, until somebody else has taken it."""

    def __init__(self, objects: Objects, key: str, clock: Clock, held: StoredObject, owner: bytes, what: str) -> None:
        self._objects, self._key, self._clock = objects, key, clock
        self._held, self._owner, self._what = held, owner, what
        self._renewed = clock.monotonic()
        self._lost = False

    def renew(self) -> None:
        """Hold it for another while. One head, one put. :class:`BusyError` if it is somebody else's by now."""
        try:
            self._lost = self._lost or self._objects.head(self._key).etag != self._held.etag
        except ObjectMissingError:
            self._lost = True
        self.check()
        self._held = self._objects.put(self._key, self._owner)
        self._renewed = self._clock.monotonic()

    def check(self) -> None:
        """:class:`BusyError` unless it is held. No request."""
        if self._lost or self._clock.monotonic() - self._renewed > SECONDS:
            raise BusyError(
                f"the lease of the {self._what} was not renewed in time, and another may have begun; begin again"
            )

    def release(self) -> None:
        """Let others have it at once. What fails here runs out by itself."""
        with suppress(GravelerError):
            self._objects.delete(self._key, if_match=self._held.etag)


def take(objects: Objects, key: str, clock: Clock, what: str) -> Lease:
    """The lease at this key. ``what`` it is for: "export to 'x'". One put; if there is one, a head and, where it has run out, a
    delete besides. :class:`BusyError` if somebody has it."""
    owner = token_hex(16).encode()
    left = 0.0
    for _ in range(_TRIES):
        try:
            return Lease(objects, key, clock, objects.put(key, owner, if_absent=True), owner, what)
        except ObjectConditionError:
            pass
        with suppress(ObjectMissingError, ObjectConditionError):  # it is free again, or another one was faster
            other = objects.head(key)
            left = SECONDS - (clock.now() - other.modified)
            if left > 0:
                break
            objects.delete(key, if_match=other.etag)
    raise BusyError(
        f"another {what} is going on; wait until it is done. If its driver has died, this can begin in "
        f"{max(left, 0) / 60:.0f} minutes"
    )


@contextmanager
def held(objects: Objects, key: str, clock: Clock, what: str) -> Iterator[Lease]:
    """:func:`take`, renewed by a thread until the end of the block, and released then."""
    lease = take(objects, key, clock, what)
    over = Event()

    def keep() -> None:
        while not over.wait(SECONDS / _RENEWALS):
            try:
                lease.renew()
            except BusyError:
                return  # the holder is told by check()
            except GravelerError:
                continue  # the store was not there for once; the next time comes before it runs out

    thread = Thread(target=keep, name="graveler-lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join()
        lease.release()
