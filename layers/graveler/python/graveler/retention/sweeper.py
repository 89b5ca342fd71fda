"""Removal of files, or their quarantine, on condition that they have not changed since the mark; and their restoration.

A tree's file that was swept may be put again under its name, and on S3 have the same ETag, which is a digest of the contents. So
for such files the time is checked as well, just before: a run that continues one that died does not remove newer files.

Quarantine is the folder ``_graveler/quarantine/<run>/``, in which a file keeps its key. The copy exists before the file goes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from graveler.errors import BusyError, GravelerError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.clock import Backoff, Clock
from graveler.retention.rate_limit import Pace
from graveler.retention.runs import Candidate, Kind, Mode, Outcome
from graveler.retention.threads import at_once
from graveler.storage.objects.port import (
    NotPermittedError,
    ObjectConditionError,
    ObjectMissingError,
    Objects,
    StoredObject,
)

QUARANTINE: Final = "_graveler/quarantine"

_TOGETHER: Final = 1000
_PUT_AGAIN: Final = (Kind.RANGE, Kind.METARANGE)
"""Kinds of files that may be put again under their name."""
_METADATA: Final = "/metadata/"
"""A part of the key of a table's files that may be put again, too: those that graveler itself writes."""
_SAME: Final = 2.0
"""Seconds by which a store may round times differently between responses."""
_NEVER_QUARANTINED: Final = (Kind.QUARANTINE, Kind.RUN, Kind.DUMP, Kind.UPLOAD, Kind.OPERATION)
_PATIENCE: Final = 60.0


class Sweeper:
    """The removal of files of one namespace, ``threads`` requests at a time, at a :class:`Pace`. Requests are retried later if
    the store asks to slow down."""

    def __init__(self, objects: Objects, clock: Clock, threads: int, pace: Pace | None = None) -> None:
        self._objects = objects
        self._clock = clock
        self._threads = threads
        self._pace = pace or Pace(clock)

    def sweep(self, run: str, mode: Mode, candidates: Sequence[Candidate], done: Callable[[], None]) -> list[Outcome]:
        """Remove the candidates and return their outcomes; ``done`` is called after each request. One request per 1,000
        deletions, if the store accepts several; one more for each of a tree's files; in quarantine three each."""
        outcomes: dict[int, Outcome] = {}
        together: list[int] = []
        alone: list[int] = []
        for number, candidate in enumerate(candidates):
            simple = not (_is_kept(mode, candidate) or _may_be_put_again(candidate) or candidate.kind is Kind.UPLOAD)
            (together if simple else alone).append(number)
        groups = [together[start : start + _TOGETHER] for start in range(0, len(together), _TOGETHER)]

        def delete(group: list[int]) -> list[Outcome]:
            group_outcomes = self._delete([candidates[number] for number in group])
            done()
            return group_outcomes

        def sweep_one(number: int) -> Outcome:
            outcome = self._patiently(run, mode, candidates[number])
            done()
            return outcome

        for group, group_outcomes in zip(groups, at_once(self._threads, delete, groups), strict=True):
            outcomes.update(zip(group, group_outcomes, strict=True))
        outcomes.update(zip(alone, at_once(self._threads, sweep_one, alone), strict=True))
        return [outcomes[number] for number in range(len(candidates))]

    def _delete(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Delete files on condition of their ETags, as many as the store accepts at a time."""
        backoff = self._backoff()
        outcomes: dict[str, Outcome] = {}
        remaining = list(candidates)
        while remaining:
            self._pace.wait(len(remaining))
            try:
                errors = self._objects.delete_many([(candidate.key, candidate.etag) for candidate in remaining])
            except (BusyError, UnavailableError) as error:
                errors = [error] * len(remaining)
            outcomes.update((c.key, _outcome(error)) for c, error in zip(remaining, errors, strict=True))
            again = {c.key for c, error in zip(remaining, errors, strict=True) if _may_be_asked_again(error)}
            remaining = [candidate for candidate in remaining if candidate.key in again]
            if not remaining:
                self._pace.answered(len(errors))
            elif not self._waited(backoff):
                break
        return [outcomes[candidate.key] for candidate in candidates]

    def _patiently(self, run: str, mode: Mode, candidate: Candidate) -> Outcome:
        backoff = self._backoff()
        while True:
            self._pace.wait()
            try:
                outcome = self._sweep(run, mode, candidate)
            except (BusyError, UnavailableError) as error:
                if not _may_be_asked_again(error) or not self._waited(backoff):
                    return Outcome.FAILED
            else:
                self._pace.answered()
                return outcome

    def _backoff(self) -> Backoff:
        return Backoff(self._clock, shortest=0.05, longest=10.0, patience=_PATIENCE)

    def _waited(self, backoff: Backoff) -> bool:
        self._pace.slow_down()
        return backoff.wait()

    def _sweep(self, run: str, mode: Mode, candidate: Candidate) -> Outcome:
        if candidate.kind is Kind.UPLOAD:
            self._objects.abort_multipart(candidate.key, candidate.etag)
            return Outcome.DELETED
        quarantined = f"{QUARANTINE}/{run}/{candidate.key}"
        keeps = _is_kept(mode, candidate)
        try:
            if _may_be_put_again(candidate):
                stored = self._objects.head(candidate.key)
                if stored.etag != candidate.etag or abs(stored.modified - candidate.modified) >= _SAME:
                    return Outcome.CHANGED
            if keeps:
                self._objects.copy(candidate.key, quarantined)
            self._objects.delete(candidate.key, if_match=candidate.etag)
        except (ObjectMissingError, ObjectConditionError) as error:
            if keeps and isinstance(error, ObjectConditionError):  # it was put again since, and stays
                with suppress(ObjectMissingError):
                    self._objects.delete(quarantined)
            return _outcome(error)
        return Outcome.QUARANTINED if keeps else Outcome.DELETED


def _is_kept(mode: Mode, candidate: Candidate) -> bool:
    return mode is Mode.QUARANTINE and candidate.kind not in _NEVER_QUARANTINED


def _may_be_put_again(candidate: Candidate) -> bool:
    return candidate.kind in _PUT_AGAIN or (candidate.kind is Kind.TABLE and _METADATA in candidate.key)


def _outcome(error: GravelerError | None) -> Outcome:
    """Return the outcome of a deletion with this error."""
    if error is None:
        return Outcome.DELETED
    if isinstance(error, ObjectMissingError):
        return Outcome.GONE
    return Outcome.CHANGED if isinstance(error, ObjectConditionError) else Outcome.FAILED


def _may_be_asked_again(error: GravelerError | None) -> bool:
    return isinstance(error, BusyError | UnavailableError) and not isinstance(error, NotPermittedError)


class Quarantine:
    """The files that runs moved aside in one namespace."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def files(self, run: str = "", prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Yield the files, of one run, whose former key begins with ``prefix`` (which needs a run) and is greater than ``after``.
        One listing."""
        if prefix and not run:
            raise InvalidError("name the run whose files to restore; `graveler gc report` lists the runs")
        start = f"{QUARANTINE}/{run}/{after}" if after else ""
        return self._objects.list(f"{QUARANTINE}/{run}/{prefix}" if run else f"{QUARANTINE}/", start)

    def restore(self, run: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, bool]]:
        """Restore files to their keys, those whose key is greater than ``after``. Yields each key, and whether it was restored;
        False: the key exists, and the file stays in quarantine. Restored files are young, so they stay for a grace period. Three
        requests each. :class:`NotFoundError` if none is found."""
        is_found = False
        for stored in self.files(run, prefix, after):
            is_found = True
            key = stored.key.removeprefix(f"{QUARANTINE}/{run}/")
            if self._is_there(key):
                yield key, False
                continue
            self._objects.copy(stored.key, key)
            with suppress(ObjectMissingError, ObjectConditionError):
                self._objects.delete(stored.key, if_match=stored.etag)
            yield key, True
        if not is_found and not after:
            raise NotFoundError(
                f"quarantine has no files of run {run!r} that start with {prefix!r}; their time may be over"
            )

    def _is_there(self, key: str) -> bool:
        try:
            self._objects.head(key)
        except ObjectMissingError:
            return False
        return True
