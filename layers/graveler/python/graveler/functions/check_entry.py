"""The function of checks: it makes them for the state machine of checks (``infra/check_machine.py``), and keeps their verdicts.

``run`` makes a check and reports its verdict by the task's token; while it works, it gives signs of life. ``keep`` stores a
verdict, or why there is none, for those who wait. ``parse`` only looks at a query.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from graveler.errors import GravelerError, InvalidError
from graveler.functions.entry import Context, Event, Function, initialise
from graveler.functions.operate_entry import Caught, failure_message
from graveler.lake.gates.checks.definitions import Definition, SqlCheck
from graveler.lake.gates.checks.elsewhere import Parsed
from graveler.lake.gates.checks.outcomes import CheckOutcomes
from graveler.lake.gates.checks.run import make_check
from graveler.lake.gates.checks.verdicts import Verdict, bounded
from graveler.lake.lake import Lake
from graveler.model import CommitID, StatusState

BEAT: Final = 15.0
"""Seconds between two signs of life, of which the state machine misses no three."""


class ParseStep(Struct, frozen=True, tag_field="step", tag="parse"):
    """A look at a query."""

    query: str


class RunStep(Struct, frozen=True, tag_field="step", tag="run"):
    """A check of a commit, as :class:`graveler.lake.gates.checks.elsewhere.RunTask`, and the ``token`` of the task."""

    token: str
    repository: str
    candidate: str
    base: str
    name: str
    definition: Definition


class KeepStep(Struct, frozen=True, tag_field="step", tag="keep"):
    """The end of a run: its ``verdict``, or the ``error`` without one."""

    repository: str
    key: str
    run: str
    lasting: bool
    verdict: Verdict | None = None
    error: Caught | None = None


Step = ParseStep | RunStep | KeepStep


def check_handler() -> Callable[[Event, Context], dict[str, Any]]:
    """Return the handler of ``check``."""

    @cache
    def opened() -> tuple[Function]:
        # The process of a query finds the layers as this one does, whose paths Lambda's runtime has set by itself.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        return (Function("check"),)

    initialise(opened)

    def handler(event: Event, context: Context) -> dict[str, Any]:
        (function,) = opened()
        function.telemetry.begin(context.aws_request_id)
        try:
            step: Step = msgspec.convert(event, Step)
        except msgspec.ValidationError as error:
            raise InvalidError(f"the event is not a step of a check: {error}") from None
        return take_step(function.lake, step)

    return handler


def take_step(lake: Lake, step: Step) -> dict[str, Any]:
    """Take a step; return its response. A check that fails in another way than by a verdict is reported as a failed task."""
    match step:
        case ParseStep():
            return _parse(step)
        case RunStep():
            return _run(lake, step)
        case KeepStep():
            return _keep(lake, step)


def _parse(step: ParseStep) -> dict[str, Any]:
    from graveler.lake.gates.checks.sql import expect_query  # a process

    try:
        expect_query(SqlCheck(step.query, {}))
    except InvalidError as error:
        return msgspec.to_builtins(Parsed(str(error)))  # type: ignore[no-any-return]
    return {}


def _run(lake: Lake, step: RunStep) -> dict[str, Any]:
    from graveler.storage.executions import Task  # boto3

    task = Task(step.token)
    try:
        repository = lake.repository(step.repository).parts
        with repository.clock.repeating(BEAT, task.beat):
            ids = [CommitID(id_) for id_ in (step.candidate, step.base) if id_]
            candidate, *base = repository.commits.get_many(ids)
            verdict = make_check(repository, candidate, base[0] if base else None, step.name, step.definition)
    except GravelerError as error:
        task.fail(type(error).__name__, str(error))
        return {}
    task.succeed(msgspec.json.encode(verdict).decode())
    return {}


def _keep(lake: Lake, step: KeepStep) -> dict[str, Any]:
    repository = lake.repository(step.repository).parts
    outcomes = CheckOutcomes(repository.tables, repository.uid, repository.clock, repository.leases)
    verdict = step.verdict
    if verdict is None:
        caught = step.error or Caught("unknown")
        message = failure_message(caught)
        reason = f"{caught.error}: {message}" if message else caught.error
        verdict = Verdict(StatusState.ERROR, bounded(f"the run of the check ended without a verdict: {reason}"))
    outcomes.end_run(bytes.fromhex(step.key), step.run, verdict, lasting=step.lasting)
    return {}
