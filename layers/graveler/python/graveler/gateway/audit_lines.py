"""The gateway's lines of the audit log: one for each request that changes a branch, and for those that are refused for their
signature or key.

Anybody can send the latter, so a process writes :data:`MOST_REFUSALS` of them in a minute at most.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from graveler.access.audit import AuditLine, record
from graveler.gateway.exchange import Exchange
from graveler.gateway.protocol.bucket_addresses import bucket_and_key
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.operation_names import operation_of
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.signature import claim_of

CHANGES: Final = frozenset(("PutObject", "CopyObject", "DeleteObject", "DeleteObjects", "CompleteMultipartUpload"))
"""Operations that change a branch."""
MOST_REFUSALS: Final = 60
"""Lines of refused requests in a minute."""
MOST_CHARACTERS: Final = 16 << 10
"""Limit on the characters of the keys in a line."""
_MINUTE: Final = 60.0


class AuditLines:
    """The lines of a gateway whose buckets are also subdomains of ``domains``. ``clock`` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float], domains: Sequence[str]) -> None:
        self._clock = clock
        self._domains = domains
        self._window = -1
        self._written = 0
        self._omitted = 0

    def changed(self, exchange: Exchange, source: str) -> None:
        """Write the line of a request, if it changes a branch. ``source`` is the caller's network address."""
        if exchange.operation not in CHANGES:
            return
        listed: list[str] = []
        room = MOST_CHARACTERS
        for key in exchange.keys:
            room -= len(key)
            if room < 0:
                break
            listed.append(key)
        record(
            AuditLine(
                time=self._clock(),
                action=exchange.operation,
                outcome=str(exchange.status),
                key_id=exchange.identity.key_id,
                name=exchange.identity.name,
                source=source,
                request_id=exchange.request_id,
                repository=exchange.bucket,
                path=exchange.key,
                paths=tuple(listed),
                omitted=len(exchange.keys) - len(listed),
            )
        )

    def refused(self, head: Head, source: str, request_id: str, error: Exception) -> None:
        """Write the line of a request whose caller is not known. One that the service cannot check is none."""
        if not isinstance(error, S3Error) or error.status not in (400, 403):
            return
        now = self._clock()
        if int(now // _MINUTE) != self._window:
            self._window, self._written = int(now // _MINUTE), 0
        if self._written == MOST_REFUSALS:
            self._omitted += 1
            return
        self._written += 1
        omitted, self._omitted = self._omitted, 0
        bucket = key = key_id = operation = ""
        with suppress(S3Error):
            bucket, key = bucket_and_key(head, self._domains)
            operation = operation_of(head.method, bucket, key, head.parameters, head.headers)
            key_id = claim_of(head).access_key_id
        record(
            AuditLine(
                time=now,
                action=operation,
                outcome=error.code,
                key_id=key_id[:128],
                source=source,
                request_id=request_id,
                repository=bucket[:256],
                path=key[:1024],
                omitted=omitted,
            )
        )
