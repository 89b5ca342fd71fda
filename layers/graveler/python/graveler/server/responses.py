"""Responses in the server's form."""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

Headers = list[tuple[str, str]]
_ENCODER: Final = msgspec.json.Encoder()


class Pieces(Protocol):
    """A body that is read piece by piece."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces, none of them empty."""

    def close(self) -> None:
        """Release their source."""


class ServerResponse(msgspec.Struct):
    """A status, headers and a body, or the pieces of one. ``operation`` is its name in logs and metrics. ``early``: the client
    may still be sending its body, of which this much may be ignored, in bytes."""

    status: int
    headers: Headers
    body: bytes | Pieces = b""
    operation: str = ""
    early: int = 0


class RequestError(Exception):
    """A request that is refused before the application sees it; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


def json_error(status: int, message: str, operation: str = "") -> ServerResponse:
    """Return an error as the API's clients read it."""
    return ServerResponse(
        status,
        [("content-type", "application/json"), ("cache-control", "no-store")],
        _ENCODER.encode({"message": message}),
        operation,
    )
