"""Runs of the collector: the turn to collect, and the files of a run in the object store.

::

    _graveler/gc/runs/<time>-<8 hex digits>/
        candidates-00000.msgpack …   files to remove, some thousand at a time
        plan.json                    written when the mark is done: from then on any process can finish the run
        outcomes-00000.msgpack …     the outcomes of the candidates of that number
        report.parquet               candidates and outcomes, for people and their tools
        summary.json                 written last: the run is over

One at a time: an item of the table (partition ``<repository uid>/gc``) names the running collector, with a lease. Safety does not
depend on it; two at once would only do the same work.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from secrets import token_hex
from time import gmtime, strftime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, BusyError, CorruptError, InvalidError, NotFoundError
from graveler.lake.clock import Clock
from graveler.lake.leases import HeldError, LeaseWatch, wait_for
from graveler.lake.objects.collector_state import turn_key
from graveler.model import CommitID, Page, RepositoryUID
from graveler.retention.forecast import Outlook
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.tables.port import Absent, Condition, ConditionFailedError, Delete, Item, Matches, Tables

FOLDER: Final = "_graveler/gc/runs"
OPERATION: Final = "collect-garbage"
"""The kind of operation that collects; it does not wait for itself."""
LEASE: Final = 120.0
"""Seconds without a sign of life after which another collector may begin, by its own clock."""
_RENEWALS: Final = 4
CHUNK: Final = 5_000

_DIGITS: Final = 18
"""Most digits of a number from outside."""
_SUMMARY: Final = "summary.json"
_PLAN: Final = "plan.json"


_T = TypeVar("_T")
_S = TypeVar("_S", bound=Struct)


class Mode(str, Enum):
    """The treatment of unneeded files."""

    DRY_RUN = "dry-run"
    QUARANTINE = "quarantine"
    DELETE = "delete"


class Kind(str, Enum):
    """The kind of a file."""

    OBJECT = "object"
    TABLE = "file of a table"
    RANGE = "range"
    METARANGE = "metarange"
    COMMIT = "commit record"
    DUMP = "unfinished dump"
    RUN = "old run"
    QUARANTINE = "quarantined file"
    UPLOAD = "unfinished upload"
    OPERATION = "file of an operation"


class Outcome(str, Enum):
    """The outcome of an unneeded file. ``changed``: it was written again since the run listed it, and stays. ``failed``: the
    object store did not remove it; the next run tries again."""

    LISTED = "listed"
    DELETED = "deleted"
    QUARANTINED = "quarantined"
    CHANGED = "changed"
    GONE = "already gone"
    FAILED = "failed"


class Candidate(Struct, frozen=True, array_like=True):
    """An unneeded file. ``size`` in bytes, ``modified`` in Unix seconds. Of an unfinished upload ``etag`` is its ID, and
    ``modified`` when it began."""

    kind: Kind
    key: str
    size: int
    etag: str
    modified: float
    why: str


class Tally(Struct, frozen=True):
    """The number of files, and their bytes."""

    files: int = 0
    bytes: int = 0

    def plus(self, size: int) -> "Tally":
        """Return the tally with one more file."""
        return Tally(self.files + 1, self.bytes + size)


class Plan(Struct, frozen=True):
    """The result of a mark. ``forget`` are commits whose items are removed at the end, with the time of their mark; ``expired``
    and ``revived`` are the numbers of commits that were marked, or had their mark reverted; ``unlisted`` names what could not be
    listed. ``numbers`` are those of the chunks, if they have gaps; ``ownerless`` is the number of hidden branches without a
    transaction, of which some are listed. ``outlook`` tells what
    later runs can free, only in a dry run."""

    run: str
    repository: str
    mode: Mode
    began: float
    grace: float
    chunks: int
    found: dict[str, Tally]
    unknown: Tally
    unknown_examples: tuple[str, ...]
    commits: int
    kept: int
    expired: int
    revived: int
    ranges: int
    ranges_read: int
    metaranges_read: int
    forget: tuple[tuple[CommitID, int], ...] = ()
    unlisted: tuple[str, ...] = ()
    numbers: tuple[int, ...] | None = None
    ownerless: int = 0
    ownerless_examples: tuple[str, ...] = ()
    outlook: Outlook | None = None

    def chunk_numbers(self) -> Sequence[int]:
        """Return the numbers of its chunks of candidates, in order."""
        return range(self.chunks) if self.numbers is None else self.numbers


class Summary(Struct, frozen=True):
    """The result of a run. ``outcomes`` are counted by kind, then by outcome; ``rows`` are expired ones of the table; ``parquet``
    whether a Parquet report exists; ``transactions`` the number that were over and had their branch deleted."""

    plan: Plan
    ended: float
    outcomes: dict[str, dict[str, Tally]]
    forgotten: int
    rows: int
    parquet: bool = True
    transactions: int = 0

    def total(self, outcome: Outcome) -> Tally:
        """Return the tally of all files with this outcome."""
        tallies_of_outcome = [tallies[outcome.value] for tallies in self.outcomes.values() if outcome.value in tallies]
        return Tally(sum(tally.files for tally in tallies_of_outcome), sum(tally.bytes for tally in tallies_of_outcome))


class Claim:
    """The right to collect, for as long as it is renewed. :class:`BusyError` when another collector is at work.

    If another one has the turn, its lease is watched: until it releases the turn, or gives a sign of life (then it is at work),
    or has given none for :data:`LEASE` seconds (then it has died). ``waiting`` is called meanwhile, and may raise. Two table
    requests; one more read every few seconds of waiting.
    """

    def __init__(
        self,
        tables: Tables,
        uid: RepositoryUID,
        clock: Clock,
        leases: LeaseWatch,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._tables, self._clock = tables, clock
        self._key = turn_key(uid)
        self._owner = token_hex(8)
        self._renewed = 0.0
        try:
            dead = wait_for(leases, clock, self._key.partition, LEASE, self._look, waiting)
        except HeldError:
            raise self._busy() from None
        self._put(Absent() if dead is None else Matches({**dead}))

    def _look(self) -> tuple[str, Item] | None:
        item = self._tables.get(self._key)
        # Earlier versions wrote their expiry, by their own clock: a new time is a sign of life, too.
        return None if item is None else (repr((item.get("owner"), item.get("beat", item.get("lease_ms")))), item)

    def renew(self) -> None:
        """Give a sign of life, if one is due. One table write at intervals."""
        if self._clock.monotonic() - self._renewed > LEASE / _RENEWALS:
            self._put(Matches({"owner": self._owner}))

    def release(self) -> None:
        """Release the turn at once. One table write."""
        try:
            self._tables.transact([Delete(self._key, Matches({"owner": self._owner}))])
        except ConditionFailedError:
            return  # it expired, and belongs to another collector

    def _put(self, condition: Condition) -> None:
        now = self._clock.monotonic()
        try:
            self._tables.put(self._key, {"owner": self._owner, "beat": token_hex(8)}, condition)
        except ConditionFailedError as error:
            claim = error.failures.get(0)
            if claim is None or claim.get("owner") != self._owner:  # else by a first attempt, whose response was lost
                raise self._busy() from None
        self._renewed = now

    def _busy(self) -> BusyError:
        return BusyError("another collector is working on this repository; wait until it is done")


class Runs:
    """The files of runs in one namespace."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def new(self, now: float) -> str:
        """Return a name for a run. Names sort by time, to the millisecond: several runs may begin within a second."""
        seconds, thousandths = divmod(int(now * 1000), 1000)
        return f"{strftime('%Y%m%dT%H%M%S', gmtime(seconds))}.{thousandths:03}Z-{token_hex(4)}"

    def all(self) -> list[tuple[str, bool]]:
        """Return the names of the runs with a plan, oldest first, and whether they are over. One listing."""
        plans, ended = [], set()
        for stored in self._objects.list(f"{FOLDER}/"):
            run, _, file = stored.key.removeprefix(f"{FOLDER}/").partition("/")
            if file == _PLAN:
                plans.append(run)
            elif file == _SUMMARY:
                ended.add(run)
        return [(run, run in ended) for run in plans]

    def put_candidates(self, run: str, number: int, candidates: Sequence[Candidate]) -> None:
        """Write a chunk of candidates. One object write."""
        self._objects.put(_candidates(run, number), msgspec.msgpack.encode(candidates))

    def candidates(self, run: str, number: int) -> list[Candidate]:
        """Return a chunk of candidates. One object read."""
        return self._decoded(_candidates(run, number), list[Candidate])

    def put_outcomes(self, run: str, number: int, outcomes: Sequence[Outcome]) -> None:
        """Write the outcomes of a chunk. One object write."""
        self._objects.put(_outcomes(run, number), msgspec.msgpack.encode(outcomes))

    def outcomes(self, run: str, number: int) -> list[Outcome] | None:
        """Return the outcomes of a chunk; None if it is not finished. One object read."""
        try:
            return self._decoded(_outcomes(run, number), list[Outcome])
        except ObjectMissingError:
            return None

    def rows(self, plan: Plan) -> Iterator[tuple[Candidate, Outcome]]:
        """Yield all candidates with their outcomes."""
        for number in plan.chunk_numbers():
            candidates = self.candidates(plan.run, number)
            outcomes = self.outcomes(plan.run, number) or [Outcome.LISTED] * len(candidates)
            yield from zip(candidates, outcomes, strict=True)

    def page(self, plan: Plan, after: str, amount: int) -> Page[tuple[Candidate, Outcome]]:
        """Return up to ``amount`` of :meth:`rows`, after ``after``, which gives a chunk and a position in it. Two object reads
        per chunk. :class:`InvalidError` for an invalid position."""
        start, _, skipped = (after or "0/0").partition("/")
        if not all(number.isascii() and number.isdecimal() and len(number) <= _DIGITS for number in (start, skipped)):
            raise InvalidError(
                f"{after[:100]!r} is not a position in the list of files; give the one from the previous page"
            )
        skip = int(skipped)
        rows: list[tuple[Candidate, Outcome]] = []
        for number in plan.chunk_numbers():
            if number < int(start):
                continue
            candidates = self.candidates(plan.run, number)
            outcomes = self.outcomes(plan.run, number) or [Outcome.LISTED] * len(candidates)
            for position in range(skip, len(candidates)):
                if len(rows) == amount:
                    return Page(tuple(rows), f"{number}/{position}")
                rows.append((candidates[position], outcomes[position]))
            skip = 0
        return Page(tuple(rows), None)

    def put_plan(self, plan: Plan) -> None:
        """Write the plan: the mark is done. One object write."""
        self._objects.put(f"{FOLDER}/{plan.run}/{_PLAN}", msgspec.json.encode(plan))

    def plan(self, run: str) -> Plan:
        """Return the plan of a run. One object read. :class:`NotFoundError`."""
        return self._named(run, _PLAN, Plan)

    def put_summary(self, summary: Summary) -> None:
        """Write the summary: the run is over. One object write."""
        self._objects.put(f"{FOLDER}/{summary.plan.run}/{_SUMMARY}", msgspec.json.encode(summary))

    def summary(self, run: str) -> Summary:
        """Return the summary of a finished run. One object read. :class:`NotFoundError`."""
        return self._named(run, _SUMMARY, Summary)

    def report_key(self, run: str) -> str:
        """Return the key of a run's report."""
        return f"{FOLDER}/{run}/report.parquet"

    def _named(self, run: str, file: str, kind: type[_S]) -> _S:
        try:
            data = self._objects.get(f"{FOLDER}/{run}/{file}") if run and "/" not in run else None
        except ObjectMissingError:
            data = None
        if data is None:
            raise NotFoundError(
                f"run {run!r} of garbage collection does not exist, or is unfinished; list the existing ones"
            )
        try:
            return msgspec.json.decode(data, type=kind)
        except UNREADABLE as error:
            raise CorruptError(f"{file} of run {run!r} is damaged: {error}; run gc again") from None

    def _decoded(self, key: str, kind: type[list[_T]]) -> list[_T]:
        data = self._objects.get(key)
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except UNREADABLE as error:
            raise CorruptError(f"{key} is damaged: {error}; remove it, and run gc again") from None


def _candidates(run: str, number: int) -> str:
    return f"{FOLDER}/{run}/candidates-{number:05}.msgpack"


def _outcomes(run: str, number: int) -> str:
    return f"{FOLDER}/{run}/outcomes-{number:05}.msgpack"
