"""Adapter: a queue of SQS."""

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from graveler.errors import UnavailableError
from graveler.functions.clients import client

_AT_ONCE: Final = 10
"""Maximum number of messages per request."""


class SqsQueue:
    """The queue with this URL. No request until it is used."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, body: str, attributes: Mapping[str, str] | None = None) -> None:
        """Send one message. One request. :class:`UnavailableError` if the queue cannot be reached."""
        described = {name: {"DataType": "String", "StringValue": value} for name, value in (attributes or {}).items()}
        optional = {"MessageAttributes": described} if described else {}
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=body, **optional)
        except (BotoCoreError, ClientError) as error:
            raise UnavailableError(str(error)) from error

    def put_off(self, seconds: Mapping[str, int]) -> list[str]:
        """Make messages come again after so many seconds each, by their receipt handles; return the reasons of failures. One
        request for ten. A request that fails as a whole is the last one: each further one could take as long.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibilityBatch.html"""
        refused: list[str] = []
        waits = iter(seconds.items())
        while some := list(islice(waits, _AT_ONCE)):
            entries = [
                {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": wait}
                for number, (handle, wait) in enumerate(some)
            ]
            try:
                response = self._client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
            except (BotoCoreError, ClientError) as error:
                return [*refused, str(error)]
            refused += (failure.get("Message", "") for failure in response.get("Failed", ()))
        return refused

    @cached_property
    def _client(self) -> Any:
        return client("sqs")
