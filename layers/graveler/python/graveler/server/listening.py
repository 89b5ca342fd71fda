"""The port that a server listens on, and its limits for the head of a request."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from graveler.errors import UnavailableError

HEAD_SECONDS: Final = 120
"""Seconds that a client has for a request's head, or between two requests: longer than clients keep idle connections (Go 90), so
that the client closes them, and not the server just as the next request is in transit."""

SERVER_LOG: Final = {
    "handlers": {
        name: {"formatter": formatter, "class": "logging.StreamHandler", "stream": "ext://sys.stderr"}
        for name, formatter in (("console", "generic"), ("access", "access"))
    }
}
"""Granian's log on standard error, for its ``log_dictconfig``: its own choice is standard output, which has documents here."""

HEAD_BYTES: Final = 128 << 10
"""Limit on the bytes of a head, and of anything else read ahead from a connection: the memory it may occupy."""


@contextmanager
def listening_port(host: str, port: int) -> Iterator[int]:
    """Yield the port to listen on: ``port``, or for 0 a free one, reserved for the block. :class:`UnavailableError` if it is not
    available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as held:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # Workers share the port, which another server of this user could do as well: check that the port is free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
                probe.listen(1)
                chosen = int(probe.getsockname()[1])
            if port == 0:
                reserved = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                reserved.bind((host, chosen))
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --port (0 for any free one)"
            ) from None
        yield chosen
