"""The callers of a gateway: the secret with which each signs, and what each may do."""

import time
from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol

from msgspec import Struct

from graveler.access.failure_limits import Failures
from graveler.access.keys import Keys
from graveler.access.permissions import Identity, Role
from graveler.access.refusals import KeyNotFoundError, TooManyFailuresError
from graveler.gateway.protocol.s3_errors import S3Error

TRUSTED: Final = 5.0
"""Seconds for which a key's secret is remembered: as long as a verified credential of the HTTP API."""
_AFTER_FAILURES: Final = 60.0
"""Seconds for which a secret distinguishes the requests of its holder after too many failures."""
_REMEMBERED: Final = 1_000


class Signer(Struct, frozen=True):
    """The holder of an access key, and the secret with which that key signs. ``token`` is the session token that its requests
    carry, "" for none; None: they are not asked for one."""

    identity: Identity
    secret: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Signer({self.identity!r}, secret=…)"

    def expect_token(self, token: str) -> None:
        """Check the session token of a request whose signature is right. :class:`S3Error`."""
        if self.token is not None and not compare_digest(self.token.encode(), token.encode()):
            raise S3Error("InvalidToken", "The provided token is malformed or otherwise invalid.")


class Signers(Protocol):
    """The access keys of a gateway."""

    def remembered(self, key_id: str) -> Signer | None:
        """Return the signer of a key, if that needs no request."""

    def look_up(self, key_id: str, source: str, is_right: Callable[[str], bool]) -> Signer:
        """Return the signer of a key. ``source`` is the caller's network address, and ``is_right`` whether a secret is that of
        the request. One table read at most. :class:`S3Error` for a key that does not sign here."""

    def note_failure(self, key_id: str, source: str) -> None:
        """Note that a request of this key had a wrong signature."""


class JobSigner:
    """The only key of a job, made for its program, which has all rights of the process."""

    def __init__(self, key_id: str, secret: str, user: str) -> None:
        self._signer = Signer(Identity(key_id, user, Role.ADMIN), secret)

    def remembered(self, key_id: str) -> Signer | None:
        """See :meth:`Signers.remembered`."""
        return self._signer if key_id == self._signer.identity.key_id else None

    def look_up(self, key_id: str, source: str, is_right: Callable[[str], bool]) -> Signer:
        """See :meth:`Signers.look_up`."""
        del source, is_right
        raise S3Error(
            "InvalidAccessKeyId",
            f"access key {key_id[:40]!r} is not the one that `graveler run` gave to this program. A key or a profile that is "
            "named in code or in a client's configuration comes before the environment's; leave it out",
            fields={"AWSAccessKeyId": key_id[:128]},
        )

    def note_failure(self, key_id: str, source: str) -> None:
        """See :meth:`Signers.note_failure`. Nothing is counted: the key is random, and only this machine asks."""
        del key_id, source


class _Remembered(Struct, frozen=True):
    signer: Signer
    since: float


class LakeSigners:
    """The access keys of a lake that were made for S3. ``now`` is a monotonic clock (seconds)."""

    def __init__(self, keys: Keys, now: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._now = now
        self._failures = Failures(now)
        self._signers: dict[str, _Remembered] = {}

    def remembered(self, key_id: str, seconds: float = TRUSTED) -> Signer | None:
        """See :meth:`Signers.remembered`: one that was looked up within so many seconds."""
        remembered = self._signers.get(key_id)
        if remembered is None or self._now() >= remembered.since + seconds:
            return None
        return remembered.signer

    def look_up(self, key_id: str, source: str, is_right: Callable[[str], bool]) -> Signer:
        """See :meth:`Signers.look_up`. After too many failures the table is read only for a request that has the secret as it
        was lately: so failures lock out no holder of a key, and a revoked one ends in time."""
        try:
            self._failures.check(source, key_id)
        except TooManyFailuresError as error:
            signer = self.remembered(key_id, _AFTER_FAILURES)
            if signer is None or not is_right(signer.secret):
                raise S3Error("SlowDown", str(error), headers={"retry-after": str(error.retry_after)}) from None
        began = self._now()
        try:
            key, secret = self._keys.signing_secret(key_id)
        except KeyNotFoundError:
            self._signers.pop(key_id, None)
            self._failures.note(source, key_id)
            raise S3Error(
                "InvalidAccessKeyId",
                f"access key {key_id[:40]!r} does not exist here, was revoked, or was not made for S3; an admin makes one with "
                "`graveler keys create --s3`",
                fields={"AWSAccessKeyId": key_id[:128]},
            ) from None
        if len(self._signers) >= _REMEMBERED:
            self._signers.clear()
        signer = Signer(key.identity(), secret)
        self._signers[key_id] = _Remembered(signer, began)
        return signer

    def note_failure(self, key_id: str, source: str) -> None:
        """See :meth:`Signers.note_failure`. A key that does not exist was counted when it was looked up."""
        if key_id in self._signers:
            self._failures.note(source, key_id)
