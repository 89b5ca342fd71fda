"""Sweeping: removing files on condition that they are the ones that the mark saw, or moving them aside; bringing them back.

A tree's file that was swept may be put again under its name, and on S3 have the same ETag, which is a digest of the contents. So
of such files also the time is looked at, just before: a run that goes on where another one died does not take what came since.

Quarantine is the folder ``_graveler/quarantine/<run>/``, in which a file keeps its key. The copy is there before the file goes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from graveler.errors import BusyError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.clock import Backoff, Clock
from graveler.retention.runs import Candidate, Kind, Mode, Outcome
from graveler.retention.threads import at_once
from graveler.storage.objects import ObjectConditionError, ObjectMissingError, Objects, StoredObject

QUARANTINE: Final = "_graveler/quarantine"

_SMALL: Final = 8 << 20
_PUT_AGAIN: Final = (Kind.RANGE, Kind.METARANGE)
"""What may be put again under its name."""
_SAME: Final = 2.0
"""Seconds by which a store may round times in one answer and not in another."""
_PATIENCE: Final = 60.0


class Sweeper:
    """Removes files of one namespace, ``threads`` at a time. A store that asks to slow down is asked again later, ever slower."""

    def __init__(self, objects: Objects, clock: Clock, threads: int) -> None:
        self._objects = objects
        self._clock = clock
        self._threads = threads

    def sweep(self, run: str, mode: Mode, candidates: Sequence[Candidate], done: Callable[[], None]) -> list[Outcome]:
        """What became of each. One object request each, two for a tree's file, two more in quarantine; ``done`` is called after
        each."""

        def sweep_one(candidate: Candidate) -> Outcome:
            outcome = self._patiently(run, mode, candidate)
            done()
            return outcome

        return list(at_once(self._threads, sweep_one, candidates))

    def _patiently(self, run: str, mode: Mode, candidate: Candidate) -> Outcome:
        backoff = Backoff(self._clock, first=0.05, longest=10.0, patience=_PATIENCE)
        while True:
            try:
                return self._sweep(run, mode, candidate)
            except ForbiddenError:
                return Outcome.FAILED
            except (BusyError, UnavailableError):
                if not backoff.wait():
                    return Outcome.FAILED

    def _sweep(self, run: str, mode: Mode, candidate: Candidate) -> Outcome:
        quarantined = f"{QUARANTINE}/{run}/{candidate.key}"
        keeps = mode is Mode.QUARANTINE and candidate.kind not in (Kind.QUARANTINE, Kind.RUN, Kind.DUMP)
        try:
            if candidate.kind in _PUT_AGAIN:
                there = self._objects.head(candidate.key)
                if there.etag != candidate.etag or abs(there.modified - candidate.modified) >= _SAME:
                    return Outcome.CHANGED
            if keeps:
                self._copy(candidate, quarantined)
            self._objects.delete(candidate.key, if_match=candidate.etag)
        except ObjectMissingError:
            return Outcome.GONE
        except ObjectConditionError:
            if keeps:  # it was put again since, and stays
                with suppress(ObjectMissingError):
                    self._objects.delete(quarantined)
            return Outcome.CHANGED
        return Outcome.QUARANTINED if keeps else Outcome.DELETED

    def _copy(self, candidate: Candidate, destination: str) -> None:
        copy(self._objects, candidate.key, candidate.size, destination)


def copy(objects: Objects, source: str, size: int, destination: str, *, if_absent: bool = False) -> None:
    """Copy an object within a namespace, through this process: small ones in memory, others through a temporary file. Two
    requests. :class:`ObjectMissingError`, :class:`ObjectConditionError`."""
    if size <= _SMALL:
        objects.put(destination, objects.get(source), if_absent=if_absent)
        return
    with TemporaryDirectory(prefix="graveler-gc-") as folder:
        path = Path(folder) / "object"
        with path.open("wb") as file:
            for piece in objects.stream(source):
                file.write(piece)
        objects.put(destination, path, if_absent=if_absent)


class Quarantine:
    """What runs moved aside in one namespace."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def files(self, run: str = "", prefix: str = "") -> Iterator[StoredObject]:
        """The files, of one run, whose former key begins with ``prefix`` (which needs a run). One listing."""
        if prefix and not run:
            raise InvalidError("name the run whose files are meant; `graveler gc report` lists the runs")
        return self._objects.list(f"{QUARANTINE}/{run}/{prefix}" if run else f"{QUARANTINE}/")

    def restore(self, run: str, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """Bring files back to their keys. Yields each key, and whether it was brought back; False: something is there already,
        and the file stays in quarantine. Restored files are young, so they stay for a grace. Three requests each.
        :class:`NotFoundError` if there is none."""
        found = False
        for stored in self.files(run, prefix):
            found = True
            key = stored.key.removeprefix(f"{QUARANTINE}/{run}/")
            try:
                copy(self._objects, stored.key, stored.size, key, if_absent=True)
            except ObjectConditionError:
                yield key, False
                continue
            with suppress(ObjectMissingError, ObjectConditionError):
                self._objects.delete(stored.key, if_match=stored.etag)
            yield key, True
        if not found:
            raise NotFoundError(
                f"nothing in quarantine is of run {run!r} and begins with {prefix!r}; it may be past its time"
            )
