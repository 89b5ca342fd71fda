"""The server of ``graveler ui``: one process, which ends with the command, and so do all rights that it gave.

Granian's server of several processes would leave a worker behind if its first process was killed. This one runs in the process of
the command.
"""

import asyncio
import signal
from collections.abc import Callable
from typing import Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from graveler.access.local_session import LocalSession
from graveler.server.configuration import ServerSettings
from graveler.server.listening import HEAD_BYTES, HEAD_SECONDS, SERVER_LOG
from graveler.server.local_requests import LoopbackGuard
from graveler.server.serve import answers
from graveler.server.worker import build_gateway

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOP_SECONDS: Final = 3.0
"""Seconds that running requests have to finish after the server is stopped."""
_ASK_EVERY: Final = 0.02
_CONNECTIONS: Final = 1024


def serve_ui(settings: ServerSettings, session: LocalSession, ready: Callable[[], None]) -> None:
    """Serve requests of this machine until SIGTERM, SIGINT or SIGHUP; then the session is over, and running requests have some
    seconds to finish. ``settings.port`` must not be 0. ``ready`` is called once the server answers. Call this in the main
    thread."""
    guard = LoopbackGuard(build_gateway(settings, session), session, settings.port)
    asyncio.run(_serve(guard, settings, session, ready))


async def _serve(
    guard: LoopbackGuard, settings: ServerSettings, session: LocalSession, ready: Callable[[], None]
) -> None:
    server = Server(
        guard,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_SECONDS * 1000, max_buffer_size=HEAD_BYTES),
        websockets=False,
        backlog=_CONNECTIONS,
        backpressure=_CONNECTIONS,
        log_level=LogLevels.error,
        log_dictconfig=SERVER_LOG,
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
            loop.add_signal_handler(number, stopped.set)
    serving = asyncio.create_task(server.serve())
    stop = asyncio.create_task(stopped.wait())
    announcing = asyncio.create_task(_announce(settings, ready))
    try:
        await asyncio.wait((serving, stop, announcing), return_when=asyncio.FIRST_COMPLETED)
        if announcing.done():
            announcing.result()  # raises what keeps the address from being shown
            await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        session.end()
        announcing.cancel()
        stop.cancel()
        if serving.done():
            serving.result()  # raises what ended it
        else:
            server.stop()  # type: ignore[no-untyped-call]
            await asyncio.wait((serving,), timeout=_STOP_SECONDS)


async def _announce(settings: ServerSettings, ready: Callable[[], None]) -> None:
    while not await asyncio.to_thread(answers, settings.host, settings.port):
        await asyncio.sleep(_ASK_EVERY)
    ready()
