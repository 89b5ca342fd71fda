"""Errors of commands with ``--json``: one JSON object on one line of stderr. docs/errors.md describes it for users.

Loaded only after an error.
"""

import os
from typing import Final

from graveler.cli.exits import (
    DEBUG,
    ExitCode,
    InterruptedVerbError,
    ListedError,
    exit_code_of,
    hint_of,
    sentence_of,
)
from graveler.cli.terminal import Json
from graveler.error_codes import code_of, fields_of
from graveler.errors import GravelerError, UnavailableError

USAGE_CODE: Final = "usage"
"""The command line makes no sense: an unknown command or option, a missing argument."""
INTERRUPTED_CODE: Final = "interrupted"
"""Ctrl-C; the message says what holds."""
UNEXPECTED_CODE: Final = "unexpected"
"""A bug."""


def error_document(error: BaseException) -> Json:
    """Return an error that ended a command: its code and fields as on the wire, the sentence for people, the hint apart from it,
    and the exit code. ``items`` are the lines that follow the message, one for each of the things that it concerns. Conflicts are
    in the verb's own document, on stdout."""
    more: dict[str, object] = {}
    code, fields = INTERRUPTED_CODE, {}
    if isinstance(error, ListedError):
        more["items"] = list(error.lines)
        error = error.error
    if isinstance(error, GravelerError):
        code, fields = code_of(error), fields_of(error)
    elif isinstance(error, OSError):
        code = UnavailableError.code
        if isinstance(error.filename, str | bytes):
            fields = {"file": os.fsdecode(error.filename)}
    elif not isinstance(error, InterruptedVerbError | KeyboardInterrupt):
        code = UNEXPECTED_CODE
        if os.environ.get(DEBUG) == "1":
            import traceback

            more["traceback"] = "".join(traceback.format_exception(error))
    hint = hint_of(error) if isinstance(error, GravelerError) else ""
    return _document(code, sentence_of(error), fields, hint, exit_code_of(error), more)


def usage_document(message: str, command: str, advice: str) -> Json:
    """Return the error of a command line that makes no sense; ``command`` is the one whose help explains it."""
    return _document(USAGE_CODE, message, {"command": command}, advice, ExitCode.INVALID, {})


def output_document(message: str) -> Json:
    """Return the error of a verb that is done, but whose output could not be written."""
    return _document(UnavailableError.code, message, {}, "", ExitCode.UNAVAILABLE, {})


def _document(code: str, message: str, fields: Json, hint: str, ends_with: ExitCode, more: Json) -> Json:
    advice = {"hint": hint} if hint else {}
    return {
        "error": {"code": code, "message": message, "fields": fields, **advice, **more, "exit_code": ends_with.value}
    }
