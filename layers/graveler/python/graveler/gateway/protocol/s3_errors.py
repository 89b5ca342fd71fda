"""S3's errors: codes, statuses and the document that tells them."""

from collections.abc import Mapping
from typing import Final

from graveler.gateway.protocol.xml_text import XML_DECLARATION, escape

STATUSES: Final[Mapping[str, int]] = {
    "AccessDenied": 403,
    "AccessForbidden": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "ConditionalRequestConflict": 409,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "ExpiredToken": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidChunkSizeError": 403,
    "InvalidDigest": 400,
    "InvalidLocationConstraint": 400,
    "InvalidObjectState": 403,
    "InvalidPart": 400,
    "InvalidPartNumber": 416,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidTag": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedTrailerError": 400,
    "MalformedXML": 400,
    "MaxMessageLengthExceeded": 400,
    "MetadataTooLarge": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchBucketPolicy": 404,
    "NoSuchCORSConfiguration": 404,
    "NoSuchConfiguration": 404,
    "NoSuchKey": 404,
    "NoSuchLifecycleConfiguration": 404,
    "NoSuchObjectLockConfiguration": 404,
    "NoSuchPublicAccessBlockConfiguration": 404,
    "NoSuchTagSet": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NoSuchWebsiteConfiguration": 404,
    "NotImplemented": 501,
    "ObjectLockConfigurationNotFoundError": 404,
    "OwnershipControlsNotFoundError": 404,
    "PreconditionFailed": 412,
    "ReplicationConfigurationNotFoundError": 404,
    "RequestTimeTooSkewed": 403,
    "RequestTimeout": 400,
    "ServerSideEncryptionConfigurationNotFoundError": 404,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "UnexpectedContent": 400,
    "XAmzContentSHA256Mismatch": 400,
}
"""HTTP statuses by code. Source: the list of error codes in the Amazon S3 API reference (``API/ErrorResponses.html``)."""


class S3Error(Exception):
    """An error of S3's protocol. ``fields`` are further elements of its document, ``headers`` those of its response. The
    ``status`` is that of the code, unless S3 itself has sent another one."""

    def __init__(
        self,
        code: str,
        message: str,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUSES[code] if status is None else status
        self.fields: Mapping[str, str] = fields or {}
        self.headers: Mapping[str, str] = headers or {}

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def invalid_argument(message: str, name: str, value: str) -> S3Error:
    """Return the error for an argument (a header or a parameter of the query) with a wrong value."""
    return S3Error("InvalidArgument", message, {"ArgumentName": name, "ArgumentValue": value[:1024]})


def error_document(error: S3Error, resource: str, request_id: str) -> bytes:
    """Return the body of an error's response. ``resource`` is the path that was asked for."""
    elements = {"Code": error.code, "Message": error.message, **error.fields}
    elements |= {"Resource": resource, "RequestId": request_id}
    content = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in elements.items())
    return f"{XML_DECLARATION}<Error>{content}</Error>".encode()
