"""Adapter: texts in AWS Secrets Manager."""

from typing import Final

import boto3

from graveler.errors import NotFoundError
from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, error_code, explained, send
from graveler.system.retries import Retries

_MISSING: Final = "ResourceNotFoundException"


def read_secret(name: str, region: str | None = None) -> str:
    """Return the text of the secret ``name``, an ARN, or a name in ``region``; empty if it holds none.

    An ARN contains the region itself; without both, AWS's configuration does. One request. :class:`NotFoundError`;
    :class:`graveler.errors.UnavailableError` if this process may not read it.
    """
    subject = f"reading secret {name!r}"
    parts = name.split(":")
    where = parts[3] if parts[0] == "arn" and len(parts) > 3 else region
    try:
        client = boto3.session.Session(region_name=region_of(where)).client("secretsmanager")
        response = send(lambda: client.get_secret_value(SecretId=name), subject, Retries())
    except FAILURES as error:
        if error_code(error) == _MISSING:
            raise NotFoundError(
                f"secret {name!r} does not exist; check its name, the account and the region"
            ) from error
        raise explained(error, subject) from error
    text: str = response.get("SecretString", "")
    return text
