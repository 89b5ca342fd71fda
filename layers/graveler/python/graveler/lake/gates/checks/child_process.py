"""A process that works for a check: bounded in time and output, without the secrets of this one, and ended with its children."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, Final

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.system.secret_variables import without_secrets

_WAIT: Final = 0.1
_GRACE: Final = 2.0
_PIECE: Final = 1 << 16


class Ending(Struct, frozen=True):
    """The end of a process: its exit code, negative for a signal, None if its time was up; and the end of what it wrote to
    standard output and to standard error."""

    code: int | None
    output: bytes
    errors: bytes

    @property
    def reason(self) -> str:
        """The end in words."""
        if self.code is None:
            return "its time was up"
        if self.code < 0:
            with suppress(ValueError):
                return f"it was killed by {signal.Signals(-self.code).name}"
        return f"it ended with exit code {self.code}"


def run_child(
    arguments: Sequence[str],
    data: bytes,
    *,
    seconds: float,
    most_output: int,
    stop: Callable[[], None],
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ending:
    """Run a program with ``data`` on its standard input. It is killed, with all processes of its group, after ``seconds``, and
    when ``stop`` raises. Of its output and of its errors the last ``most_output`` bytes count; writing more does not block it.

    Its environment is that of this process without secrets, or ``environment``, with ``variables``. :class:`InvalidError` if
    there is no such program, :class:`UnavailableError` if it cannot be started.
    """
    base = without_secrets(os.environ) if environment is None else environment
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**base, **(variables or {})},
            cwd=folder,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise InvalidError(f"there is no program {error.filename!r} on this machine") from None
    except OSError as error:
        raise UnavailableError(f"{arguments[0]!r} cannot be started: {error.strerror or error}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = _Output(process.stdout, most_output), _Output(process.stderr, most_output)
    writer = Thread(target=_write, args=(process.stdin, data), daemon=True)
    threads = [writer, output, errors]
    for thread in threads:
        thread.start()
    deadline = monotonic() + seconds
    code: int | None = None
    try:
        while code is None and monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(min(_WAIT, max(0.0, deadline - monotonic())))
            stop()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it started, which would hold the pipes
        process.wait()
        for thread in threads:
            thread.join(_GRACE)
    return Ending(code, output.data, errors.data)


def _write(stream: IO[bytes], data: bytes) -> None:
    with suppress(OSError):  # it does not read
        stream.write(data)
    with suppress(OSError):
        stream.close()


class _Output(Thread):
    """A reader of all that a process writes, which keeps the end."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._most = most
        self.data = b""

    def run(self) -> None:
        """Read until the end."""
        with self._stream, suppress(OSError, ValueError):
            while piece := os.read(self._stream.fileno(), _PIECE):
                self.data = (self.data + piece)[-self._most :]
