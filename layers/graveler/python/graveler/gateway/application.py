"""The RSGI application of a gateway: authenticates requests, and hands each to the handler of its operation."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from graveler.errors import GravelerError, RefNotFoundError
from graveler.gateway import buckets, copying, key_listing, multipart, reading, writing
from graveler.gateway.arrival import respond_early
from graveler.gateway.audit_lines import AuditLines
from graveler.gateway.authorization import Signers
from graveler.gateway.exchange import SERVER, Channel, ClientGoneError, Exchange
from graveler.gateway.joined_run import run_is_over
from graveler.gateway.lake_errors import s3_error
from graveler.gateway.protocol.bucket_addresses import bucket_and_key
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.operation_names import operation_of
from graveler.gateway.protocol.s3_errors import S3Error, error_document
from graveler.gateway.protocol.signature import Claim, claim_of, verify
from graveler.gateway.service import Service
from graveler.system.random_bytes import random_bytes

_log: Final = logging.getLogger(__name__)

MAX_HEADERS: Final = 32 << 10
"""Limit on the total bytes of the names and values of a request's headers."""
DOMAINS: Final = ("localhost",)
"""The host names in front of which a bucket's name may stand."""

Handler = Callable[[Service, Exchange], Awaitable[None]]

_HANDLERS: Final[Mapping[str, Handler]] = {
    "GetObject": reading.get_object,
    "HeadObject": reading.head_object,
    "GetObjectAttributes": reading.get_object_attributes,
    "PutObject": writing.put_object,
    "CopyObject": copying.copy_object,
    "CreateMultipartUpload": multipart.create_multipart_upload,
    "UploadPart": multipart.upload_part,
    "UploadPartCopy": multipart.upload_part_copy,
    "ListParts": multipart.list_parts,
    "CompleteMultipartUpload": multipart.complete_multipart_upload,
    "AbortMultipartUpload": multipart.abort_multipart_upload,
    "ListMultipartUploads": multipart.list_multipart_uploads,
    "DeleteObject": writing.delete_object,
    "DeleteObjects": writing.delete_objects,
    "ListObjects": key_listing.list_objects,
    "ListObjectsV2": key_listing.list_objects,
    "ListBuckets": buckets.list_buckets,
    "HeadBucket": buckets.head_bucket,
    "GetBucketLocation": buckets.get_bucket_location,
    "CreateBucket": buckets.create_bucket,
}


class GatewayApplication:
    """The handler of a gateway's requests. Buckets are also subdomains of ``domains``; ``clock`` returns Unix seconds."""

    def __init__(
        self,
        service: Service,
        signers: Signers,
        clock: Callable[[], float] = time.time,
        domains: Sequence[str] = DOMAINS,
    ) -> None:
        self._service = service
        self._signers = signers
        self._clock = clock
        self._domains = domains
        self._audit = AuditLines(clock, domains)

    async def __call__(self, head: Head, source: str, scheme: str, channel: Channel) -> None:
        """Handle one request. ``source`` is the client's network address, ``scheme`` ``http`` or ``https``."""
        request_id = random_bytes(8).hex().upper()
        exchange: Exchange | None = None
        try:
            exchange = await self._authenticated(head, channel, request_id, scheme, source)
            handler = _HANDLERS.get(exchange.operation)
            sources = self._service.sources
            if sources is not None and exchange.bucket in sources:
                await sources.respond(exchange)
            elif handler is None:
                await buckets.plain_bucket(self._service, exchange)
            else:
                await handler(self._service, exchange)
        except ClientGoneError:
            _log.debug("request %s: the client disconnected", request_id)
        except Exception as error:  # noqa: BLE001 - any failure has a response
            if exchange is None:
                self._audit.refused(head, source, request_id, error)
            await self._refuse(channel, head, exchange, request_id, error)
        if exchange is not None:
            self._audit.changed(exchange, source)

    async def _authenticated(self, head: Head, channel: Channel, request_id: str, scheme: str, source: str) -> Exchange:
        """Return the request with its caller. :class:`S3Error` for one that is not signed as S3 demands."""
        if sum(len(name) + len(value) for name, value in head.headers.items()) > MAX_HEADERS:
            raise S3Error("MaxMessageLengthExceeded", f"the headers have more than {MAX_HEADERS:,} bytes in total")
        bucket, key = bucket_and_key(head, self._domains)
        operation = operation_of(head.method, bucket, key, head.parameters, head.headers)
        claim = claim_of(head)
        signer = self._signers.remembered(claim.access_key_id)
        if signer is None:
            now = self._clock()
            signer = await self._service.calls.long(
                lambda: self._signers.look_up(
                    claim.access_key_id, source, lambda secret: is_signed(head, claim, secret, now)
                )
            )
        try:
            payload = verify(head, claim, signer.secret, self._clock())
        except S3Error as error:
            if error.code == "SignatureDoesNotMatch":
                self._signers.note_failure(claim.access_key_id, source)
            raise
        signer.expect_token(claim.session_token)
        return Exchange(channel, head, operation, bucket, key, signer.identity, payload, request_id, scheme)

    async def _refuse(
        self, channel: Channel, head: Head, exchange: Exchange | None, request_id: str, failure: Exception
    ) -> None:
        """Respond with an error. If the response has begun, the connection breaks, which tells the client that it is not
        complete."""
        if isinstance(failure, RefNotFoundError) and self._service.joined is not None:
            error = run_is_over()  # and not that the object is missing
        elif isinstance(failure, GravelerError):
            error = s3_error(failure)
        elif isinstance(failure, S3Error):
            error = failure
        else:
            _log.error("request %s failed", request_id, exc_info=failure)
            error = S3Error(
                "InternalError",
                f"an unexpected failure, which the log of the gateway shows as request {request_id}",
            )
        if exchange is not None and exchange.answered:
            _log.warning("request %s broke off: %s", request_id, error.message)
            return
        if error.status >= 500:
            self._service.traffic.failures += 1
        headers = [("x-amz-request-id", request_id), ("server", SERVER), *error.headers.items()]
        if exchange is not None:
            exchange.status, exchange.answered = error.status, True
        if head.method == "HEAD":
            channel.response_empty(error.status, headers)
            return
        document = error_document(error, quote(head.path), request_id)
        headers.append(("content-type", "application/xml"))
        if _has_body(head) and not (exchange is not None and exchange.body_has_arrived):
            body = None if exchange is None else exchange.body
            await respond_early(channel, head, error.status, headers, document, body)
        else:
            channel.response_bytes(error.status, headers, document)


def is_signed(head: Head, claim: Claim, secret: str, now: float) -> bool:
    """Return whether a request is signed with a secret, at this time (Unix seconds)."""
    try:
        verify(head, claim, secret, now)
    except S3Error:
        return False
    return True


def _has_body(head: Head) -> bool:
    return head.headers.get("content-length", "0") != "0" or "transfer-encoding" in head.headers
