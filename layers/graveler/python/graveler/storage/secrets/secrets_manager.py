"""Adapter: secrets in AWS Secrets Manager."""

import re
from typing import Final

import boto3
from botocore.config import Config

from graveler.errors import InvalidError
from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import send_or_explain
from graveler.system.retries import Retries

_ARN: Final = re.compile(r"arn:[^:]+:secretsmanager:([^:]+):[^:]*:secret:.+")


def read_secret(arn: str) -> str:
    """Return the text of the secret with this ARN. One request (``secretsmanager:GetSecretValue``).
    :class:`InvalidError` for a secret without a text, :class:`graveler.errors.UnavailableError` if it cannot be read."""
    named = _ARN.fullmatch(arn)
    if named is None:
        raise InvalidError(f"{arn!r} is no ARN of a secret in Secrets Manager; give the whole one")
    client = boto3.session.Session(region_name=region_of(named[1])).client(
        "secretsmanager", config=Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 1})
    )
    answer = send_or_explain(lambda: client.get_secret_value(SecretId=arn), f"reading secret {arn!r}", Retries())
    text = answer.get("SecretString", "")
    if not text:
        raise InvalidError(f"secret {arn!r} has no text; store the key as a text")
    return str(text)
