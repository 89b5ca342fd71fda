"""Operations that outlive a request, where the process does not: they go through a queue to a function that has the time.

A function stands still as soon as it has answered, so nothing may be left to its threads. The message names the operation; the
operation itself is in the table, as everywhere.
"""

from functools import cached_property
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING

import msgspec

from graveler.lake.repository import OpenRepository
from graveler.operations.kinds import KINDS
from graveler.operations.runner import Runner
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.tables import Tables

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


class QueuedRunner(Runner):
    """Writes operations down and sends word of them to a queue; works on none itself."""

    def __init__(self, tables: Tables, queue_url: str) -> None:
        super().__init__(tables, KINDS)
        self._table = tables
        self._queue_url = queue_url

    def start(self, repository: OpenRepository, kind: str, request: bytes, operation_id: str = "") -> Operation:
        """Write an operation down and send word of it. With an ID of an operation that there is, nothing new begins, but word is
        sent again if it has not ended: the first one's may have died before. One table write, one message; one read more if it
        is there."""
        self._expect(kind)
        now = time()
        operations = Operations(self._table, repository.repository.uid)
        operation = Operation(
            operation_id or token_hex(16), kind, request, OperationState.RUNNING, created=now, updated=now
        )
        if not operations.add(operation):
            operation = operations.get(operation.id)
        if not operation.is_finished:
            self._send(OperationMessage(repository.repository.name, operation.id))
        return operation

    def look(self, repository: OpenRepository, operation_id: str) -> Operation:
        """How far an operation is. One table read. The queue sees to those whose worker has died."""
        return Operations(self._table, repository.repository.uid).get(operation_id)

    def _send(self, message: OperationMessage) -> None:
        self._client.send_message(QueueUrl=self._queue_url, MessageBody=msgspec.json.encode(message).decode())

    @cached_property
    def _client(self) -> "Queues":
        import boto3  # not on the path of a cold start

        client: Queues = boto3.client("sqs")
        return client
