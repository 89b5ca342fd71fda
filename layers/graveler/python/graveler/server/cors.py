"""Permissions for scripts of pages from other sites (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol).

It admits nobody without a key: browsers send neither cookies nor passwords along.
"""

import re
from collections.abc import Sequence
from typing import Final

from graveler.errors import InvalidError
from graveler.server.requests import Request
from graveler.server.responses import ServerResponse

_ANY: Final = "*"
_ORIGIN: Final = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_STANDARD_PORTS: Final = (("http://", ":80"), ("https://", ":443"))
_MAX_AGE: Final = "3600"
_PREFLIGHT: Final = (
    ("access-control-allow-methods", _ANY),
    ("access-control-allow-headers", "authorization, *"),  # a star does not stand for this one
    ("access-control-max-age", _MAX_AGE),
)


class CrossOrigin:
    """The sites whose pages may use the server: ``origins`` such as ``https://example.org``, or ``*`` for all. Without any,
    nothing is allowed. :class:`InvalidError` for what is no origin."""

    def __init__(self, origins: Sequence[str]) -> None:
        for origin in origins:
            if origin != _ANY and not _ORIGIN.fullmatch(origin):
                raise InvalidError(f"origin {origin!r} is not that of a web page; write https://HOST, or * for all")
        self._origins = frozenset(map(_serialized, origins))

    def headers(self, request: Request) -> list[tuple[str, str]]:
        """Return what a response to the request has besides."""
        if not self._origins:
            return []
        vary = ("vary", "Origin")
        origin = request.headers.get("origin", "")
        if not self._allows(origin):
            return [vary]
        return [("access-control-allow-origin", origin), ("access-control-expose-headers", _ANY), vary]

    def preflight(self, request: Request) -> ServerResponse | None:
        """Return the response to a browser that asks what a page may do, or None if it is another request, or from a page that
        may do nothing."""
        if request.method != "OPTIONS" or "access-control-request-method" not in request.headers:
            return None
        if not self._allows(request.headers.get("origin", "")):
            return None
        return ServerResponse(204, list(_PREFLIGHT), operation="preflight")

    def _allows(self, origin: str) -> bool:
        return bool(origin) and (_ANY in self._origins or origin.lower() in self._origins)


def _serialized(origin: str) -> str:
    """Return an origin as browsers write it (https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin): in small letters,
    and without the port that its scheme implies."""
    small = origin.lower()
    for scheme, port in _STANDARD_PORTS:
        if small.startswith(scheme):
            small = small.removesuffix(port)
    return small
