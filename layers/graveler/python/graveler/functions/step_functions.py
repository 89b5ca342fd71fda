"""Adapter: a state machine of Step Functions."""

from functools import cached_property
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from graveler.errors import UnavailableError
from graveler.functions.clients import client

_BEGUN: Final = "ExecutionAlreadyExists"


class StateMachine:
    """The state machine with this ARN. No request until it is used."""

    def __init__(self, arn: str) -> None:
        self._arn = arn

    def start(self, name: str, task: str) -> None:
        """Start the execution of this name on a task, unless it was started already. One request. :class:`UnavailableError` if it
        cannot be started."""
        try:
            self._client.start_execution(stateMachineArn=self._arn, name=name, input=task)
        except ClientError as error:
            if error.response["Error"]["Code"] != _BEGUN:
                raise UnavailableError(str(error)) from error
        except BotoCoreError as error:
            raise UnavailableError(str(error)) from error

    @cached_property
    def _client(self) -> Any:
        return client("stepfunctions")
