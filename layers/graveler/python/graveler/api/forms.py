"""Bodies of type ``multipart/form-data``: the one part that holds an object's bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from graveler.api.errors import bad_request
from graveler.errors import UnavailableError
from graveler.storage.spooled import SpooledFile
from graveler.system.extras import not_installed

CONTENT: Final = "content"
"""Name of the part in which clients send the bytes."""

_PIECE: Final = 1 << 20


@contextmanager
def uploaded(content_type: str, body: bytes | Path) -> Iterator[tuple[bytes | Path, str]]:
    """Provide the bytes of an upload and their content type (empty if not given), whether it is a form or the bytes themselves.

    Valid inside the context only: the part is copied out of a form that is in a file. 400 for a damaged form, or one without a
    part called ``content``.
    """
    kind, _, _ = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        yield body, content_type
        return
    if isinstance(body, bytes):
        content = bytearray()
        part_type = _copy_part(content_type, iter([body]), content.extend)
        yield bytes(content), part_type
        return
    with SpooledFile("copying the file out of a form", f"{body.name}.", body.parent) as file:
        part_type = _copy_part(content_type, _read(body), file.write)
        file.flush()
        yield file.path, part_type


def _copy_part(content_type: str, body: Iterator[bytes], write: Callable[[bytes], object]) -> str:
    """Write the bytes of the part with ``write`` and return its content type."""
    try:
        from multipart import (  # few requests are forms
            MultipartError,
            MultipartSegment,
            PushMultipartParser,
            parse_options_header,
        )
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("an upload in a form", error.name, "api")) from None

    _, options = parse_options_header(content_type)
    segment: MultipartSegment | None = None
    in_content = False
    try:
        with PushMultipartParser(options.get("boundary", "").encode("latin-1", "replace")) as parser:
            for piece in body:
                for event in parser.parse(piece):
                    if isinstance(event, MultipartSegment):
                        in_content = event.name == CONTENT and segment is None
                        segment = event if in_content else segment
                    elif event and in_content:
                        write(event)
    except (MultipartError, ValueError) as error:
        raise bad_request(f"the form cannot be read: {error}") from None
    if segment is None:
        raise bad_request(f"the form has no part called {CONTENT!r} with the object's bytes")
    return segment.header("content-type", "") or ""


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
