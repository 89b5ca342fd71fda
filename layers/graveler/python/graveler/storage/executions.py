"""Adapter: executions of state machines of AWS Step Functions, and the tokens by which their tasks are reported on."""

from typing import Any, Final

import boto3
from botocore.config import Config

from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, error_code, explained

_BEGUN: Final = "ExecutionAlreadyExists"
_LONGEST_CAUSE: Final = 32_000
"""Characters of a cause: https://docs.aws.amazon.com/step-functions/latest/apireference/API_SendTaskFailure.html"""


def start_execution(machine: str, name: str, document: str) -> None:
    """Start the execution of this name on a document of JSON, unless there was one. One request.
    :class:`graveler.errors.UnavailableError` if that fails."""
    try:
        _client(machine.split(":")[3]).start_execution(stateMachineArn=machine, name=name, input=document)
    except FAILURES as error:
        if error_code(error) != _BEGUN:
            raise explained(error, f"starting an execution of {machine!r}") from error


class Task:
    """A task of a state machine that waits for a report, known by its token."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._client = _client(None)

    def beat(self) -> None:
        """Say that the work goes on. One request; a failure is none of the work's, as a later beat may come through."""
        try:
            self._client.send_task_heartbeat(taskToken=self._token)
        except FAILURES:
            return

    def succeed(self, output: str) -> None:
        """Report the result, a document of JSON. One request. Errors as :func:`start_execution`: also of a task whose time was
        over."""
        self._report(lambda: self._client.send_task_success(taskToken=self._token, output=output))

    def fail(self, error: str, cause: str) -> None:
        """Report that there is no result, and why. As :meth:`succeed`."""
        self._report(
            lambda: self._client.send_task_failure(
                taskToken=self._token, error=error[:256], cause=cause[:_LONGEST_CAUSE]
            )
        )

    def _report(self, request: Any) -> None:
        try:
            request()
        except FAILURES as error:
            raise explained(error, "reporting the result of a task") from error


def _client(region: str | None) -> Any:
    config = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})
    return boto3.session.Session(region_name=region_of(region)).client("stepfunctions", config=config)
