"""The one table from errors to the status and the text that clients match.

The words are exactly those that the published clients compare; graveler's own sentence is the ``detail`` beside them. Where
clients compare nothing, that sentence is the message.
"""

from collections.abc import Callable, Mapping
from typing import Final

from graveler.access.refusals import AuthenticationError, IdentityRefusedError, NotPermittedError
from graveler.errors import (
    AlreadyExistsError,
    AnswerLostError,
    BusyError,
    CheckSettingsError,
    ConflictError,
    CorruptError,
    DirtyBranchError,
    ForbiddenError,
    GoneError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    ParentNotFoundError,
    PreconditionError,
    ProtectedBranchError,
    ReadOnlyRepositoryError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.storage.objects.port import NotPermittedError as StoreRefusedError
from graveler.storage.secrets.keyring import SealingKeyLostError
from graveler.wire.error_documents import NOT_IMPLEMENTED_CODE, UNEXPECTED_CODE, Error, document


class ApiError(Exception):
    """A refusal that exists only in HTTP, 4xx or 501, or that has its own words there: then ``cause`` is the lake's error, which
    the client reconstructs. ``code`` is by default that of the status's group."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        detail: str = "",
        code: str = "",
        cause: GravelerError | None = None,
    ) -> None:
        self.status, self.headers = status, headers or {}
        if cause is not None:
            self.error = document(cause, message)
        else:
            self.error = Error(message, detail, code or _GROUPS.get(status, UNEXPECTED_CODE))
        super().__init__(message)


def bad_request(message: str) -> ApiError:
    """Return a 400: the request can never succeed as it is."""
    return ApiError(400, message)


_GROUPS: Final[Mapping[int, str]] = {
    400: InvalidError.code,
    401: ForbiddenError.code,
    403: ForbiddenError.code,
    404: NotFoundError.code,
    405: InvalidError.code,
    409: ConflictError.code,
    412: PreconditionError.code,
    429: BusyError.code,
    501: NOT_IMPLEMENTED_CODE,
}
"""The default code of each status."""

UNKNOWN_ROUTE: Final = "invalid API endpoint"
NOT_IMPLEMENTED: Final = "not implemented"
UNKNOWN_OUTCOME: Final = "the outcome is unknown"
"""The operation may have happened or not."""

_TAKEN: Final = {
    "repository": (409, "error creating repository: not unique"),
    "branch": (409, "branch already exists: not unique"),
    "tag": (409, "tag already exists: not unique"),
    "object": (412, "path already exists"),
}


def _taken(error: GravelerError) -> tuple[int, str]:
    kind = error.kind if isinstance(error, AlreadyExistsError) else ""
    return _TAKEN.get(kind, (409, "already exists"))


def _kind_of_ref(error: GravelerError) -> str:
    kind = error.kind if isinstance(error, RefNotFoundError) else ""
    return kind or "commit"


def _says(status: int, words: str = "") -> Callable[[GravelerError], tuple[int, str]]:
    return lambda _: (status, words)


_TABLE: Final[tuple[tuple[type[GravelerError], Callable[[GravelerError], tuple[int, str]]], ...]] = (
    # The first matching entry counts, so narrower classes come first.
    (GoneError, _says(410, "gone")),
    (RepositoryNotFoundError, _says(404, "repository not found")),
    (ParentNotFoundError, _says(400, "invalid ref")),
    (RefNotFoundError, lambda error: (404, f"{_kind_of_ref(error)} not found")),
    (ObjectNotFoundError, _says(404, "object not found")),
    (NotFoundError, _says(404, "not found")),
    (AlreadyExistsError, _taken),
    (MergeConflictError, _says(409, "conflict found")),
    (ConflictError, _says(409, "conflict")),
    (NoChangesError, _says(400, "no changes")),
    (DirtyBranchError, _says(400, "uncommitted changes (dirty branch)")),
    (LaterVersionError, _says(501)),  # clients repeat other 5xx, and this one goes on until the server is upgraded
    (InvalidError, _says(400)),
    (PreconditionError, _says(412, "precondition failed")),
    (AuthenticationError, _says(401)),
    (IdentityRefusedError, _says(401, str(AuthenticationError()))),
    (NotPermittedError, _says(401, "insufficient permissions")),
    (ProtectedBranchError, _says(403, "cannot write to protected branch")),
    (ReadOnlyRepositoryError, _says(403, "read-only repository")),
    (ForbiddenError, _says(403)),
    (BusyError, _says(429, "too many tries")),  # every client retries it
    (CorruptError, _says(500)),
    (
        StoreRefusedError,
        _says(500),
    ),  # this and the next last until somebody sets the deployment right: no client should retry
    (SealingKeyLostError, _says(500)),
    (CheckSettingsError, _says(500)),
    (AnswerLostError, _says(503, UNKNOWN_OUTCOME)),
    (UnavailableError, _says(503)),
)


def status_and_error(error: GravelerError) -> tuple[int, Error]:
    """Return the HTTP status and the document for an error of the lake."""
    for kind, says in _TABLE:
        if isinstance(error, kind):
            status, words = says(error)
            return status, document(error, words)
    return 500, document(error)
