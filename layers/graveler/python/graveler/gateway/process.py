"""The process of a gateway: opens the lake, serves requests, and obeys its runner."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, Final

import uvloop

from graveler.errors import GravelerError, UnavailableError
from graveler.gateway.application import GatewayApplication
from graveler.gateway.authorization import JobSigner, Signers
from graveler.gateway.calls import LakeCalls
from graveler.gateway.control import Closing, Mount, Opening, Ready, Tally, Volume, line_of, parse_line, read_document
from graveler.gateway.http_server import HttpServer
from graveler.gateway.lakes import AnyLake
from graveler.gateway.listener import Listener
from graveler.gateway.mounts import JobMounts
from graveler.gateway.multipart import abort_all
from graveler.gateway.service import Service
from graveler.gateway.store.stores import ByteStores
from graveler.lake.lake import Lake
from graveler.lake.opening.location import FolderLake, open_at
from graveler.location.environment import ServedLake
from graveler.server.listening import listening_port
from graveler.server.threads import Threads
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system import pauses
from graveler.system.extras import not_installed
from graveler.system.secret_variables import take_over

if TYPE_CHECKING:
    from graveler.gateway.store.source_buckets import SourceBuckets

_log: Final = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
_LAKE_THREADS: Final = 16
_DISK_THREADS: Final = 8
_SERVER_REQUESTS: Final = 32
"""Requests to a server at the same time: as many as connections are kept to it."""
_ASK_EVERY: Final = 0.005
_COLLECT_EVERY: Final = 20_000
"""Net new objects after which Python looks for cycles, as in a worker of the server: a page of a listing has thousands."""


def main() -> int:
    """Serve what the runner's first line says, until its lines end or SIGTERM arrives. Return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the program
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what else writes to standard output must not mix with documents
    take_over()
    opening = read_document(sys.stdin.buffer, Opening)
    if opening is None:
        return 0
    try:
        with listening_port(_HOST, opening.port) as port:
            uvloop.run(_serve(opening, port, sys.stdin.buffer, output))
    except GravelerError as error:
        output.write(line_of(Ready(error=str(error))))
        return 1
    return 0


def open_lake(opening: Opening) -> AnyLake:
    """Open the lake that a gateway serves. Of one behind a server one request. Errors as :func:`open_at` and
    :meth:`graveler.gateway.server_lake.ServerLake.expect_gateway`."""
    location = opening.lake.location
    if not isinstance(location, ServedLake):
        return open_at(location)
    from graveler.gateway.server_lake import ServerLake  # urllib3: not for a lake of one's own

    lake = ServerLake(location)
    lake.expect_gateway()
    return lake


def signers_of(opening: Opening) -> Signers:
    """Return the keys that a gateway accepts. :class:`UnavailableError` if it is to find them itself, and there are none."""
    if opening.keys is not None:
        return JobSigner(opening.keys.id, opening.keys.secret, opening.user)
    try:
        from graveler.gateway.own_keys import OwnSigners  # botocore: 100 ms
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("a program that keeps its AWS keys", error.name, "aws")) from None
    return OwnSigners(opening.user)


def sources_of(opening: Opening, service: Service) -> "SourceBuckets":
    """Return the buckets of S3 that a gateway also reads. :class:`UnavailableError` without the library for S3."""
    try:
        from graveler.gateway.store.source_buckets import SourceBuckets  # botocore: 100 ms
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("reading another bucket", error.name, "aws")) from None
    return SourceBuckets(opening.also, service.traffic)


async def _serve(opening: Opening, port: int, lines: BinaryIO, output: BinaryIO) -> None:
    """Serve until the runner's lines end."""
    signers = signers_of(opening)
    lake = open_lake(opening)
    in_loop = isinstance(opening.lake.location, FolderLake)
    served = opening.lake.served
    if isinstance(lake, Lake) and isinstance(lake.tables, SqliteTables):
        lake.tables.write_together()
    threads = Threads("lake", _LAKE_THREADS if served is None else _SERVER_REQUESTS)
    disk = Threads("disk", _DISK_THREADS)
    service = Service(
        lake,
        JobMounts(opening.mounts, lake, [place.bucket for place in opening.also]),
        LakeCalls(threads, in_loop=in_loop),
        ByteStores(disk, served.network if served else None),
        disk,
        opening.region,
    )
    if opening.also:
        service.sources = sources_of(opening, service)
    application = GatewayApplication(service, signers)
    gc.freeze()  # existing objects stay, and need not be scanned again
    gc.set_threshold(_COLLECT_EVERY)
    server = HttpServer(application, Listener(port=port))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def obey() -> None:
        """Read the runner's lines, in a thread."""
        try:
            while (line := lines.readline()).endswith(b"\n"):
                closing = parse_line(line, Closing)
                tally = asyncio.run_coroutine_threadsafe(_close(service, opening.mounts, closing), loop).result()
                output.write(line_of(tally))
        finally:
            loop.call_soon_threadsafe(ended.set)

    loop.add_signal_handler(signal.SIGTERM, ended.set)
    Thread(target=obey, name="runner", daemon=True).start()
    serving = asyncio.ensure_future(server.serve())
    ending = asyncio.ensure_future(ended.wait())
    announcing = asyncio.ensure_future(_announce(port, output))
    try:
        await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        announcing.cancel()
        server.stop()
        service.stores.close()
        if service.sources is not None:
            service.sources.close()
        pauses.install_waiter(None)
    os._exit(0)  # transfers in progress are of a program that has ended, or whose runner was killed


async def _announce(port: int, output: BinaryIO) -> None:
    """Tell the runner once the server listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection(_HOST, port)
        except ConnectionRefusedError:
            await asyncio.sleep(_ASK_EVERY)
            continue
        writer.close()
        output.write(line_of(Ready(port=port)))
        return


async def _close(service: Service, mounts: Sequence[Mount], closing: Closing) -> Tally:
    """Refuse further writes, abort the uploads that are not complete, and return what was done."""
    refused = await service.close_for_writes(closing.close)
    for mount in mounts:
        if not mount.read_only:
            try:
                await abort_all(service, mount.repository, mount.ref)
            except (
                GravelerError
            ) as error:  # a collection ends them; what was acknowledged is to be published nevertheless
                _log.warning("uploads that are not complete were not aborted: %s", error)
    traffic = service.traffic
    return Tally(
        read=Volume(objects=traffic.objects_read, bytes=traffic.bytes_read),
        written=Volume(objects=traffic.objects_written, bytes=traffic.bytes_written),
        deleted=traffic.objects_deleted,
        failed=traffic.failures + refused,
    )
