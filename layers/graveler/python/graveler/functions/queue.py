"""Operations that outlive a request, where the process does not: they go through a queue to a function that has the time.

A function stands still as soon as it has answered, so nothing may be left to its threads. The message names the operation; the
operation itself is in the table, as everywhere.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from graveler.functions.clients import client
from graveler.operations.dispatch import cannot_begin
from graveler.operations.store import Operation

if TYPE_CHECKING:
    from typing import Protocol

    class Queues(Protocol):
        """What is used of SQS's client."""

        def send_message(self, *, QueueUrl: str, MessageBody: str) -> object:  # noqa: N803 - AWS's names
            """Send one message."""
            ...


class OperationMessage(msgspec.Struct, frozen=True):
    """Which operation somebody is to work on."""

    repository: str
    operation: str


class QueueStarter:
    """Sends word of operations to a queue."""

    def __init__(self, queue_url: str) -> None:
        self._queue_url = queue_url

    def begin(self, repository: str, operation: Operation) -> None:
        """One message. :class:`UnavailableError` if the queue cannot be reached; the sweep finds the operation, and sends one."""
        from botocore.exceptions import BotoCoreError, ClientError

        message = OperationMessage(repository, operation.id)
        try:
            self._client.send_message(QueueUrl=self._queue_url, MessageBody=msgspec.json.encode(message).decode())
        except (BotoCoreError, ClientError) as error:
            raise cannot_begin(operation, error) from error

    @cached_property
    def _client(self) -> "Queues":
        made: Queues = client("sqs")
        return made
