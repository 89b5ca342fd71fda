"""Clients of the services that functions notify, which must not keep a busy function waiting."""

from typing import Any, Final, Literal

from graveler.storage.aws_configuration import region_of

CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
ATTEMPTS: Final = 3


def client(service: Literal["sqs", "stepfunctions", "secretsmanager"]) -> Any:
    """Return a client of a service, which gives up after :data:`ATTEMPTS` of some seconds each. (By itself, botocore waits for a
    minute, four or five times.) No request."""
    import boto3  # not on the path of a cold start
    from botocore.config import Config

    limits = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
    )
    return boto3.client(service, region_name=region_of(None), config=limits)
