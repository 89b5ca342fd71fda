"""Gateways on other hosts, which join a run: the same port, keys and branch, for executors of the program that work there."""

import os
import stat
import time
from collections.abc import Callable
from enum import Enum
from http.client import HTTPConnection, HTTPException
from threading import Thread
from typing import Final

import uvloop

from graveler.errors import UnavailableError
from graveler.gateway.buckets import REF_HEADER
from graveler.gateway.control import Opening
from graveler.gateway.exchange import SERVER
from graveler.gateway.joined_run import WATCH_SECONDS
from graveler.gateway.process import HOST, RunIsOverError, serve, signers_of
from graveler.gateway.run.environment import leave_program
from graveler.server.listening import listening_port
from graveler.storage.objects.s3_signature import Keys, S3Signer

_LOOK_AGAIN: Final = 0.5
_OTHERS_END: Final = 3 * WATCH_SECONDS
"""Seconds in which a gateway of a run that is over ends."""
_PROBE_SECONDS: Final = 10.0


class _Occupant(Enum):
    """The listener at the port of a run."""

    NOBODY = 1
    THIS_RUN = 2
    GATEWAY = 3
    """A gateway of another run, such as the attempt before this one, which ends soon."""
    STRANGER = 4


def serve_joined(
    opening: Opening, say_ready: Callable[[], None], say_waiting: Callable[[], None], *, with_input: bool
) -> None:
    """Serve a run on this host until it is over or a signal ends this process; with ``with_input`` also until the standard input
    ends, if that is a pipe. The process ends then. If a gateway of the run serves here already, wait until it has ended, and
    return if that was the end of the run. :class:`UnavailableError` if the run is over from the beginning, or the port belongs to
    somebody else."""
    leave_program(os.environ, opening.port, opening.keys, opening.region)
    if with_input:
        mode = os.fstat(0).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            Thread(target=_end_with_input, name="input", daemon=True).start()
    has_waited = _await_port(opening, say_waiting)
    try:
        uvloop.run(serve(opening, opening.port, say_ready))
    except RunIsOverError:
        if not has_waited:
            raise


def _await_port(opening: Opening, say_waiting: Callable[[], None]) -> bool:
    """Wait until the port is free; return whether a gateway of the run had it."""
    has_waited, latest = False, time.monotonic() + _OTHERS_END
    while (occupant := _occupant(opening)) is not _Occupant.NOBODY:
        if occupant is _Occupant.STRANGER or (occupant is _Occupant.GATEWAY and time.monotonic() > latest):
            raise UnavailableError(
                f"port {opening.port} of this host belongs to another program; give the run a port that is free on all "
                "hosts, with `graveler run --port`"
            )
        if occupant is _Occupant.THIS_RUN and not has_waited:
            has_waited = True
            say_waiting()
        time.sleep(_LOOK_AGAIN)
    return has_waited


def _occupant(opening: Opening) -> _Occupant:
    """Ask who listens at the port."""
    if _is_free(opening.port):
        return _Occupant.NOBODY
    mount = opening.mounts[0]
    target = f"/{mount.bucket}"
    signer = S3Signer(_keys_of(opening), opening.region)
    connection = HTTPConnection(HOST, opening.port, timeout=_PROBE_SECONDS)
    try:
        connection.request("HEAD", target, headers=signer.sign("HEAD", target, {"host": f"{HOST}:{opening.port}"}))
        response = connection.getresponse()
    except (OSError, HTTPException):
        return _Occupant.NOBODY if _is_free(opening.port) else _Occupant.STRANGER
    finally:
        connection.close()
    if response.status == 200 and response.getheader(REF_HEADER) == mount.ref:
        return _Occupant.THIS_RUN
    return _Occupant.GATEWAY if response.getheader("server") == SERVER else _Occupant.STRANGER


def _keys_of(opening: Opening) -> Keys:
    if opening.keys is not None:
        return Keys(opening.keys.id, opening.keys.secret)
    signers_of(opening)  # it says which are missing
    from graveler.gateway.own_keys import find_own_keys

    return find_own_keys().keys


def _is_free(port: int) -> bool:
    try:
        with listening_port(HOST, port):
            return True
    except UnavailableError:
        return False


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)
