"""A line of JSON for each request, and the destination of the audit log."""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from graveler.access.audit import write_to
from graveler.storage.file_modes import PRIVATE

_ENCODER: Final = msgspec.json.Encoder()
_STDERR: Final = 2


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``time`` (Unix seconds) is when the response was complete, ``ms`` the milliseconds from the request's head
    until then; a response in pieces is complete with its last piece. The line of a response in one piece is written before the
    client has it. ``query`` is empty for presigned URLs, whose query is their secret."""

    log: str = "request"
    time: float
    method: str
    path: str
    query: str
    status: int
    ms: float
    operation: str
    source: str
    agent: str
    request_id: str
    worker: int


def write_line(line: RequestLine) -> None:
    """Write the line to stderr, in one piece, so that workers' lines do not mix."""
    os.write(_STDERR, _ENCODER.encode(line) + b"\n")


def now() -> float:
    """Return Unix seconds, rounded to milliseconds."""
    return round(time.time(), 3)


def open_audit_log(file: Path | None) -> None:
    """Send the audit log (:mod:`graveler.access.audit`) to a file, in append mode, or to stderr."""
    # Private to its owner: it records who did what, and from where.
    write_to(_STDERR if file is None else PRIVATE.open(file, os.O_WRONLY | os.O_APPEND))
