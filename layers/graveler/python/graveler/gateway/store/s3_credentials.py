"""AWS's credentials for requests that are signed in the event loop: looked up and renewed in a thread, by AWS's own rules."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from botocore.exceptions import NoCredentialsError
from botocore.session import Session

from graveler.gateway.store.s3_signature import Keys, S3Signer

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_RENEWAL_SECONDS: Final = 5.0
"""Shortest time between two renewals of credentials that are still valid."""


class S3Credentials:
    """The signer for ``region``. It is made anew when the credentials are about to end: botocore renews them some minutes before,
    and meanwhile they stay valid."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._source: Credentials | None = None
        self._signer: S3Signer | None = None
        self._keys = Keys("", "")
        self._lock = asyncio.Lock()
        self._renewed = 0.0

    async def signer(self) -> S3Signer:
        """Return the signer with valid keys. No request, and no thread, while they last. botocore's errors."""
        if self._signer is not None and not self._must_renew():
            return self._signer
        async with self._lock:
            if self._signer is None or self._must_renew():
                keys = await asyncio.to_thread(self._load)
                self._renewed = monotonic()
                if self._signer is None or keys != self._keys:
                    self._keys = keys
                    self._signer = S3Signer(keys, self._region)
            return self._signer

    def forget(self) -> None:
        """Look for other credentials before the next request: the service says that these have expired."""
        self._source = self._signer = None

    def _must_renew(self) -> bool:
        renewal_needed = getattr(self._source, "refresh_needed", None)
        return renewal_needed is not None and renewal_needed() and monotonic() > self._renewed + _RENEWAL_SECONDS

    def _load(self) -> Keys:
        if self._source is None:
            self._source = Session().get_credentials()
        if self._source is None:
            raise NoCredentialsError
        frozen = self._source.get_frozen_credentials()
        return Keys(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")
