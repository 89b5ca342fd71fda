"""Files that are sent as they are, to anybody: those of the web page, and documents that are made once."""

import zlib
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import Final

from graveler.api.negotiation import accepts, names_tag
from graveler.api.response import Response, no_content

REVALIDATED: Final = "no-cache"
"""A browser keeps the file, and asks each time whether it is still the same."""
IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""For a year nobody asks again: the name changes with the contents."""

GZIP: Final = 31
"""zlib's ``wbits`` for the container of gzip, without a time in it."""
_SMALLEST: Final = 9
"""The level of compression: it is done once."""


class StaticFile:
    """A file in memory. ``headers`` are sent with each response besides its type, ETag and ``Cache-Control``; ``varies`` names
    the request headers that decide whether it is sent at all."""

    def __init__(
        self,
        contents: bytes,
        content_type: str,
        cache_control: str = REVALIDATED,
        headers: Mapping[str, str] | None = None,
        varies: str = "",
    ) -> None:
        self._contents = contents
        self._headers = {
            "content-type": content_type,
            "cache-control": cache_control,
            "etag": f'W/"{sha256(contents).hexdigest()[:32]}"',  # weak: the same for both encodings
            "vary": f"{varies}, Accept-Encoding" if varies else "Accept-Encoding",
            "x-content-type-options": "nosniff",
            **(headers or {}),
        }

    @cached_property
    def _compressed(self) -> bytes | None:
        """The file in gzip, unless that saves less than a tenth, as of images. The first request that accepts it waits for it:
        20 ms for 300 kB."""
        smaller = zlib.compress(self._contents, _SMALLEST, GZIP)
        return smaller if len(smaller) < len(self._contents) * 9 // 10 else None

    def respond(self, method: str, headers: Mapping[str, str]) -> Response:
        """Return the response to a GET or HEAD with these headers (names in lower case): the file, in gzip if the client accepts
        that, or a 304. No request."""
        sent = dict(self._headers)
        if names_tag(headers.get("if-none-match", ""), sent["etag"]):
            return no_content(sent, 304)
        body = self._compressed if accepts(headers.get("accept-encoding", ""), "gzip") else None
        if body is None:
            body = self._contents
        else:
            sent["content-encoding"] = "gzip"
        if method == "HEAD":
            sent["content-length"] = str(len(body))
            body = b""
        return Response(200, sent, body)
