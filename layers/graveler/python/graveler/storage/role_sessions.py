"""Adapter: sessions of a role of AWS, by STS, which a policy narrows."""

from typing import Any, Final

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, Clients, error_code, explained
from graveler.storage.objects.s3_signature import Keys

MAX_POLICY: Final = 2048
"""Characters of a policy of a session (https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html)."""
MIN_SECONDS: Final = 900
"""Shortest lifetime of a session."""
MAX_SECONDS: Final = 3600
"""Longest one of a role that is assumed by another role's session."""

_TOO_LARGE: Final = frozenset(("PackedPolicyTooLarge", "PackedPolicyTooLargeException"))


class PolicyTooLargeError(InvalidError):
    """STS cannot pack the policy of a session, which has too many places in it."""


class RoleSession(Struct, frozen=True):
    """Credentials of a session, until ``ends`` (Unix seconds)."""

    keys: Keys
    ends: float


def assume_role(role: str, name: str, policy: str, seconds: int, region: str | None = None) -> RoleSession:
    """Return a session of a role, known to AWS by ``name``, that has those rights of the role that ``policy`` has, too. One
    request to STS, which lasts half a minute at most. :class:`PolicyTooLargeError`; :class:`UnavailableError` if it fails."""
    subject = f"assuming the role {role!r}"
    try:
        answer = _CLIENTS.get(region).assume_role(
            RoleArn=role, RoleSessionName=name, Policy=policy, DurationSeconds=seconds
        )
    except FAILURES as error:
        if error_code(error) in _TOO_LARGE:
            raise PolicyTooLargeError(
                f"{subject}: the policy of the session names too many places ({error})"
            ) from error
        explanation = explained(error, subject)
        raise (
            explanation if isinstance(explanation, UnavailableError) else UnavailableError(str(explanation))
        ) from error
    credentials = answer["Credentials"]
    keys = Keys(credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"])
    return RoleSession(keys, credentials["Expiration"].timestamp())


def _connect(region: str | None) -> Any:
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"})
    return boto3.session.Session(region_name=region_of(region)).client("sts", config=config)


_CLIENTS: Final[Clients[str | None, Any]] = Clients(_connect)
