"""The one table from the lake's errors to S3's codes. The lake's own sentence is the message."""

from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
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

_TABLE: Final[tuple[tuple[type[GravelerError], str], ...]] = (
    # The first matching entry counts, so narrower classes come first.
    (RepositoryNotFoundError, "NoSuchBucket"),
    (UploadMissingError, "NoSuchUpload"),
    (UploadNotFoundError, "NoSuchUpload"),
    (ExpiredCommitError, "InvalidObjectState"),  # S3's word for bytes that are not at hand: no client repeats it
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


def s3_error(error: GravelerError) -> S3Error:
    """Return S3's error for one of the lake's."""
    code = next((code for kind, code in _TABLE if isinstance(error, kind)), "InternalError")
    headers = {"retry-after": "1"} if code in ("SlowDown", "ServiceUnavailable") else {}
    return S3Error(code, str(error), headers=headers)
