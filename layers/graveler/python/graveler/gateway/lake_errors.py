"""The one table from the lake's errors to S3's codes. The lake's own sentence is the message."""

from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    BytesGoneError,
    CorruptError,
    ExpiredCommitError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    NotFoundError,
    PreconditionError,
    RepositoryNotFoundError,
    UnavailableError,
    UploadNotFoundError,
)
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.storage.objects.port import NotPermittedError, UploadMissingError

CODES: Final[tuple[tuple[type[GravelerError], str], ...]] = (
    (RepositoryNotFoundError, "NoSuchBucket"),
    (UploadMissingError, "NoSuchUpload"),
    (UploadNotFoundError, "NoSuchUpload"),
    (ExpiredCommitError, "InvalidObjectState"),  # S3's word for bytes that are not at hand: no client repeats it
    (BytesGoneError, "InvalidObjectState"),  # a client would take NoSuchKey for an object that was never written
    (NotFoundError, "NoSuchKey"),
    (AlreadyExistsError, "PreconditionFailed"),
    (LaterVersionError, "NotImplemented"),
    (InvalidError, "InvalidArgument"),
    (PreconditionError, "PreconditionFailed"),
    (ForbiddenError, "AccessDenied"),
    (BusyError, "SlowDown"),
    (CorruptError, "InternalError"),
    (NotPermittedError, "AccessDenied"),  # the store refuses this process: repeating is useless
    (UnavailableError, "ServiceUnavailable"),
)
"""S3's codes of the lake's errors; the first class that matches counts."""


def s3_error(error: GravelerError) -> S3Error:
    """Return S3's error for one of the lake's."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), "InternalError")
    headers = {"retry-after": "1"} if code in ("SlowDown", "ServiceUnavailable") else {}
    return S3Error(code, str(error), headers=headers)
