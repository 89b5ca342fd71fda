"""A program that keeps its own AWS credentials: its gateway verifies by those that it finds itself, by AWS's own rules.

Environment, profile, container and instance give every process of a job the same credentials. What assumes a role gives each
process others: those of the program cannot be known here, and are refused by a sentence.
"""

import time
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Final

from botocore.exceptions import NoCredentialsError
from botocore.session import Session
from msgspec import Struct

from graveler.access.permissions import Identity, Role
from graveler.errors import UnavailableError
from graveler.gateway.authorization import Signer
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.storage.aws_requests import FAILURES
from graveler.storage.objects.s3_signature import Keys

_FAILURES: Final = (*FAILURES, RuntimeError)
"""The SDK's; the last one: credentials that have expired, and were not renewed."""
_LOOKUP_SECONDS: Final = 2.0
"""Time between two looks for other credentials, which may be requests to the machine or to AWS."""


class OwnKeys(Struct, frozen=True):
    """AWS's credentials of this process; temporary ones end at ``expires`` (Unix seconds)."""

    keys: Keys
    expires: float | None = None


def find_own_keys() -> OwnKeys:
    """Return the credentials that AWS's SDK finds now in the environment of this process, its profile, or its role. Cost: none,
    or requests to the machine or to AWS. The SDK's errors."""
    source = Session().get_credentials()
    if source is None:
        raise NoCredentialsError
    frozen = source.get_frozen_credentials()
    end: datetime | None = getattr(source, "_expiry_time", None)  # of credentials that the SDK renews
    keys = Keys(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")
    return OwnKeys(keys, None if end is None else end.timestamp())


class OwnSigners:
    """The credentials of the process, and those that it had before: a program may sign by them until they expire. They have
    all rights of the process. ``find`` returns the present ones, ``clock`` Unix seconds.
    :class:`UnavailableError` if there are none."""

    def __init__(
        self,
        user: str,
        find: Callable[[], OwnKeys] = find_own_keys,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._user = user
        self._find = find
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, OwnKeys] = {}
        self._next_lookup = 0.0
        try:
            self._renew()
        except _FAILURES as error:
            raise UnavailableError(
                f"no AWS credentials to verify by: {error}. With `--own-keys` the program signs by credentials of its own, which "
                "this process has to find, too: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; or leave out "
                "`--own-keys`"
            ) from None

    def remembered(self, key_id: str) -> Signer | None:
        """See :meth:`Signers.remembered`."""
        credentials = self._known.get(key_id)
        if credentials is None or self._has_expired(credentials):
            return None
        keys = credentials.keys
        return Signer(Identity(key_id, self._user, Role.ADMIN), keys.secret_key, keys.token)

    def look_up(self, key_id: str, source: str, is_right: Callable[[str], bool]) -> Signer:
        """See :meth:`Signers.look_up`. Looks for other credentials, as they may have been renewed: no more than once in some
        seconds."""
        del source, is_right
        with self._lock:
            signer = self.remembered(key_id)
            if signer is None and self._clock() >= self._next_lookup:
                try:
                    self._renew()
                except _FAILURES as error:
                    raise S3Error(
                        "ServiceUnavailable",
                        f"access key {key_id[:40]!r} cannot be verified: {error}",
                        headers={"retry-after": "1"},
                    ) from None
                signer = self.remembered(key_id)
        if signer is not None:
            return signer
        if key_id in self._known:
            raise S3Error("ExpiredToken", "The provided token has expired.")
        raise S3Error(
            "InvalidAccessKeyId",
            f"access key {key_id[:40]!r} is none of those that the gateway finds, with `--own-keys`, in the environment, the "
            "profile or the role of `graveler run`. Each process that assumes a role, or logs in, gets a key of its own: let the "
            "environment hold one for all, as `aws configure export-credentials` writes it; or leave out `--own-keys`",
            fields={"AWSAccessKeyId": key_id[:128]},
        )

    def note_failure(self, key_id: str, source: str) -> None:
        """See :meth:`Signers.note_failure`. Nothing is counted: only this machine asks."""
        del key_id, source

    def _renew(self) -> None:
        self._next_lookup = self._clock() + _LOOKUP_SECONDS
        credentials = self._find()
        self._known[credentials.keys.access_key] = credentials

    def _has_expired(self, credentials: OwnKeys) -> bool:
        return credentials.expires is not None and self._clock() >= credentials.expires
