"""Operations in parts by one process: all steps of :mod:`graveler.operations.steps`, for a worker that stays until the end."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Final, TypeVar

from graveler.errors import GravelerError, may_pass
from graveler.lake.repository import OpenRepository
from graveler.operations.pinned_requests import REQUESTS
from graveler.operations.steps import MAX_ROUNDS, Steps, give_up
from graveler.operations.store import Operations
from graveler.operations.work import Report, Work
from graveler.requests.importing import Imported

T = TypeVar("T")

AT_ONCE: Final = 2
"""Number of parts that a long-lived worker processes at the same time. Worker processes that all parts share do most of the work
(:mod:`graveler.runtime.crew`); with two parts they stay busy while one part reads, waits or joins. Each part holds some ranges in
memory."""

_PAUSES: Final = (0.5, 2.0)
"""Seconds to wait before each retry of a step."""


def do_in_parts(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Run all the steps of an operation, :data:`AT_ONCE` parts at a time; return its commit's ID (nothing for a dry run). A
    repeated run continues with the first unfinished part, and returns an existing commit (promise C4). Failures due to concurrent
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
    for future in done:
        future.result()


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
