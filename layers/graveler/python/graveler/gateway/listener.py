"""Granian's server for a gateway, in the event loop of its process."""

from pathlib import Path
from typing import Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server
from msgspec import Struct

from graveler.gateway.application import GatewayApplication
from graveler.server.listening import HEAD_BYTES, HEAD_SECONDS, SERVER_LOG

_CONNECTIONS: Final = 8192


class Listener(Struct, frozen=True, kw_only=True):
    """The address of a gateway. With a certificate and its key, files in PEM, it speaks TLS."""

    host: str = "127.0.0.1"
    port: int
    certificate: Path | None = None
    certificate_key: Path | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def new_server(application: GatewayApplication, listener: Listener) -> Server:
    """Return the server of an application, for the running event loop. Its ``serve`` is a coroutine."""
    return Server(
        application,
        address=listener.host,
        port=listener.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_SECONDS * 1000, max_buffer_size=HEAD_BYTES),
        ssl_cert=listener.certificate,
        ssl_key=listener.certificate_key,
        websockets=False,
        backlog=_CONNECTIONS,
        backpressure=_CONNECTIONS,
        log_level=LogLevels.error,
        log_dictconfig=SERVER_LOG,
    )
