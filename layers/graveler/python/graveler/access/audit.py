"""The audit log: who did what, from where, and with what outcome.

A line of JSON for each changing request and each presigned URL, through the standard logger ``graveler.audit`` at level INFO, or
to a file (:func:`write_to`); the deployment chooses where the lines go. A line never holds a secret, a token or the signature of
a URL: an address is cut at its first ``?``.
"""

import logging
import os
from typing import Final

import msgspec

_log: Final = logging.getLogger(__name__)
_LOGGER: Final = logging.getLogger("graveler.audit")


class AuditLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line. ``time`` in Unix seconds, ``action`` an operation's ID (``uploadObject``), ``key_id`` and ``name`` of the caller
    (empty: unknown), ``source`` their network address, ``outcome`` an HTTP status or a word. ``principal`` is the AWS principal
    that logs in, or AWS's ID of the key that it signed with. ``paths`` are those of a request that names several; ``omitted`` is
    the number of those that are not listed, or, where a request was refused, of lines like this one that were not written."""

    time: float
    action: str
    outcome: str
    key_id: str = ""
    name: str = ""
    source: str = ""
    request_id: str = ""
    repository: str = ""
    ref: str = ""
    path: str = ""
    paths: tuple[str, ...] = ()
    omitted: int = 0
    address: str = ""
    principal: str = ""


class _File:
    descriptor: int | None = None


def write_to(descriptor: int | None) -> None:
    """Write all lines of this process to an open file, each in one piece; None: to the logger, through which a line takes ten
    times as long."""
    _File.descriptor = descriptor


def record(line: AuditLine) -> None:
    """Write one line. Costs next to nothing without a listener. The recorded action is done, and its response must say so: a line
    that cannot be written to a file goes to the program's log."""
    if _File.descriptor is not None:
        text = _printable(line)
        try:
            os.write(_File.descriptor, text.encode() + b"\n")
        except OSError as error:
            _log.error("the audit log cannot be written (%s): %s", error.strerror, text)
        return
    if not _LOGGER.isEnabledFor(logging.INFO):
        return
    _LOGGER.info("%s", _printable(line))


def _printable(line: AuditLine) -> str:
    if "?" in line.address:
        line = msgspec.structs.replace(line, address=line.address.partition("?")[0])
    # Paths may hold bytes that are not UTF-8, which arrive as lone surrogates: the encoder refuses those.
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:
        fields = {name: getattr(line, name) for name in line.__struct_fields__}
        plain = {k: v.encode(errors="backslashreplace").decode() for k, v in fields.items() if isinstance(v, str) and v}
        paths = [path.encode(errors="backslashreplace").decode() for path in line.paths]
        lists = {"paths": paths, "omitted": line.omitted} if paths else {}
        return msgspec.json.encode({"time": line.time, **plain, **lists}).decode()
