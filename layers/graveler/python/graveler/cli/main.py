"""The entry point: run a command line, turn whatever happens into an exit code."""

import io
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` without argument) and return its exit code. Never raises, bar what :mod:`sys` needs."""
    _never_fail_on_encoding()
    try:
        # Imported here, so that Ctrl-C while modules load ends like any other.
        from graveler.cli.app import run

        code = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, OSError) as error:
        from graveler.cli.exits import report

        if isinstance(error, OSError):  # the last lines could not be written, and nobody should try again
            _forget_output()
        return report(error)


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
