"""The one table from errors to exit codes, and the one place that prints errors on stderr."""

import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from graveler.cli.defaults import used_default
from graveler.cli.terminal import Screen, prints_json
from graveler.cli.values import conflict_lines
from graveler.errors import (
    BusyError,
    CheckSettingsError,
    ConflictError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    MergeConflictError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)

DEBUG: Final = "GRAVELER_DEBUG"
"""The variable that, set to 1, shows the traceback of an unexpected error."""

_SHOWN_CONFLICTS: Final = 100


class ExitCode(IntEnum):
    """The meaning of the command's exit status."""

    OK = 0
    UNEXPECTED = 1
    INVALID = 2
    NOT_FOUND = 3
    CONFLICT = 4
    PRECONDITION = 5
    FORBIDDEN = 6
    BUSY = 7
    CORRUPT = 8
    UNAVAILABLE = 9
    LATER_VERSION = 10
    INTERRUPTED = 130
    READER_GONE = 141


MEANINGS: Final = {
    ExitCode.OK: "done",
    ExitCode.UNEXPECTED: "unexpected error, a bug; GRAVELER_DEBUG=1 shows the traceback",
    ExitCode.INVALID: "invalid usage, or a request that can never succeed",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.CONFLICT: "conflict: a name is taken, or both sides changed an object",
    ExitCode.PRECONDITION: "not ready: nothing to commit, uncommitted changes, not confirmed",
    ExitCode.FORBIDDEN: "not allowed",
    ExitCode.BUSY: "busy with other changes; try again",
    ExitCode.CORRUPT: "stored bytes are not what was written",
    ExitCode.UNAVAILABLE: "disk, network or permission failure; the message says if the change may have been made anyway",
    ExitCode.LATER_VERSION: "made by a later version of graveler, which this one cannot read; upgrade",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    ExitCode.READER_GONE: "the reader of the output closed it, as `| head` does",
}

_CODES: Final[Mapping[type[GravelerError], ExitCode]] = {
    NotFoundError: ExitCode.NOT_FOUND,
    ConflictError: ExitCode.CONFLICT,
    LaterVersionError: ExitCode.LATER_VERSION,
    InvalidError: ExitCode.INVALID,
    PreconditionError: ExitCode.PRECONDITION,
    ForbiddenError: ExitCode.FORBIDDEN,
    BusyError: ExitCode.BUSY,
    CorruptError: ExitCode.CORRUPT,
    CheckSettingsError: ExitCode.UNAVAILABLE,
    UnavailableError: ExitCode.UNAVAILABLE,
}

EXIT_CODES: Final = "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANINGS.items())
"""The table in the help."""


UNSURE: Final = "a change in progress may or may not have been made: check before you repeat it"


class InterruptedVerbError(Exception):
    """Ctrl-C, with what is known about the interrupted work."""

    def __init__(self, what_holds: str = "nothing was changed") -> None:
        self.what_holds = what_holds
        super().__init__(what_holds)


class ListedError(Exception):
    """An error, with a line for each of the things it concerns."""

    def __init__(self, error: GravelerError, lines: Sequence[str]) -> None:
        self.error, self.lines = error, lines
        super().__init__(str(error))


class ReaderGoneError(Exception):
    """The reader of stdout closed it."""


def exit_code(error: GravelerError) -> ExitCode:
    """Return the code of an error's group."""
    return next((code for group, code in _CODES.items() if isinstance(error, group)), ExitCode.UNEXPECTED)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code with which any exception ends a command."""
    match error:
        case ListedError():
            return exit_code(error.error)
        case GravelerError():
            return exit_code(error)
        case InterruptedVerbError() | KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case ReaderGoneError() | BrokenPipeError():
            return ExitCode.READER_GONE
        case OSError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.UNEXPECTED


def sentence_of(error: BaseException) -> str:
    """Return an exception in words for the user, without a hint."""
    match error:
        case InterruptedVerbError():
            return f"interrupted; {error.what_holds}"
        case KeyboardInterrupt():
            return f"interrupted; {UNSURE}"
        case GravelerError():
            return str(error)
        case OSError():
            name = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
            return f"the system refused{name}: {error.strerror or error}"
        case _:
            return f"this is a bug in graveler: {type(error).__name__}: {error} (set {DEBUG}=1 to see where)"


def hint_of(error: GravelerError) -> str:
    """Return sentences that follow the message of an error; "" without any."""
    from graveler.cli.hints import hint_for  # loads difflib, which a command that succeeds does without

    return ". ".join(sentence for sentence in (hint_for(error), used_default()) if sentence)


def report(error: BaseException) -> ExitCode:
    """Report an error and its remedy on stderr, as JSON if the command is to print that, and return the exit code."""
    code = exit_code_of(error)
    if code is not ExitCode.READER_GONE:
        screen = Screen(sys.stderr)
        if prints_json():
            _report_as_json(screen, error, code)
        else:
            _report_in_words(screen, error)
    return code


def _report_as_json(screen: Screen, error: BaseException, code: ExitCode) -> None:
    from graveler.cli.error_documents import error_document

    cause = error.error if isinstance(error, ListedError) else error
    screen.json(
        error_document(
            KeyboardInterrupt() if isinstance(error, InterruptedVerbError) else cause,
            sentence_of(cause),
            code.value,
            hint=hint_of(cause) if isinstance(cause, GravelerError) else "",
            items=error.lines if isinstance(error, ListedError) else None,
            with_traceback=os.environ.get(DEBUG) == "1",
        )
    )


def _report_in_words(screen: Screen, error: BaseException) -> None:
    match error:
        case InterruptedVerbError() | KeyboardInterrupt():
            screen.line(sentence_of(error))
        case ListedError():
            _say(screen, _with_hint(error.error))
            for line in error.lines:
                screen.line(f"  {screen.safe(line)}")
        case MergeConflictError():
            _say(screen, _with_hint(error))
            for line in conflict_lines(screen, error.conflicts[:_SHOWN_CONFLICTS], error.source, error.destination):
                screen.line(line)
            if len(error.conflicts) > _SHOWN_CONFLICTS:
                screen.line(f"  … and {len(error.conflicts) - _SHOWN_CONFLICTS:,} more; --json lists all")
        case GravelerError():
            _say(screen, _with_hint(error))
        case OSError():
            _say(screen, sentence_of(error))
        case _:
            if os.environ.get(DEBUG) == "1":
                import traceback

                traceback.print_exception(error)
            _say(screen, sentence_of(error))


def report_lost_output(error: OSError) -> ExitCode:
    """Report that the final output of a verb, whose work is done, could not be written to stdout."""
    if isinstance(error, BrokenPipeError):
        return ExitCode.READER_GONE
    screen, message = Screen(sys.stderr), f"the output could not be written: {error.strerror or error}"
    if prints_json():
        from graveler.cli.error_documents import output_document

        screen.json(output_document(message, ExitCode.UNAVAILABLE.value))
    else:
        _say(screen, message)
    return ExitCode.UNAVAILABLE


def report_usage(message: str, command: str) -> ExitCode:
    """Report an invalid command line on stderr, and where its help is."""
    screen, message, advice = Screen(sys.stderr), message.rstrip("."), f"see `{command} --help`"
    if prints_json():
        from graveler.cli.error_documents import usage_document

        screen.json(usage_document(message, command, advice, ExitCode.INVALID.value))
    else:
        _say(screen, f"{message}; {advice}")
    return ExitCode.INVALID


def _with_hint(error: GravelerError) -> str:
    hint = hint_of(error)
    return f"{str(error).removesuffix('.')}. {hint}" if hint else str(error)


def _say(screen: Screen, message: str) -> None:
    screen.line(f"{screen.paint('error:', 'red', 'bold')} {screen.safe(message)}")
