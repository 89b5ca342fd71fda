"""AWS's credentials for requests that are signed in the event loop: looked up and renewed in a thread, by AWS's own rules."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from botocore.exceptions import NoCredentialsError
from botocore.session import Session

from graveler.storage.aws_requests import FAILURES
from graveler.storage.objects.s3_signature import Keys, S3Signer

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_RENEWAL_SECONDS: Final = 5.0
"""Time between two tries to renew credentials that are still valid, if the first one did not help."""


class S3Credentials:
    """The signer for ``region``. Some minutes before the credentials end they are renewed in the background; until then, and as
    long as that fails, requests are signed with the old ones."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._source: Credentials | None = None
        self._signer: S3Signer | None = None
        self._keys = Keys("", "")
        self._renewal: asyncio.Task[S3Signer] | None = None
        self._next_renewal = 0.0

    async def signer(self) -> S3Signer:
        """Return the signer with valid keys. It makes a caller wait only if there are none. The SDK's errors."""
        if self._signer is not None:
            if not self._ends_within(None):
                return self._signer
            if not self._ends_within(0):
                if monotonic() > self._next_renewal:
                    self._renew()
                return self._signer
        return await asyncio.shield(self._renew())

    def forget(self) -> None:
        """Look for other credentials before the next request: the service says that these have expired."""
        self._source = self._signer = None

    def _ends_within(self, seconds: int | None) -> bool:
        """Return whether the credentials end so soon; None: so soon that the SDK renews them."""
        is_ending = getattr(self._source, "refresh_needed", None)
        return is_ending is not None and bool(is_ending(seconds))

    def _renew(self) -> "asyncio.Task[S3Signer]":
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._load_in_thread())
            self._renewal.add_done_callback(self._end_renewal)
        return self._renewal

    def _end_renewal(self, renewal: "asyncio.Task[S3Signer]") -> None:
        self._renewal = None
        with suppress(*FAILURES, asyncio.CancelledError):  # raised to those that wait; others have valid credentials
            renewal.result()

    async def _load_in_thread(self) -> S3Signer:
        keys = await asyncio.to_thread(self._load)
        if self._signer is None or keys != self._keys:
            self._keys = keys
            self._signer = S3Signer(keys, self._region)
        else:
            self._next_renewal = monotonic() + _RENEWAL_SECONDS
        return self._signer

    def _load(self) -> Keys:
        source = self._source or Session().get_credentials()
        if source is None:
            raise NoCredentialsError
        frozen = source.get_frozen_credentials()
        self._source = source
        return Keys(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")
