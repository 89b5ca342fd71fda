"""Refusals as Iceberg's clients understand them.

A client deletes the files that it wrote for a commit when the response is a 4xx, and keeps them when it is a 500 or none
arrives. So a 4xx is for what has had no effect, and 500 with ``CommitStateUnknownException`` for an unknown outcome, or one
that is still to come.
"""

import logging
from typing import Final

from graveler.access.refusals import AuthenticationError, NotPermittedError, TooManyFailuresError
from graveler.api.errors import ApiError
from graveler.api.response import Response, json_response
from graveler.errors import (
    AlreadyExistsError,
    AnswerLostError,
    BusyError,
    ConflictError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RuleError,
    TooMuchWorkError,
    UnavailableError,
)
from graveler.lake.iceberg.catalog_errors import (
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    RelationExistsError,
    RelationNotFoundError,
)

_UNKNOWN: Final = (500, "CommitStateUnknownException")
_RESPONSES: Final[tuple[tuple[type[GravelerError], int, str], ...]] = (
    # The first matching entry counts, so narrower classes come first.
    (AuthenticationError, 401, "NotAuthorizedException"),
    (NotPermittedError, 403, "ForbiddenException"),
    (TooManyFailuresError, 429, "TooManyRequestsException"),
    (NamespaceNotFoundError, 404, "NoSuchNamespaceException"),
    (NotFoundError, 404, "NotFoundException"),
    (NamespaceNotEmptyError, 409, "NamespaceNotEmptyException"),
    (AlreadyExistsError, 409, "AlreadyExistsException"),
    (ConflictError, 409, "CommitFailedException"),
    (TooMuchWorkError, *_UNKNOWN),  # its candidate stays open, and may still be published
    (InvalidError, 400, "BadRequestException"),
    (ForbiddenError, 403, "ForbiddenException"),
    (PreconditionError, 403, "ForbiddenException"),
    (BusyError, 429, "TooManyRequestsException"),
    (AnswerLostError, *_UNKNOWN),
    (UnavailableError, *_UNKNOWN),
    (CorruptError, 500, "InternalServerError"),
)
_NO_SUCH_RELATION: Final = {"table": "NoSuchTableException", "view": "NoSuchViewException"}
_STATUS_TYPES: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "BadRequestException",
    409: "CommitFailedException",
    413: "BadRequestException",
    422: "UnprocessableEntityException",
    429: "TooManyRequestsException",
    500: "CommitStateUnknownException",
    501: "UnsupportedOperationException",
    503: "ServiceUnavailableException",
}

_log = logging.getLogger("graveler.api")


def refusal(error: Exception, subject: str, request_id: str) -> Response:
    """Return the response to a failed request of the catalog."""
    if isinstance(error, ApiError):
        words = error.error.detail or error.error.message
        other = "BadRequestException" if error.status < 500 else "InternalServerError"
        return _response(error.status, _STATUS_TYPES.get(error.status, other), words)
    if not isinstance(error, GravelerError):
        _log.error("request %s: %s failed unexpectedly", request_id, subject, exc_info=error)
        return _response(*_UNKNOWN, f"unexpected error; see request ID {request_id} in the log")
    of_view = "View" in subject
    status, kind = _status_and_type(error, of_view=of_view)
    if status >= 500:
        _log.error("request %s: %s: %s", request_id, subject, error)
    wait = str(error.retry_after) if isinstance(error, TooManyFailuresError) else "1"
    words = _words(error, of_view=of_view)
    return _response(status, kind, words, {"retry-after": wait} if status == 429 else None)


def _status_and_type(error: GravelerError, *, of_view: bool) -> tuple[int, str]:
    if of_view and isinstance(error, InvalidError):
        return 400, "IllegalArgumentException"  # clients keep their files after this type, but a view has none
    if isinstance(error, RelationNotFoundError):
        return 404, _NO_SUCH_RELATION[error.kind]
    if isinstance(error, RuleError) and error.candidate:
        return _UNKNOWN  # the candidate may still be published, and needs the files then
    return next(((status, kind) for group, status, kind in _RESPONSES if isinstance(error, group)), _UNKNOWN)


def _words(error: GravelerError, *, of_view: bool) -> str:
    """Return the sentence of an error, which begins with the words that clients compare. ``of_view``: the request is about a
    view."""
    match error:
        case RelationNotFoundError():
            return f"{error.kind.capitalize()} does not exist: {error.name} ({error})"
        case NamespaceNotFoundError():
            return f"Namespace does not exist: {error.name}"
        case NamespaceNotEmptyError():
            return f"Namespace {error.name} is not empty: {error}"
        case RelationExistsError(renamed=""):
            same = error.kind == "namespace" or (error.kind == "view") is of_view
            return (
                f"{error.kind.capitalize()} {'' if same else 'with same name '}already exists: {error.name} ({error})"
            )
        case RelationExistsError():
            return f"Cannot rename {error.renamed} to {error.name}. {error.kind.capitalize()} already exists ({error})"
    return str(error)


def _response(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return json_response({"error": {"message": message, "type": kind, "code": status}}, status, headers)
