"""Requests as they arrive over ASGI: heads, and the types for receiving bodies."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import quote_from_bytes

import msgspec

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_LONGEST_ADDRESS: Final = 64
"""Characters."""


class Request(msgspec.Struct, frozen=True):
    """The head of a request. ``path`` is percent-encoded, as sent; ``headers`` have lower-case names, and ``header_bytes`` is the
    size of names and values together."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    source: str = ""
    protocol: str = "HTTP/1.1"
    header_bytes: int = 0


def request_of(scope: Scope, client_address_header: str = "", base_path: str = "/") -> Request:
    """Return the head of an ASGI request, with the path below ``base_path`` if it lies there. Headers of the same name are joined
    by commas, cookies by semicolons. The client's address is the last one in the header that a proxy in front appends to (its
    name in lower case), if there is such a proxy."""
    headers: dict[str, str] = {}
    size = 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        key, text = name.decode("latin-1"), value.decode("latin-1")
        if key in headers:
            text = f"{headers[key]}{'; ' if key == 'cookie' else ','}{text}"
        headers[key] = text
    raw_path: bytes = scope["raw_path"]
    path = raw_path.decode("ascii") if raw_path.isascii() else quote_from_bytes(raw_path, _AS_SENT)
    if base_path != "/" and f"{path}/".startswith(base_path):  # a proxy in front may have removed it
        path = path[len(base_path) - 1 :] or "/"
    source = scope["client"][0] if scope["client"] else ""
    if client_address_header and (addresses := headers.get(client_address_header)):
        source = addresses.rpartition(",")[2].strip()[:_LONGEST_ADDRESS]
    return Request(
        scope["method"],
        path,
        scope["query_string"].decode("latin-1"),
        headers,
        source,
        f"HTTP/{scope['http_version']}",
        size,
    )


_AS_SENT = "".join(map(chr, range(0x21, 0x7F)))
