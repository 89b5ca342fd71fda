"""Requests as S3's clients send them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote, urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.gateway.protocol.head import Head

KEY_ID: Final = "AKIAIOSFODNN7EXAMPLE"
SECRET: Final = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
"""The credentials of the examples in AWS's documentation."""

NOW: Final = datetime(2013, 5, 24, tzinfo=UTC).timestamp()
"""The time of these examples."""

EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def head_of(method: str, url: str, headers: Mapping[str, str]) -> Head:
    """Return the head of a request to ``url`` as the server hands it over."""
    address = urlsplit(url)
    lower = {name.lower(): value for name, value in headers.items()}
    return Head(method, unquote(address.path) or "/", address.query, {"host": address.netloc} | lower)


def signed_by_botocore(
    method: str, url: str, headers: Mapping[str, str], body: bytes = b"", token: str | None = None
) -> Head:
    """Return the head of a request that botocore signed, now by the clock, in its headers."""
    request = AWSRequest(method, url, dict(headers), body)
    S3SigV4Auth(Credentials(KEY_ID, SECRET, token), "s3", "eu-south-1").add_auth(request)
    return head_of(method, str(request.url), {name: _text(value) for name, value in request.headers.items()})


def presigned_by_botocore(method: str, url: str, headers: Mapping[str, str], seconds: int) -> Head:
    """Return the head of a request with a URL that botocore presigned, now by the clock."""
    request = AWSRequest(method, url, dict(headers))
    S3SigV4QueryAuth(Credentials(KEY_ID, SECRET), "s3", "eu-south-1", seconds).add_auth(request)
    return head_of(method, str(request.url), {name: _text(value) for name, value in request.headers.items()})


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
