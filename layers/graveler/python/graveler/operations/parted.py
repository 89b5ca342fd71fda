"""Operations in parts: merge, commit, revert, cherry-pick, import and rewriting, by the steps of :mod:`graveler.lake.in_parts`.

:class:`Steps` are the steps of one operation, each of which may be repeated and run anywhere: *plan*, *run a part*, *publish*.
Besides leaving results in the object store for each other, they record the operation's progress in the table. :func:`do_in_parts`
runs them all, for a worker that stays until the end; :mod:`graveler.operations.machine` is for one that does not.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final, TypeVar

from msgspec.structs import replace

from graveler.errors import GravelerError, TooLateError, may_pass
from graveler.lake.in_parts.parted import PartDone, Planned
from graveler.lake.in_parts.pinned import LongRequest, decode_pinned
from graveler.lake.in_parts.work import Sizes
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.operations.store import Operation, Operations, WorkDone
from graveler.operations.work import Report, Work
from graveler.requests import committing as requests
from graveler.requests.importing import ImportAddresses, Imported
from graveler.requests.merging import CherryPick, Merge, Revert
from graveler.system.progress import ObjectProgress, no_object_progress

T = TypeVar("T")

_log = logging.getLogger(__name__)

MERGE: Final = "merge"
REVERT: Final = "revert"
CHERRY_PICK: Final = "cherry-pick"
COMMIT: Final = "commit"
IMPORT: Final = "import"
REWRITE: Final = "rewrite"

REQUESTS: Final[Mapping[str, type[LongRequest]]] = {
    MERGE: Merge,
    REVERT: Revert,
    CHERRY_PICK: CherryPick,
    COMMIT: requests.Commit,
    IMPORT: ImportAddresses,
    REWRITE: requests.Rewrite,
}
"""The requests of operations in parts, by kind."""

KINDS: Final[Mapping[type[LongRequest], str]] = {request: kind for kind, request in REQUESTS.items()}

LAST_IMPORT: Final = ".lakefs.last.import.timestamp"
"""Repository metadata: when the newest import was committed, in Unix seconds. Clients look for it."""

MAX_ROUNDS: Final = 100
"""Number of times that the branch may move under an operation before it is given up."""

AT_ONCE: Final = 2
"""Number of parts that a long-lived worker processes at the same time. Processes shared by all parts do most of the work
(:mod:`graveler.runtime.crew`); reads, waits and joins of one part leave none of them idle. Each holds some ranges."""

_PAUSES: Final = (0.5, 2.0)
"""Seconds to wait before each retry of a step."""


class Steps:
    """The steps of one operation, as its item was read."""

    def __init__(self, repository: OpenRepository, operation: Operation, sizes: Sizes | None = None) -> None:
        self._repository = repository
        self._operation = operation
        self._operations = Operations(repository.tables, repository.repository.uid)
        pinned = decode_pinned(operation.request, REQUESTS[operation.kind])
        self._request = pinned.request
        self._parted = repository.in_parts(
            operation.id,
            pinned,
            request_id=operation.request_id,
            began=operation.created,
            sizes=sizes,
            only_while=self._operations.running(operation.id),
        )

    def plan(self, round_number: int) -> Planned:
        """Cut the work. Cost and errors as :meth:`PartedOperation.plan`; one table read and one write, and one read more for each
        thousand parts of the round that are done. :class:`TooLateError` after very many rounds."""
        if round_number >= MAX_ROUNDS:
            raise TooLateError(f"the branch moved {MAX_ROUNDS} times during the {self._operation.kind}; try again")
        planned = self._parted.plan(round_number)

        this_round = replace(self._operation, round=round_number)
        noted_parts = self._operations.noted_parts(this_round) if planned.done else frozenset()
        skipped = [load for number, load in planned.done.items() if number not in noted_parts]

        def note(now: Operation) -> Operation | None:
            noted = replace(
                now,
                round=round_number,
                parts=planned.parts,
                records=planned.load.records,
                bytes=planned.load.bytes,
                skipped=WorkDone(len(skipped), sum(one.records for one in skipped), sum(one.bytes for one in skipped)),
            )
            return None if noted == now or now.is_finished else noted

        self._operation = self._operations.change(self._operation.id, note)
        return planned

    def run_part(self, number: int, round_number: int, progress: ObjectProgress = no_object_progress) -> PartDone:
        """Work on a part, from 0. Cost and errors as :meth:`PartedOperation.run_part`; one table write."""
        done = self._parted.run_part(number, round_number, progress)
        noted = replace(self._operation, round=round_number)
        self._operations.note_part(noted, number, done.records, done.bytes)
        return done

    def publish(self, round_number: int) -> Commit | None:
        """Join the parts and publish the commit, on condition that the operation still runs; None: another round is needed. Cost
        and errors as :meth:`PartedOperation.publish`; for an import one table read and one write."""
        commit = self._parted.publish(round_number)
        if commit is not None and commit.id and isinstance(self._request, ImportAddresses):
            self._note_import(commit, force=self._request.force)
        return commit

    def _note_import(self, commit: Commit, *, force: bool) -> None:
        """Record the import's time in the repository's metadata. If the repository takes no metadata any more, the commit stays
        valid."""
        try:
            self._repository.set_metadata({LAST_IMPORT: str(commit.created)}, force=force)
        except GravelerError as error:
            if may_pass(type(error)):
                raise  # tried again, which finds the commit
            _log.warning("the time of import %s could not be stored in the repository's metadata: %s", commit.id, error)

    def give_up(self) -> None:
        """Release what others wait for, after the operation failed."""
        self._parted.give_up()


def do_in_parts(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Run all the steps of an operation, :data:`AT_ONCE` parts at a time; return its commit's ID (nothing for a dry run). Run
    again, it goes on with the first unfinished part, and finds an existing commit (promise C4). Failures due to concurrent
    writers, a resource's refusal, or a dead worker process are retried a few times."""
    del request  # it is in the operation's item, with everything else needed
    operation = Operations(repository.tables, repository.repository.uid).get(operation_id)
    try:
        steps = Steps(repository, operation)
        for round_number in range(operation.round, MAX_ROUNDS + 1):
            planned = _tried(repository, report, partial(steps.plan, round_number))
            for load in planned.done.values():
                report(load.records, load.bytes)
            _run_parts(repository, report, steps, planned.left, round_number)
            commit = _tried(repository, report, partial(steps.publish, round_number))
            if commit is not None:
                report.changes = commit.changes if isinstance(commit, Imported) else None
                return commit.id
        raise AssertionError("planning ends it")
    except GravelerError:
        with suppress(GravelerError):  # it is released by itself, later
            give_up(repository, operation)
        raise


def _run_parts(
    repository: OpenRepository, report: Report, steps: Steps, numbers: Sequence[int], round_number: int
) -> None:
    """Run these parts of a round. The error of one is raised here, after those that run at the same time have ended."""
    if len(numbers) < 2:
        for number in numbers:
            _tried(repository, report, partial(steps.run_part, number, round_number, report))
        return
    failed = Event()

    def run(number: int) -> None:
        if failed.is_set():
            return
        try:
            _tried(repository, report, partial(steps.run_part, number, round_number, report))
        except BaseException:
            failed.set()  # before this thread takes the next part
            raise

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="graveler-part") as pool:
        try:
            done = [pool.submit(run, number) for number in numbers]
            wait(done)
        except BaseException:  # Ctrl-C
            failed.set()
            raise
    for each in done:
        each.result()


def give_up(repository: OpenRepository, operation: Operation) -> None:
    """Release what others wait for, if the operation works in parts: it failed, or was cancelled."""
    if operation.kind in REQUESTS:
        Steps(repository, operation).give_up()


def _tried(repository: OpenRepository, report: Report, step: Callable[[], T]) -> T:
    """Return the step's result, retrying failures due to concurrent writers or a resource's refusal."""
    for pause in _PAUSES:
        report.check()
        try:
            return step()
        except GravelerError as error:
            if not may_pass(type(error)):
                raise
            repository.clock.sleep(pause)
    report.check()
    return step()


IN_PARTS: Final[Mapping[str, Work]] = dict.fromkeys(REQUESTS, do_in_parts)
