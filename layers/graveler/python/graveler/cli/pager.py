"""The pager for long output on a terminal, as in git; elsewhere, and with ``--no-pager``, output is direct.

GRAVELER_PAGER names it, else PAGER, else it is less, if installed. An empty name, and ``cat``, mean none.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from shutil import which
from typing import Annotated, Final

import typer

from graveler.cli.terminal import Screen, has_colours, output
from graveler.errors import InvalidError
from graveler.system.secret_variables import without_secrets

PAGER: Final = "GRAVELER_PAGER"
"""The variable that names the pager."""

_DEFAULTS: Final = {"LESS": "FRX", "LV": "-c"}
"""Default settings of pagers: less quits if all fits on the screen, and both show colours."""

NoPager = Annotated[bool, typer.Option("--no-pager", help="Write directly to the terminal.")]


@contextmanager
def paged(*, direct: bool = False, as_json: bool = False) -> Iterator[Screen]:
    """Provide a screen whose lines go to the pager if stdout is a terminal; to stdout for programs, and if ``direct``.

    When the user leaves the pager early, the body of the ``with`` ends there, without an error. :class:`InvalidError` for a pager
    that cannot be started.
    """
    is_direct = direct or as_json or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    command = [] if is_direct else _command()
    if not command:
        yield output(as_json=as_json)
        return
    sys.stdout.flush()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=_DEFAULTS | without_secrets(os.environ))
    except OSError as error:
        raise InvalidError(
            f"cannot start the pager {shlex.join(command)!r}: {error.strerror}; "
            f"set {PAGER} to another one, or use --no-pager"
        ) from None
    assert process.stdin is not None
    stream = TextIOWrapper(process.stdin, encoding=sys.stdout.encoding, errors="backslashreplace")
    try:
        with suppress(BrokenPipeError):
            yield Screen(stream, colours=has_colours(sys.stdout))
    finally:
        _finish(process, stream)


def _command() -> list[str]:
    named = os.environ.get(PAGER, os.environ.get("PAGER"))
    if named is None:
        less = which("less")
        return [less] if less else []
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise InvalidError(f"the pager {named!r} is not a command ({error}); set {PAGER} to one") from None
    return [] if command == ["cat"] else command


def _finish(process: "subprocess.Popen[bytes]", stream: TextIOWrapper) -> None:
    """Wait until the user leaves the pager. Ctrl-C goes to the pager, which may use it to stop a search."""
    while True:
        try:
            with suppress(BrokenPipeError):
                stream.close()
            process.wait()
            return
        except KeyboardInterrupt:
            continue
