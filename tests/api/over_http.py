"""The server in a thread of this process, so that a test's lake in memory can be reached over HTTP."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from graveler.api.application import Application
from graveler.api.response import Response
from graveler.api.routing import Handling
from graveler.lake.opening.folder import folder_store
from graveler.lake.opening.location import FolderLake
from graveler.server.configuration import ServerSettings
from graveler.server.data_plane import DataPlane
from graveler.server.gateway import Gateway
from graveler.server.listening import listening_port
from graveler.server.metrics import Metrics
from graveler.server.threads import Threads
from graveler.storage.objects.presigned import UrlSigner
from tests.server.support import AnyNamespace

HOST = "127.0.0.1"


class Switch:
    """Hands requests to the application of the test that runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.application: Application | None = None

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        assert self.application is not None
        return self.application.respond(event)

    def handling(self, method: str, path: str, /) -> Handling:
        assert self.application is not None
        return self.application.handling(method, path)

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        assert self.application is not None
        return self.application.reject_without_body(event)


@contextmanager
def serving() -> Iterator[Switch]:
    """A server that listens until the end."""
    with listening_port(HOST, 0) as port, TemporaryDirectory() as folder:
        switch = Switch(port)
        handlers, scanners, disk = Threads("handler", 4), Threads("scanner", 2), Threads("disk", 2)
        metrics = Metrics(Path(folder))
        signer = UrlSigner(f"http://{HOST}:{port}/objects", b"secret")
        data_plane = DataPlane(signer, AnyNamespace(lambda name: folder_store(Path(folder), name)), 4, disk)
        settings = ServerSettings(lake=FolderLake(Path(folder)), metrics=Path(folder))
        gateway = Gateway(switch, data_plane, metrics, settings, 0, handlers, scanners, disk)
        started = Event()
        loop = asyncio.new_event_loop()
        servers: list[Server] = []

        async def serve() -> None:
            server = Server(
                gateway,
                address=HOST,
                port=port,
                interface=Interfaces.ASGINL,
                http=HTTPModes.http1,
                websockets=False,
                log_level=LogLevels.error,
            )
            servers.append(server)
            loop.call_later(0, started.set)
            await server.serve()

        thread = Thread(target=lambda: loop.run_until_complete(serve()), name="server")
        thread.start()
        try:
            started.wait()
            yield switch
        finally:
            loop.call_soon_threadsafe(servers[0].stop)
            thread.join()
            loop.close()
            for part in (handlers, scanners, disk, metrics):
                part.close()
