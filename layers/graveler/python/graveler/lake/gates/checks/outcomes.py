"""Verdicts in the table: each under the digest of what it depends on, for 30 days, and the claims of those who work on one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final

from graveler.errors import GravelerError
from graveler.lake.clock import Clock
from graveler.lake.gates.checks.verdicts import Verdict
from graveler.lake.leases import LeaseWatch
from graveler.model import RepositoryUID, StatusState
from graveler.storage.tables.port import Absent, ConditionFailedError, Item, Key, Matches, Tables
from graveler.system.forks import new_lock

KEPT: Final = 30 * 86_400
"""Seconds for which a verdict is used again."""
LEASE: Final = 10.0
"""Seconds after a sign of life for which a run counts as worked on."""
RUN_SECONDS: Final = 1_800
"""Seconds after which a run in another process has ended, whatever became of it: more than its state machine lets it have."""
BEAT: Final = 3.0
"""Seconds between two signs of life."""
_PAUSE: Final = 0.5

_BEAT: Final = "beat"
_STATE: Final = "state"
_RUN: Final = "run"
_UNTIL: Final = "until"
_ONCE: Final = "once"


class CheckOutcomes:
    """The verdicts of one repository's checks. Two processes do not make the same check at once: no promise rests on that."""

    def __init__(self, tables: Tables, uid: RepositoryUID, clock: Clock, leases: LeaseWatch) -> None:
        self._tables = tables
        self._uid = uid
        self._clock = clock
        self._leases = leases

    @contextmanager
    def claimed(self, digest: bytes, stop: Callable[[], None]) -> Iterator["Verdict | Claim"]:
        """Yield the verdict under a digest if there is one that is not too old, else claim the run of the check while the body
        works. Waits while another process makes the same check, and calls ``stop`` meanwhile. One table read; for a claim also
        two writes, and one every :data:`BEAT` seconds."""
        while True:
            stop()
            item = self._tables.get(self._key(digest))
            verdict = self._verdict(item)
            if verdict is not None:
                yield verdict
                return
            beat = None if item is None else item.get(_BEAT)
            if isinstance(beat, str) and self._leases.is_held(self._lease(digest), beat, LEASE):
                self._clock.sleep(_PAUSE)
                continue
            claim = Claim(self._tables, self._key(digest), self._clock)
            if claim.begin(item):
                break
        with self._clock.repeating(BEAT, claim.renew):
            try:
                yield claim
            finally:
                self._leases.forget(self._lease(digest))
                claim.release()

    def of_run(self, digest: bytes, start: Callable[[str], None], stop: Callable[[], None]) -> Verdict:
        """Return the verdict under a digest; without one, have another process make the check, and wait for it. ``start`` begins
        the run of this ID there, once however often it is called, and the run ends by :meth:`end_run`. ``stop`` is called
        meanwhile; the run goes on when it raises, and the next call finds it. A verdict that does not last is taken by the first
        one that finds it; a run that has not ended after :data:`RUN_SECONDS` is an ``error``. One table read; for a run another
        one each half second, and two writes."""
        key, started = self._key(digest), ""
        while True:
            stop()
            item = self._tables.get(key)
            verdict = self._verdict(item)
            if item is not None and verdict is not None:
                if _ONCE in item:
                    self._drop(key, item)
                return verdict
            run = "" if item is None else str(item.get(_RUN, ""))
            if item is not None and run and int(item[_UNTIL]) <= self._clock.now():  # type: ignore[arg-type]
                self._drop(key, item)
                return Verdict(StatusState.ERROR, f"run {run} ended without a verdict and without a reason; try again")
            if not run:
                run, now = token_hex(16), int(self._clock.now())
                new: Item = {_RUN: run, _UNTIL: now + RUN_SECONDS, "expires": now + KEPT}
                try:
                    self._tables.put(key, new, Absent() if item is None else Matches(dict(item)))
                except ConditionFailedError:
                    continue
            if run != started:  # also one that another process has noted, and may have died before it began
                start(run)
                started = run
            self._clock.sleep(_PAUSE)

    def end_run(self, digest: bytes, run: str, verdict: Verdict, *, lasting: bool) -> None:
        """End a run with this verdict, unless it has ended. ``lasting``: the check reads nothing of the outside, so that
        successes and failures are used again. One table read and one write."""
        key = self._key(digest)
        item = self._tables.get(key)
        if item is None or item.get(_RUN) != run:
            return
        ended = _ended(verdict, self._clock.now())
        if not lasting or verdict.state not in (StatusState.SUCCESS, StatusState.FAILURE):
            ended = {**ended, _ONCE: True}
        with suppress(ConditionFailedError):
            self._tables.put(key, ended, Matches(dict(item)))

    def _drop(self, key: Key, item: Item) -> None:
        with suppress(ConditionFailedError):
            self._tables.delete(key, Matches(dict(item)))

    def _verdict(self, item: Item | None) -> Verdict | None:
        if item is None or _STATE not in item or int(item["expires"]) <= self._clock.now():  # type: ignore[arg-type]
            return None
        return Verdict(StatusState(item[_STATE]), str(item.get("words", "")), str(item.get("url", "")))

    def _lease(self, digest: bytes) -> str:
        return f"{self._uid}/check-runs/{digest.hex()}"

    def _key(self, digest: bytes) -> Key:
        return Key(f"{self._uid}/check-runs", digest)


class Claim:
    """The right to make a check, until it is released, or no longer renewed."""

    def __init__(self, tables: Tables, key: Key, clock: Clock) -> None:
        self._tables = tables
        self._key = key
        self._clock = clock
        self._lock = new_lock()
        """Held for changes of the item: a sign of life comes from another thread."""
        self._item: Item | None = None

    def begin(self, previous: Item | None) -> bool:
        """Take the claim in the place of what was read; return False if another process was faster. One table write."""
        item: Item = {_BEAT: token_hex(8), "expires": int(self._clock.now()) + KEPT}
        try:
            self._tables.put(self._key, item, Absent() if previous is None else Matches(dict(previous)))
        except ConditionFailedError:
            return False
        self._item = item
        return True

    def renew(self) -> None:
        """Give a sign of life. One table write; if that fails, another process may begin with the check."""
        with self._lock, suppress(GravelerError):
            self._replace({_BEAT: token_hex(8), "expires": int(self._clock.now()) + KEPT})

    def finish(self, verdict: Verdict) -> None:
        """Store the verdict in the place of the claim. One table write. A claim that was lost stores nothing: another process
        makes the check."""
        with self._lock, suppress(ConditionFailedError):
            self._replace(_ended(verdict, self._clock.now()))
        self._item = None

    def release(self) -> None:
        """Give the claim up, unless it is finished or lost. One table write, none after :meth:`finish`."""
        if self._item is not None:
            with suppress(GravelerError):  # it runs out by itself
                self._tables.delete(self._key, Matches(dict(self._item)))

    def _replace(self, item: Item) -> None:
        if self._item is not None:
            self._tables.put(self._key, item, Matches(dict(self._item)))
            self._item = item


def _ended(verdict: Verdict, now: float) -> Item:
    """Return the item of a verdict."""
    words = {name: text for name, text in (("words", verdict.words), ("url", verdict.url)) if text}
    return {_STATE: verdict.state.value, **words, "expires": int(now) + KEPT}
