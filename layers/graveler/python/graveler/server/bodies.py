"""Bodies of requests: read as a whole, bounded, large ones into a file.

A client that goes away in the middle must not leave half of what it sent. With ``Content-Length`` the bytes are counted; JSON and
multipart forms have an end of their own. A chunked body of another kind whose end is missing looks complete here: the HTTP
server tells WSGI nothing else. It is taken all the same, because the published Python client sends its direct uploads that way.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from msgspec import Struct

from graveler.server.answers import RequestError
from graveler.server.settings import ServerSettings

PIECE: Final = 1 << 20
"""Bytes that are read at once."""


class Body(Struct):
    """A whole body: in memory, or in a file that is removed after the request."""

    data: bytes = b""
    file: Path | None = None


def declared_length(environ: Mapping[str, Any]) -> int | None:
    """``Content-Length``, if there is one. :class:`RequestError` (400) for nonsense."""
    said = str(environ.get("CONTENT_LENGTH") or environ.get("HTTP_CONTENT_LENGTH") or "")
    if not said:
        return None
    if not (said.isascii() and said.isdigit()):
        raise RequestError(400, f"header Content-Length {said[:40]!r} is no number of bytes")
    return int(said)


def pieces(environ: Mapping[str, Any], limit: int) -> Iterator[bytes]:
    """The body as it arrives. :class:`RequestError`: 413 beyond ``limit`` bytes, 400 if the client goes away before its end."""
    length = declared_length(environ)
    if length is not None and length > limit:
        raise RequestError(413, f"the body has {length:,} bytes; at most {limit:,} are taken here")
    stream = environ["wsgi.input"]
    arrived = 0
    while length is None or arrived < length:
        piece = stream.read(PIECE if length is None else min(PIECE, length - arrived))
        if not piece:
            break
        arrived += len(piece)
        if arrived > limit:
            raise RequestError(413, f"the body has more than {limit:,} bytes, which are taken here at most")
        yield piece
    if length is not None and arrived < length:
        raise RequestError(400, f"the body ended after {arrived:,} of {length:,} bytes; send it again")


@contextmanager
def read_body(environ: Mapping[str, Any], settings: ServerSettings) -> Iterator[Body]:
    """The whole body. :class:`RequestError` as :func:`pieces`."""
    length = declared_length(environ)
    if length == 0 or (length is None and "HTTP_TRANSFER_ENCODING" not in environ):
        yield Body()
        return
    kind = str(environ.get("CONTENT_TYPE") or environ.get("HTTP_CONTENT_TYPE") or "").partition(";")[0].strip().lower()
    limit = settings.max_json_bytes if kind == "application/json" else settings.max_upload_bytes
    arriving = pieces(environ, limit)
    begun: list[bytes] = []
    size = 0
    for piece in arriving:
        begun.append(piece)
        size += len(piece)
        if size > settings.spool_bytes:
            break
    else:
        yield Body(b"".join(begun))
        return
    with NamedTemporaryFile(prefix="graveler-body-") as file:
        for piece in begun:
            file.write(piece)
        begun.clear()
        for piece in arriving:
            file.write(piece)
        file.flush()
        yield Body(file=Path(file.name))
