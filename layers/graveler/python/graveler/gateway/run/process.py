"""The gateway of a run, as its runner sees it: a process that ends with its runner, however that ends."""

import os
import subprocess
import sys
from contextlib import suppress
from secrets import token_hex, token_urlsafe
from select import select
from types import TracebackType
from typing import Final, Self, TypeVar
from weakref import WeakSet

from graveler.errors import UnavailableError
from graveler.gateway.control import Closing, KeyPair, Opening, Ready, Tally, line_of, read_document
from graveler.system.secret_variables import handed_on

D = TypeVar("D", Ready, Tally)

MODULE: Final = "graveler.gateway"
"""The module that is the gateway's program."""

START_SECONDS: Final = 60.0
"""Seconds that a gateway has to answer after its start."""

LAND_SECONDS: Final = 10.0
"""Seconds that running writes have to land after the end of the program."""

_running: "Final[WeakSet[GatewayProcess]]" = WeakSet()

_END_SECONDS: Final = 5.0
_FURTHER_SECONDS: Final = 50.0
"""Seconds after LAND_SECONDS in which a gateway aborts what has not landed and answers."""


def new_keys() -> KeyPair:
    """Return a random pair of keys, in the form of AWS's."""
    return KeyPair(f"GRUN{token_hex(8).upper()}", token_urlsafe(30))


class GatewayProcess:
    """A gateway for a ``with`` block. It starts at once, with the environment of this process; :meth:`ready` waits for it."""

    def __init__(self, opening: Opening) -> None:
        self._owner = os.getpid()
        self.opening = opening
        self.keys = opening.keys
        self.region = opening.region
        with handed_on(os.environ) as (environment, descriptors):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                pass_fds=descriptors,
                process_group=0,  # what the terminal sends is for the program
            )
        _running.add(self)
        try:
            self._write(line_of(opening))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if os.getpid() == self._owner:
            self.end()

    def ready(self) -> int:
        """Wait until the gateway takes requests and return its port. :class:`UnavailableError` if it cannot."""
        answer = self._answer(Ready, START_SECONDS)
        if answer.error:
            raise UnavailableError(f"the gateway did not start: {answer.error}")
        return answer.port

    def close(self, seconds: float = LAND_SECONDS) -> Tally:
        """Close the gateway for writes: those that run have ``seconds`` to land. Return its work. :class:`UnavailableError` if
        the gateway has ended before, so that nobody knows what of the program's work is missing."""
        self._write(line_of(Closing(close=seconds)))
        return self._answer(Tally, seconds + _FURTHER_SECONDS)

    def end(self) -> None:
        """End the gateway, and wait for its end."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def leave(self) -> None:
        """Let go of the gateway, in a forked child: it is its parent's, and ends with that."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nothing, self._process.stdin.fileno(), inheritable=False)
            os.close(nothing)

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _answer(self, kind: type[D], seconds: float) -> D:
        """Wait for the next line of the gateway. It writes each at once, and none before it is asked."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select([stdout], [], [], seconds)[0]:
            raise UnavailableError(f"the gateway has not answered for {seconds:.0f} seconds")
        answer = read_document(stdout, kind)  # type: ignore[arg-type]
        if answer is None:
            raise self._ended()
        return answer

    def _ended(self) -> UnavailableError:
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return UnavailableError("the gateway does not answer any more")
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return UnavailableError(f"the gateway of this run has ended unexpectedly, {how}")


def _leave_all() -> None:
    """Let go of the gateways of the parent. Runs in a forked child."""
    for gateway in _running:
        gateway.leave()


os.register_at_fork(after_in_child=_leave_all)
