"""Requests as they arrive over ASGI: their heads, and what is still to come of them."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote_from_bytes

import msgspec

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Request(msgspec.Struct, frozen=True):
    """The head of a request. ``path`` is percent-encoded, as it was sent; names of ``headers`` are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    source: str = ""
    protocol: str = "HTTP/1.1"


def request_of(scope: Scope) -> Request:
    """The head of what the server hands over. Headers of one name are joined by commas; cookies by semicolons."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, said = name.decode("latin-1"), value.decode("latin-1")
        if key in headers:
            said = f"{headers[key]}{'; ' if key == 'cookie' else ','}{said}"
        headers[key] = said
    path: bytes = scope["raw_path"]
    return Request(
        scope["method"],
        path.decode("ascii") if path.isascii() else quote_from_bytes(path, _AS_SENT),
        scope["query_string"].decode("latin-1"),
        headers,
        scope["client"][0] if scope["client"] else "",
        f"HTTP/{scope['http_version']}",
    )


_AS_SENT = "".join(map(chr, range(0x21, 0x7F)))
