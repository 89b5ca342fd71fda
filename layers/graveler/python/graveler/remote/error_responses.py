"""Translation of an error response to the exception of a local lake: by its code, or else by its status."""

from collections.abc import Mapping
from typing import Final

from graveler.access.refusals import AuthenticationError
from graveler.errors import (
    BusyError,
    ConflictError,
    ForbiddenError,
    GoneError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from graveler.values.error_codes import rebuild
from graveler.wire.error_documents import Error

_GROUPS: Final[Mapping[int, type[GravelerError]]] = {
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    412: PreconditionError,
    429: BusyError,
    501: InvalidError,
    503: UnavailableError,
}
"""The exception for each status, used if no code is more specific."""

_TOO_LONG: Final = (414, 431)
"""Statuses for a request whose address, or address and headers, are longer than the server or a gateway before it takes."""

_LOG_IN: Final = (
    "the server does not accept this access key and secret, or this token; set GRAVELER_ACCESS_KEY_ID and "
    "GRAVELER_SECRET_ACCESS_KEY to a valid key, or log in again"
)


def refusal(status: int, document: Error, doing: str) -> GravelerError:
    """Return the error for a response with this status; ``what`` names the request if the response has no message."""
    sentence = document.sentence or f"{doing}: the server responded with status {status}"
    if document.code == AuthenticationError.code:
        sentence = f"{sentence}: {_LOG_IN}"
    error = rebuild(document.code, document.fields, sentence)
    if error is not None:
        return error
    if status in _TOO_LONG:
        return InvalidError(
            f"{sentence}: the address and headers of this request are longer than the server takes; name fewer paths or "
            "prefixes at once"
        )
    kind = _GROUPS.get(status)
    if kind is not None:
        return kind(sentence)
    return (UnavailableError if status >= 500 else InvalidError)(f"{sentence} (status {status})")
