"""The one table from errors to exit codes, and the one place that prints errors on stderr."""

import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from graveler.cli.defaults import used_default
from graveler.cli.terminal import Screen
from graveler.cli.values import conflict_lines
from graveler.errors import (
    BusyError,
    ConflictError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
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
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    ExitCode.READER_GONE: "the reader of the output closed it, as `| head` does",
}

_CODES: Final[Mapping[type[GravelerError], ExitCode]] = {
    NotFoundError: ExitCode.NOT_FOUND,
    ConflictError: ExitCode.CONFLICT,
    InvalidError: ExitCode.INVALID,
    PreconditionError: ExitCode.PRECONDITION,
    ForbiddenError: ExitCode.FORBIDDEN,
    BusyError: ExitCode.BUSY,
    CorruptError: ExitCode.CORRUPT,
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


def report(error: BaseException) -> ExitCode:
    """Report an error and its remedy on stderr, and return the exit code."""
    screen = Screen(sys.stderr)
    if isinstance(error, InterruptedVerbError):
        screen.line(f"interrupted; {error.what_holds}")
        return ExitCode.INTERRUPTED
    if isinstance(error, KeyboardInterrupt):
        screen.line(f"interrupted; {UNSURE}")
        return ExitCode.INTERRUPTED
    if isinstance(error, ReaderGoneError | BrokenPipeError):
        return ExitCode.READER_GONE
    if isinstance(error, ListedError):
        _say(screen, _with_hint(error.error))
        for line in error.lines:
            screen.line(f"  {screen.safe(line)}")
        return exit_code(error.error)
    if isinstance(error, MergeConflictError):
        _say(screen, _with_hint(error))
        for line in conflict_lines(screen, error.conflicts[:_SHOWN_CONFLICTS], error.source, error.destination):
            screen.line(line)
        if len(error.conflicts) > _SHOWN_CONFLICTS:
            screen.line(f"  … and {len(error.conflicts) - _SHOWN_CONFLICTS:,} more; --json lists all")
        return ExitCode.CONFLICT
    if isinstance(error, GravelerError):
        _say(screen, _with_hint(error))
        return exit_code(error)
    if isinstance(error, OSError):
        named = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
        _say(screen, f"the system refused{named}: {error.strerror or error}")
        return ExitCode.UNAVAILABLE
    if os.environ.get(DEBUG) == "1":
        import traceback

        traceback.print_exception(error)
    _say(screen, f"this is a bug in graveler: {type(error).__name__}: {error} (set {DEBUG}=1 to see where)")
    return ExitCode.UNEXPECTED


def report_lost_output(error: OSError) -> ExitCode:
    """Report that the final output of a verb, whose work is done, could not be written to stdout."""
    if isinstance(error, BrokenPipeError):
        return ExitCode.READER_GONE
    _say(Screen(sys.stderr), f"the output could not be written: {error.strerror or error}")
    return ExitCode.UNAVAILABLE


def report_usage(message: str, command: str) -> ExitCode:
    """Report an invalid command line on stderr, and where its help is."""
    _say(Screen(sys.stderr), f"{message.rstrip('.')}; see `{command} --help`")
    return ExitCode.INVALID


def _with_hint(error: GravelerError) -> str:
    from graveler.cli.hints import hint_for  # loads difflib, which a command that succeeds does without

    sentences = [sentence for sentence in (hint_for(error), used_default()) if sentence]
    return ". ".join([str(error).removesuffix("."), *sentences]) if sentences else str(error)


def _say(screen: Screen, message: str) -> None:
    screen.line(f"{screen.paint('error:', 'red', 'bold')} {screen.safe(message)}")
