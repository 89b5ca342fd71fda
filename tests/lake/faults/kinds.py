"""What may happen to a request, and what a process that comes afterwards may do."""

from typing import Final, Literal, get_args

from tests.lake.support import Died, FakeClock
from tests.support.instruments import Fault

Kind = Literal["fail_before", "refuse", "fail_after", "repeat", "late", "very_late", "die_before", "die_after"]
"""As :data:`tests.support.instruments.Fault`. ``late``: the request hangs until leases have run out, the verb is told that it
failed, and it arrives before anybody looks; ``very_late``: it arrives only after a fresh process has gone on. ``die_before``,
``die_after``: the process is killed before or after the request had its effect."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
READ_KINDS: Final[tuple[Kind, ...]] = ("refuse", "late", "die_before")
"""Of a request that changes nothing: before or after is one to it, once or twice, and soon or late."""
SAME_PATH_KINDS: Final[tuple[Kind, ...]] = ("fail_after", "die_after")
SAME_PATH_READ_KINDS: Final[tuple[Kind, ...]] = ("die_before",)
"""In the short form, of a verb whose requests another case makes by the same code, and which have every kind there."""
READS: Final = frozenset({"get", "get_many", "query", "get_range", "stream", "head", "list"})
Way = Literal["repeat", "go on"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)
HANGS: Final = 60.0
"""Seconds until a client gives a request up."""
CLAIM: Final = 60.0
"""Seconds after which what a creator that died had claimed may be claimed."""


class Faults:
    """A schedule with one fault of a kind at one request."""

    def __init__(self, ordinal: int, kind: Kind, clock: FakeClock) -> None:
        self._ordinal, self._kind, self._clock = ordinal, kind, clock
        self.dead = False
        self.met = False

    def __call__(self, _: str, number: int) -> Fault:
        if self.dead:
            raise Died
        if number != self._ordinal:
            return None
        self.met = True
        match self._kind:
            case "die_before":
                self.dead = True
                raise Died
            case "die_after":
                self.dead = True
                return "fail_after"
            case "late" | "very_late":
                self._clock.time += HANGS
                return "late"
            case other:
                return other
