"""Claims on the parts of an operation: while a part's worker is alive, no other process begins that part.

A service that lost a function's response calls the function again while it works; another attempt of the operation does so, too.
Two workers on one part do no harm, but they do the same work twice. So a lease is enough here (:mod:`graveler.lake.leases`), and
no promise rests on it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread
from typing import Final

from graveler.errors import BusyError, GravelerError
from graveler.lake.clock import Clock
from graveler.lake.leases import HeldError, LeaseWatch, wait_for
from graveler.operations.store import Operation, Operations
from graveler.storage.tables.port import ConditionFailedError

LEASE: Final = 6.0
"""Seconds after a sign of life for which a part counts as worked on. Whole operations have longer leases, in
:mod:`graveler.operations.runner` and :mod:`graveler.operations.machine`."""

BEAT: Final = 2.0
"""Seconds between two signs of life."""


class PartClaims:
    """The claims on the parts of operations, as one process sees them. Safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases = LeaseWatch(clock)

    @contextmanager
    def working_on(
        self, operations: Operations, operation: Operation, number: int, check: Callable[[], None]
    ) -> Iterator[None]:
        """Claim a part of the current round while the body works. :class:`BusyError` while another process works on it; waits up
        to :data:`LEASE` seconds for a process that died with its claim. ``check`` is called meanwhile, and may raise.

        Two table writes, and one every :data:`BEAT` seconds; some reads if a claim exists already.
        """
        beats = [token_hex(8)]
        while not operations.claim_part(operation, number, beats[0], None):
            dead = self._dead(operations, operation, number, check)
            if dead is not None and operations.claim_part(operation, number, beats[0], dead):
                break
        over = Event()

        def renew() -> None:
            while not self._clock.wait(over, BEAT):
                with suppress(GravelerError):  # another worker may begin with it if this goes on
                    fresh = token_hex(8)
                    if operations.claim_part(operation, number, fresh, beats[0]):
                        beats[0] = fresh

        thread = Thread(target=renew, name="graveler-part", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with suppress(ConditionFailedError, GravelerError):  # it runs out by itself
                operations.free_part(operation, number, beats[0])

    def _dead(self, operations: Operations, operation: Operation, number: int, check: Callable[[], None]) -> str | None:
        """Return the last sign of life of a dead worker; None if the claim is gone."""

        def look() -> tuple[str, str] | None:
            beat = operations.part_claim(operation, number)
            return None if beat is None else (beat, beat)

        lease = operations.part_lease(operation, number)
        try:
            return wait_for(self._leases, self._clock, lease, LEASE, look, check)
        except HeldError:
            raise BusyError(
                f"part {number} of operation {operation.id!r} is being worked on by another process; it will be finished, or "
                "retried if that process dies"
            ) from None
