"""The entry point: run a command line, turn whatever happens into an exit code."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from graveler.errors import InvalidError
from graveler.secret_variables import execute_again, take_over

_LONG_LIVED: Final = frozenset(("serve", "watch"))
"""Verbs that run until somebody stops them. As a word of another command one of these costs 20 ms and does no harm."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` without argument) and return its exit code. Never raises, bar what :mod:`sys` needs."""
    _open_closed_streams()
    _never_fail_on_encoding()
    try:
        if arguments is None:
            arguments = sys.argv[1:]
            if not take_over() and _LONG_LIVED.intersection(arguments):
                execute_again()  # before anything is loaded or opened
        # Imported here, so that Ctrl-C while modules load ends like any other.
        from graveler.cli.app import run

        code = run(arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, OSError, InvalidError) as error:
        from graveler.cli.exits import report, report_lost_output

        if isinstance(error, OSError):  # the last lines could not be written, and nobody should try again
            _forget_output()
            return report_lost_output(error)
        return report(error)


def _open_closed_streams() -> None:
    """Where the caller closed a standard stream (``<&-``), open one that refuses every read or write: Python has None there, and
    the number would go to the next file that is opened, such as an object of the lake."""
    for name, mode, refusing in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:  # in this order, each gets the lowest number that is free, which is its own
            setattr(sys, name, open(os.open(os.devnull, refusing), mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open


def _never_fail_on_encoding() -> None:
    """What a terminal's encoding cannot show is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Keep the interpreter from writing what is left when it ends, since nobody reads it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file
        return
