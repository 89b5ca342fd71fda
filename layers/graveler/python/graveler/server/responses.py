"""Answers as the server sends them."""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

Headers = list[tuple[str, str]]
_ENCODER: Final = msgspec.json.Encoder()


class Pieces(Protocol):
    """A body that is read little by little."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, of which none is empty."""

    def close(self) -> None:
        """Let go of what they come from."""


class ServerResponse(msgspec.Struct):
    """A status, headers and a body, or the pieces of one. ``operation`` is its name in logs and metrics."""

    status: int
    headers: Headers
    body: bytes | Pieces = b""
    operation: str = ""


class RequestError(Exception):
    """A request that is refused before anybody looks at what it asks; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


def json_error(status: int, message: str, operation: str = "") -> ServerResponse:
    """An error as the API's clients read it."""
    return ServerResponse(
        status, [("content-type", "application/json")], _ENCODER.encode({"message": message}), operation
    )
