"""Errors of commands with ``--json``: one JSON object on one line of stderr. docs/errors.md describes it for users.

Loaded only after an error.
"""

import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

from graveler.cli.terminal import Json
from graveler.errors import GravelerError, UnavailableError
from graveler.values.error_codes import code_of, fields_of

USAGE_CODE: Final = "usage"
"""The command line makes no sense: an unknown command or option, a missing argument."""
INTERRUPTED_CODE: Final = "interrupted"
"""Ctrl-C; the message says what holds."""
UNEXPECTED_CODE: Final = "unexpected"
"""A bug."""


def error_document(
    error: BaseException,
    message: str,
    exit_code: int,
    *,
    hint: str = "",
    items: Sequence[str] | None = None,
    with_traceback: bool = False,
) -> Json:
    """Return an error that ended a command: its code and fields as on the wire, the sentence for people, the hint apart from it,
    and the exit code. ``items`` are the lines that follow the message, one for each of the things that it concerns. Ctrl-C is a
    ``KeyboardInterrupt``. Conflicts are in the verb's own document, on stdout."""
    more: dict[str, object] = {} if items is None else {"items": list(items)}
    match error:
        case GravelerError():
            return _document(code_of(error), message, fields_of(error), exit_code, hint, more)
        case OSError():
            fields = {"file": os.fsdecode(error.filename)} if isinstance(error.filename, str | bytes) else {}
            return _document(UnavailableError.code, message, fields, exit_code, hint, more)
        case KeyboardInterrupt():
            return _document(INTERRUPTED_CODE, message, {}, exit_code, hint, more)
        case _:
            if with_traceback:
                more["traceback"] = "".join(traceback.format_exception(error))
            return _document(UNEXPECTED_CODE, message, {}, exit_code, hint, more)


def usage_document(message: str, command: str, hint: str, exit_code: int) -> Json:
    """Return the error of a command line that makes no sense; ``command`` is the one whose help explains it."""
    return _document(USAGE_CODE, message, {"command": command}, exit_code, hint, {})


def output_document(message: str, exit_code: int) -> Json:
    """Return the error of a verb that is done, but whose output could not be written."""
    return _document(UnavailableError.code, message, {}, exit_code, "", {})


def _document(
    code: str, message: str, fields: Mapping[str, object], exit_code: int, hint: str, more: Mapping[str, object]
) -> Json:
    advice = {"hint": hint} if hint else {}
    return {"error": {"code": code, "message": message, "fields": fields, **advice, **more, "exit_code": exit_code}}
