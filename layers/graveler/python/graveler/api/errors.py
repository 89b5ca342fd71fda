"""From what went wrong to the status and the text that clients match. One table, and nowhere else.

Each text begins with the words that the field's clients look for, and goes on with what graveler has to say about it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from graveler.access.errors import AuthenticationError, NotPermittedError
from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    ConflictError,
    CorruptError,
    DirtyBranchError,
    ForbiddenError,
    GoneError,
    GravelerError,
    InvalidError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    ParentNotFoundError,
    PreconditionError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnavailableError,
)


class ApiError(Exception):
    """What only HTTP knows to be wrong: a status, a text and headers. 4xx or 501."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.message, self.headers = status, message, headers or {}
        super().__init__(message)


def bad_request(message: str) -> ApiError:
    """400: the request can never succeed as it is."""
    return ApiError(400, message)


UNKNOWN_ROUTE: Final = "invalid API endpoint"
NOT_IMPLEMENTED: Final = "not implemented"

_TAKEN: Final = {
    "repository": (409, "error creating repository: not unique"),
    "branch": (409, "branch already exists: not unique"),
    "tag": (409, "tag already exists: not unique"),
    "object": (412, "path already exists"),
}


def _taken(error: GravelerError) -> tuple[int, str]:
    kind = error.kind if isinstance(error, AlreadyExistsError) else ""
    status, words = _TAKEN.get(kind, (409, "already exists"))
    return status, f"{words} ({error})"


def _says(status: int, words: str) -> Callable[[GravelerError], tuple[int, str]]:
    return lambda error: (status, f"{words}: {error}" if words else str(error))


_TABLE: Final[tuple[tuple[type[GravelerError], Callable[[GravelerError], tuple[int, str]]], ...]] = (
    # The first that an error is an instance of counts, so narrower ones come first.
    (GoneError, _says(410, "gone")),
    (RepositoryNotFoundError, _says(404, "repository not found")),
    (ParentNotFoundError, _says(400, "invalid ref")),
    (RefNotFoundError, _says(404, "not found")),
    (NotFoundError, _says(404, "not found")),
    (AlreadyExistsError, _taken),
    (MergeConflictError, _says(409, "conflict found")),
    (ConflictError, _says(409, "conflict")),
    (NoChangesError, _says(400, "no changes")),
    (DirtyBranchError, _says(400, "uncommitted changes (dirty branch)")),
    (InvalidError, _says(400, "")),
    (PreconditionError, _says(412, "precondition failed")),
    (AuthenticationError, _says(401, "")),
    (NotPermittedError, _says(401, "")),
    (ForbiddenError, _says(403, "")),
    (BusyError, _says(429, "too many tries")),  # every client retries it
    (CorruptError, _says(500, "")),
    (UnavailableError, _says(503, "")),
)


def status_and_text(error: GravelerError) -> tuple[int, str]:
    """The HTTP status and the message of an error of the lake."""
    for kind, says in _TABLE:
        if isinstance(error, kind):
            return says(error)
    return 500, str(error)
