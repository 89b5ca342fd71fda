"""A line of JSON for each request, and where the audit log goes."""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from graveler.access.audit import write_to
from graveler.storage.modes import PRIVATE

_ENCODER: Final = msgspec.json.Encoder()
_STDERR: Final = 2


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``time`` in Unix seconds when it was answered, ``ms`` from its head until its answer was made; an answer in
    pieces is made with its last one. The line of an answer in one piece is there before its client has it. ``query`` is empty
    for presigned URLs, whose query is their secret."""

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
    """Write it to stderr, in one piece, so that workers' lines do not mix."""
    os.write(_STDERR, _ENCODER.encode(line) + b"\n")


def now() -> float:
    """Unix seconds, to milliseconds."""
    return round(time.time(), 3)


def open_audit_log(file: Path | None) -> None:
    """Send the audit log (:mod:`graveler.access.audit`) to a file, which is appended to, or to stderr."""
    # Nobody else reads it: it says who did what, and from where.
    write_to(_STDERR if file is None else PRIVATE.open(file, os.O_WRONLY | os.O_APPEND))
