"""A program, from its start to its end, with the signals of its runner.

The program is in the process group of its runner, as a shell starts it: Ctrl-C, Ctrl-\\ and Ctrl-Z reach both from the terminal.
Signals that somebody sends to the runner alone are passed on.
"""

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from graveler.errors import GravelerError

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
SIGNALLED: Final = 128
"""Exit statuses as shells have them: no such program; one that cannot be executed; and plus the number of a signal, one that was
ended by it."""

_ENDING: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_OTHER: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_OF_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)


class ProgramNotStartedError(GravelerError):
    """The program cannot be started; ``status`` is the exit status that shells have for the reason."""

    status: int = NOT_FOUND


class ProgramEnd(Struct, frozen=True):
    """The end of a program: its exit status, or 128 and the number of the signal that ended it; and the first signal that its
    runner got in the meantime and that asks programs to end."""

    status: int
    signal: int | None = None

    @property
    def succeeded(self) -> bool:
        """True if the program ended with 0, and nobody asked it to end before."""
        return self.status == 0 and self.signal is None

    @property
    def exit_status(self) -> int:
        """The exit status of the runner: not 0 unless the program succeeded."""
        return self.status or (0 if self.signal is None else SIGNALLED + self.signal)


def run_to_end(program: Sequence[str], environment: Mapping[str, str]) -> ProgramEnd:
    """Run a program with the standard streams of this process, pass signals on to it, and return its end. Only in a main thread.
    :class:`ProgramNotStartedError`."""
    with _received() as signals:
        child = _start(program, environment)
        ending: int | None = None
        try:
            while (status := child.poll()) is None:
                for number in signals():
                    if number in _ENDING:
                        ending = ending or number
                    if number in (*_ENDING, *_OTHER) and not (number in _OF_TERMINAL and _in_foreground()):
                        child.send_signal(number)
        except BaseException:
            child.kill()
            child.wait()
            raise
        ending = ending or next((number for number in signals(0.0) if number in _ENDING), None)
    return ProgramEnd(SIGNALLED - status if status < 0 else status, ending)


def _start(program: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    name = program[0]
    try:
        return subprocess.Popen(program, env=environment)
    except (OSError, ValueError) as error:
        exists = not isinstance(error, FileNotFoundError)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        failure = ProgramNotStartedError(
            f"program {name!r} cannot be executed: {reason}"
            if exists
            else f"program {name!r} was not found; give its path, or install it in a folder of PATH"
        )
        failure.status = NOT_EXECUTABLE if exists else NOT_FOUND
        raise failure from None


def _in_foreground() -> bool:
    """Return whether this process is in the group to which its terminal sends what is typed, such as Ctrl-C."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False  # there is no terminal
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False  # it was closed
    finally:
        os.close(terminal)


class _Signals:
    """The signals that this process gets, through a pipe: so none is lost, whichever thread it meets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, seconds: float | None = None) -> bytes:
        """Wait for signals, and return their numbers; nothing after ``seconds`` (None: no limit)."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return os.read(self._descriptor, 4096) if ready else b""


@contextmanager
def _received() -> Iterator[_Signals]:
    """Receive signals for a block, instead of ending by them. One that this process ignores stays ignored, as under ``nohup``."""
    numbers = [number for number in (*_ENDING, *_OTHER) if signal.getsignal(number) is not signal.SIG_IGN]
    numbers.append(signal.SIGCHLD)  # ignored, it would hide how the program ended
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    former_descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    former = {number: signal.signal(number, _noted) for number in numbers}
    try:
        yield _Signals(reader)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(former_descriptor)
        os.close(reader)
        os.close(writer)


def _noted(number: int, frame: object) -> None:
    """Do nothing: the number is in the pipe."""
