"""Starter of operations in parts: one execution of a state machine for each attempt."""

import re
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from graveler.errors import UnavailableError
from graveler.operations.dispatcher import cannot_begin
from graveler.operations.machine import Task
from graveler.operations.store import Operation

_MADE_HERE: Final = re.compile("[0-9a-f]{32}")
"""IDs of operations that were generated here, so that no two repositories have the same one."""


class Executions(Protocol):
    """The executions of a state machine."""

    def start(self, name: str, task: str) -> None:
        """Start the execution of this name on a task, unless it was started already. One request.
        :class:`graveler.errors.UnavailableError` if it cannot be started."""
        ...


class ExecutionStarter:
    """A starter of executions of a state machine. Called twice for one attempt, it starts one."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    def begin(self, repository: str, operation: Operation) -> None:
        """Start an execution. One request. :class:`UnavailableError` if that fails; the sweep finds the operation and starts it
        later."""
        task = Task(repository, operation.id, operation.attempt)
        try:
            self._executions.start(execution_name(repository, operation), msgspec.json.encode(task).decode())
        except UnavailableError as error:
            raise cannot_begin(operation, error) from error


def execution_name(repository: str, operation: Operation) -> str:
    """Return the name of an attempt's execution: the operation's ID, or a digest of it if a client chose it, and the attempt's
    number. Step Functions remembers names for 90 days, longer than operations are kept."""
    name = operation.id
    if not _MADE_HERE.fullmatch(name):
        name = sha256(f"{repository}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"{name}-{operation.attempt}"
