"""Adapter: functions of AWS Lambda."""

import boto3
from botocore.config import Config
from msgspec import Struct

from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, explained


class Invocation(Struct, frozen=True):
    """The result of a function: what it returned, or, if it ``failed``, what Lambda says of that."""

    payload: bytes
    failed: bool


def invoke(name: str, payload: bytes, seconds: int) -> Invocation:
    """Call the function ``name``, an ARN, or a name in the region of AWS's configuration, and wait for its result. One request,
    which is not repeated. :class:`graveler.errors.UnavailableError` if it cannot be called, or does not end in time."""
    parts = name.split(":")
    region = parts[3] if parts[0] == "arn" and len(parts) > 3 else None
    try:
        config = Config(connect_timeout=5, read_timeout=seconds, retries={"total_max_attempts": 1})
        client = boto3.session.Session(region_name=region_of(region)).client("lambda", config=config)
        response = client.invoke(FunctionName=name, InvocationType="RequestResponse", Payload=payload)
        return Invocation(response["Payload"].read(), "FunctionError" in response)
    except FAILURES as error:
        raise explained(error, f"calling function {name!r}") from error
