"""Operations that outlive a request and are cut into parts: an execution of a state machine for each attempt."""

import re
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from graveler.functions.clients import client
from graveler.operations.dispatch import cannot_begin
from graveler.operations.machine import Task
from graveler.operations.store import Operation

if TYPE_CHECKING:
    from typing import Any, Protocol

    class StateMachines(Protocol):
        """What is used of Step Functions' client."""

        def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> Any:  # noqa: A002, N803 - AWS's names
            """Start one."""
            ...


_MADE_HERE: Final = re.compile("[0-9a-f]{32}")
"""IDs of operations that nobody chose, so that no two repositories have the same one."""

_BEGUN: Final = "ExecutionAlreadyExists"


class ExecutionStarter:
    """Starts executions of the state machine with this ARN. Asked twice for one attempt, it starts one."""

    def __init__(self, machine_arn: str) -> None:
        self._machine_arn = machine_arn

    def begin(self, repository: str, operation: Operation) -> None:
        """One request. :class:`UnavailableError` if nobody can begin now; the sweep finds the operation and has it begun."""
        from botocore.exceptions import BotoCoreError, ClientError

        task = Task(repository, operation.id, operation.attempt)
        try:
            self._client.start_execution(
                stateMachineArn=self._machine_arn,
                name=execution_name(repository, operation),
                input=msgspec.json.encode(task).decode(),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _BEGUN:
                raise cannot_begin(operation, error) from error
        except BotoCoreError as error:
            raise cannot_begin(operation, error) from error

    @cached_property
    def _client(self) -> "StateMachines":
        made: StateMachines = client("stepfunctions")
        return made


def execution_name(repository: str, operation: Operation) -> str:
    """Of an attempt: the operation's ID, or a digest of it where somebody chose it, and the attempt's number. Step Functions
    remembers names for 90 days, longer than operations are kept."""
    name = operation.id
    if not _MADE_HERE.fullmatch(name):
        name = sha256(f"{repository}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"{name}-{operation.attempt}"
