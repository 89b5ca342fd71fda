"""Connections to servers of bytes: opened, through a proxy if there is one, and used again while they are idle."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from ssl import SSLContext
from time import monotonic
from typing import Final

from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import PIECE
from graveler.gateway.store.server_addresses import Origin, Proxy

REPEATABLE: Final = 2 * PIECE
"""Bytes of a body up to which a failed write is repeated from memory. Beyond, its client repeats it."""

_KEPT: Final = 64
"""Idle connections to a server that are kept open."""
_IDLE_SECONDS: Final = 20.0
"""Time after which an idle connection is not used any more."""
_LONG_IDLE_SECONDS: Final = 1.0
"""The same for a body that cannot be repeated: the server may just be closing a connection that was idle for longer."""


class ConnectionPool:
    """The connections of one client. ``proxy_of`` returns the proxy on the way to a server, and is called once for each. Made in
    an event loop, and used in it alone."""

    def __init__(self, proxy_of: Callable[[Origin], Proxy | None]) -> None:
        self._find_proxy = proxy_of
        self._proxies: dict[Origin, Proxy | None] = {}
        self._idle: defaultdict[Origin, list[tuple[float, HttpConnection]]] = defaultdict(list)

    def proxy_of(self, origin: Origin) -> Proxy | None:
        """Return the proxy on the way to a server; None: there is none."""
        if origin not in self._proxies:
            self._proxies[origin] = self._find_proxy(origin)
        return self._proxies[origin]

    def reused(self, origin: Origin, length: int) -> HttpConnection | None:
        """Return an idle connection for a request whose body has so many bytes; None: there is none."""
        oldest = monotonic() - (_IDLE_SECONDS if length <= REPEATABLE else _LONG_IDLE_SECONDS)
        idle = self._idle[origin]
        while idle:
            since, connection = idle.pop()
            if connection.is_reusable and since > oldest:
                return connection
            connection.close()
        return None

    async def open(self, origin: Origin, context: SSLContext, seconds: float) -> HttpConnection:
        """Connect within so many seconds, by TLS if the server wants it. TimeoutError, ``ssl.SSLError``, OSError;
        :class:`BrokenConnectionError` if a proxy refuses."""
        proxy, trust = self.proxy_of(origin), context if origin.is_tls else None
        async with asyncio.timeout(seconds):
            if proxy is None:
                return await HttpConnection.open(origin.host, origin.port, trust)
            connection = await HttpConnection.open(proxy.host, proxy.port, context if proxy.is_tls else None)
            if trust is None:
                return connection
            try:
                authority = f"{origin.authority.removesuffix(f':{origin.port}')}:{origin.port}"
                await connection.tunnel(authority, proxy.headers, seconds)
                await connection.secure(origin.host, trust)
            except BaseException:
                connection.close()
                raise
            return connection

    def release(self, origin: Origin, connection: HttpConnection) -> None:
        """Keep a connection for another request, if its last response was read to the end; otherwise close it."""
        idle = self._idle[origin]
        if connection.is_reusable and len(idle) < _KEPT:
            idle.append((monotonic(), connection))
        else:
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        for idle in self._idle.values():
            for _, connection in idle:
                connection.close()
        self._idle.clear()
