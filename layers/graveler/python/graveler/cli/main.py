"""The entry point: runs a command line, and turns any outcome into an exit code."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from graveler.errors import InvalidError
from graveler.system.secret_variables import execute_again, take_over

_LONG_LIVED: Final = frozenset(("gateway", "run", "serve", "ui", "watch"))
"""Verbs that run until they are stopped. As a word of another command one of these costs 20 ms and does no harm."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` by default) and return its exit code. Never raises, except for what :mod:`sys` needs."""
    if sys.platform == "win32":
        from graveler.system.extras import ON_WINDOWS

        print(f"error: {ON_WINDOWS}", file=sys.stderr)
        return 2
    _open_closed_streams()
    _never_fail_on_encoding()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments is None and not take_over() and _LONG_LIVED.intersection(words):
            execute_again()  # before anything is loaded or opened
        # Imported here, so that Ctrl-C during the loading of modules ends like any other.
        from graveler.cli.app import run

        code = run(words)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, OSError, InvalidError) as error:
        from graveler.cli.exits import report, report_lost_output
        from graveler.cli.terminal import json_if_wanted

        with json_if_wanted(words):
            if isinstance(error, OSError):  # the last lines could not be written; no retry
                _forget_output()
                return report_lost_output(error)
            return report(error)


def _open_closed_streams() -> None:
    """Replace each standard stream that the caller closed (``<&-``) by one that refuses every read or write: Python has None
    there, and the next file to be opened, such as an object of the lake, would get its number."""
    for name, mode, refusing in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:  # in this order, each gets the lowest free number: its own
            setattr(sys, name, open(os.open(os.devnull, refusing), mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open


def _never_fail_on_encoding() -> None:
    """Make streams escape what a terminal's encoding cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Keep the interpreter from writing the remaining output at its end, since it has no reader."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file
        return
