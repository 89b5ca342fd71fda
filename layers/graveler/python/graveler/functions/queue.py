"""Starter of operations by a queue, for processes that end with their request: another function takes the message.

A function stops as soon as it has responded, so nothing may be left to its threads. The message names the operation; the
operation itself is in the table, as everywhere.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from graveler.errors import UnavailableError
from graveler.operations.dispatcher import cannot_begin
from graveler.operations.store import Operation


class Queue(Protocol):
    """A queue of messages, which come again until they are deleted."""

    def send(self, body: str, attributes: Mapping[str, str] | None = None) -> None:
        """Send one message. One request. :class:`graveler.errors.UnavailableError` if the queue cannot be reached."""
        ...

    def put_off(self, seconds: Mapping[str, int]) -> list[str]:
        """Make messages come again after so many seconds each (from now, at most 12 hours after they came), by their receipt
        handles; return the reasons of failures. One request for ten, and no more once the queue cannot be reached. Raises
        nothing: a message that cannot be put off comes at the queue's own interval."""
        ...


class OperationMessage(msgspec.Struct, frozen=True):
    """A message that names an operation to work on."""

    repository: str
    operation: str


class QueueStarter:
    """A starter that sends messages about operations to a queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def begin(self, repository: str, operation: Operation) -> None:
        """Send one message. :class:`UnavailableError` if the queue cannot be reached; the sweep finds the operation, and sends
        one."""
        message = OperationMessage(repository, operation.id)
        try:
            self._queue.send(msgspec.json.encode(message).decode())
        except UnavailableError as error:
            raise cannot_begin(operation, error) from error
