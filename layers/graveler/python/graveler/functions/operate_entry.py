"""Steps of long operations in a function, called by the state machine (``infra/state_machine.py``).

An event names the step of an operation (:mod:`graveler.operations.machine`), the response the next one. The state machine retries
any error; when it gives up, it calls the step ``fail`` with the last error.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal

import msgspec

from graveler import errors
from graveler.errors import UNREADABLE, GravelerError, InvalidError
from graveler.functions.entry import Context, Event, Function, initialise
from graveler.operations.failures import kind_of, of_kind
from graveler.operations.machine import Machine, Task
from graveler.operations.parts.division import Sizes
from graveler.operations.store import PartFailure

_WHY_CHARS: Final = 2_000
_A_PART_FAILED: Final = "States.ExceedToleratedFailureThreshold"
"""The error of a map whose parts have executions of their own when one of them failed, without any details
(https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html)."""


class Caught(msgspec.Struct, frozen=True, rename="pascal"):
    """The state machine's record of the last failure: the error's name, and the function's output, which is JSON."""

    error: str
    cause: str = ""


class Step(msgspec.Struct, frozen=True):
    """A step that the state machine requests. ``number`` is that of a part, ``error`` the reason why it gave up (``fail``), or
    gave the part up (``note``)."""

    step: Literal["plan", "part", "publish", "note", "fail"]
    repository: str
    operation: str
    attempt: int
    round: int = 0
    number: int = 0
    error: Caught = Caught("unknown")


def operate_handler() -> Callable[[Event, Context], dict[str, Any]]:
    """Return the handler of ``operate``."""

    @cache
    def opened() -> tuple[Function, Machine]:
        function = Function("operate")
        return function, Machine(function.lake, sizes=Sizes(records=function.configuration.part_records))

    initialise(opened)

    def handler(event: Event, context: Context) -> dict[str, Any]:
        began = time.perf_counter()
        function, machine = opened()
        function.telemetry.begin(context.aws_request_id)
        try:
            step = msgspec.convert(event, Step)
        except msgspec.ValidationError as error:
            raise InvalidError(f"the event is not a step of an operation: {error}") from None
        try:
            return take(machine, step)
        finally:
            function.telemetry.tell(
                function.traffic.take(),
                (time.perf_counter() - began) * 1000,
                {"step": step.step, "operation": step.operation, "repository": step.repository},
            )

    return handler


def take(machine: Machine, step: Step) -> dict[str, Any]:
    """Take a step; return its response. Raises errors of public classes only: the state machine knows them by their names
    (infra/error_names.py)."""
    try:
        return _response(machine, step)
    except GravelerError as error:
        if getattr(errors, type(error).__name__, None) is type(error):
            raise
        raise of_kind(kind_of(error), str(error), {}) or error from error


def _response(machine: Machine, step: Step) -> dict[str, Any]:
    task = Task(step.repository, step.operation, step.attempt, step.round)
    if step.step == "note":
        machine.note(task, PartFailure(step.number, step.error.error, failure_message(step.error)))
        return {}
    if step.step == "fail":
        noted = machine.noted(task) if step.error.error == _A_PART_FAILED else None
        if noted is None:
            machine.fail(task, give_up_reason(step.error))
        else:
            machine.fail(task, f"part {noted.number}: {give_up_reason(Caught(noted.error, noted.cause))}")
        return {}
    if step.step == "plan":
        answer: object = machine.plan(task)
    elif step.step == "part":
        answer = machine.part(task, step.number)
    else:
        answer = machine.publish(task)
    document: dict[str, Any] = msgspec.to_builtins(answer)
    return document


def give_up_reason(caught: Caught) -> str:
    """Return the failure in words for a user, shown if no try has published: then none will."""
    message = failure_message(caught)
    cause = f"{caught.error}: {message}" if message else caught.error
    return f"it was retried and failed each time, finally with {cause}; nothing was changed"


def failure_message(caught: Caught) -> str:
    """Return the function's own error message, which Lambda wraps in JSON."""
    try:
        message = str(msgspec.json.decode(caught.cause, type=dict[str, Any])["errorMessage"])
    except (KeyError, *UNREADABLE):
        message = caught.cause
    return message[:_WHY_CHARS]
