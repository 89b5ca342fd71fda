"""Gateways on other hosts, which join a run: the same port, keys and branch, for executors of the program that work there."""

import os
import stat
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from threading import Thread
from typing import Final

import uvloop

from graveler.errors import UnavailableError
from graveler.gateway.buckets import REF_HEADER
from graveler.gateway.control import Opening
from graveler.gateway.process import HOST, serve, signers_of
from graveler.gateway.store.s3_signature import Keys, S3Signer
from graveler.server.listening import listening_port

_LOOK_AGAIN: Final = 0.5
_PROBE_SECONDS: Final = 10.0


def serve_joined(
    opening: Opening, say_ready: Callable[[], None], say_waiting: Callable[[], None], *, with_input: bool
) -> None:
    """Serve a run on this host until it is over or a signal ends this process; with ``with_input`` also until the standard input
    ends, if that is a pipe. The process ends then. If a gateway of the run serves here already, wait until it has ended.
    :class:`UnavailableError` if the run is over, or the port belongs to somebody else."""
    if with_input:
        mode = os.fstat(0).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            Thread(target=_end_with_input, name="input", daemon=True).start()
    _await_port(opening, say_waiting)
    uvloop.run(serve(opening, opening.port, say_ready))


def _await_port(opening: Opening, say_waiting: Callable[[], None]) -> None:
    """Wait until the port is free."""
    is_waiting = False
    while True:
        try:
            with listening_port(HOST, opening.port):
                return
        except UnavailableError:
            if not _serves_the_run(opening):
                raise UnavailableError(
                    f"port {opening.port} of this host belongs to another program; give the run a port that is free on all "
                    "hosts, with `graveler run --port`"
                ) from None
        if not is_waiting:
            is_waiting = True
            say_waiting()
        time.sleep(_LOOK_AGAIN)


def _serves_the_run(opening: Opening) -> bool:
    """Return whether the program at the port is a gateway of the same branch."""
    if opening.keys is None:
        signers_of(opening)  # it says which are missing
        from graveler.gateway.own_keys import find_own_keys

        keys = find_own_keys().keys
    else:
        keys = Keys(opening.keys.id, opening.keys.secret)
    mount = opening.mounts[0]
    target = f"/{mount.bucket}"
    headers = S3Signer(keys, opening.region).sign("HEAD", target, {"host": f"{HOST}:{opening.port}"})
    connection = HTTPConnection(HOST, opening.port, timeout=_PROBE_SECONDS)
    try:
        connection.request("HEAD", target, headers=headers)
        response = connection.getresponse()
        return response.status == 200 and response.getheader(REF_HEADER) == mount.ref
    except (OSError, HTTPException):
        return not _is_taken(opening.port)
    finally:
        connection.close()


def _is_taken(port: int) -> bool:
    try:
        with listening_port(HOST, port):
            return False
    except UnavailableError:
        return True


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)
