"""The process of a gateway: opens the lake, serves requests, and obeys its runner."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, Final

import uvloop
from msgspec import Struct

from graveler.errors import GravelerError, UnavailableError
from graveler.gateway.application import GatewayApplication
from graveler.gateway.authorization import JobSigner, Signers
from graveler.gateway.calls import LakeCalls
from graveler.gateway.control import Closing, Mount, Opening, Ready, Tally, Volume, line_of, parse_line, read_document
from graveler.gateway.http_server import HttpServer
from graveler.gateway.joined_run import WATCH_SECONDS, JoinedRun
from graveler.gateway.lakes import AnyLake
from graveler.gateway.listener import Listener
from graveler.gateway.mounts import JobMounts
from graveler.gateway.multipart import abort_all
from graveler.gateway.service import Service
from graveler.gateway.store.stores import ByteStores
from graveler.lake.lake import Lake
from graveler.lake.opening.location import FolderLake, open_at
from graveler.location.environment import ServedLake
from graveler.model import Token
from graveler.server.listening import listening_port
from graveler.server.threads import Threads
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system import pauses
from graveler.system.extras import not_installed
from graveler.system.secret_variables import take_over

if TYPE_CHECKING:
    from graveler.gateway.store.source_buckets import SourceBuckets

_log: Final = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
_LAKE_THREADS: Final = 16
_DISK_THREADS: Final = 8
_SERVER_REQUESTS: Final = 32
"""Requests to a server at the same time: as many as connections are kept to it."""
_ASK_EVERY: Final = 0.005
_COLLECT_EVERY: Final = 20_000
"""Net new objects after which Python looks for cycles, as in a worker of the server: a page of a listing has thousands."""


class RunIsOverError(UnavailableError):
    """The run that a gateway is to join has ended."""


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
        with listening_port(HOST, opening.port) as port:
            uvloop.run(serve(opening, port, lambda: _write(output, Ready(port=port)), Runner(sys.stdin.buffer, output)))
    except GravelerError as error:
        _write(output, Ready(error=str(error)))
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


class Runner(Struct, frozen=True):
    """The lines of a gateway's runner, and those for it."""

    lines: BinaryIO
    output: BinaryIO

    def obey(self, close: Callable[[Closing], Tally]) -> None:
        """Close for each line that says so, until they end."""
        while (line := self.lines.readline()).endswith(b"\n"):
            _write(self.output, close(parse_line(line, Closing)))


async def serve(opening: Opening, port: int, say_ready: Callable[[], None], runner: Runner | None = None) -> None:
    """Serve what ``opening`` says at ``port``, until the lines of a ``runner`` end, a run that was joined is over, or a signal
    asks for the end; the process ends then. :class:`UnavailableError` if it cannot begin."""
    signers = signers_of(opening)
    lake = open_lake(opening)
    in_loop = isinstance(opening.lake.location, FolderLake) and not opening.token  # whose changes are two steps
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
    if opening.token:
        assert isinstance(lake, Lake)  # no invitation is to a lake behind a server
        service.joined = JoinedRun(lake, opening.mounts[0], Token(opening.token))
        if await threads.run(service.joined.is_over):
            raise RunIsOverError("the run of this invitation is over; there is nothing to join")
    if opening.also:
        service.sources = sources_of(opening, service)
    application = GatewayApplication(service, signers)
    gc.freeze()  # existing objects stay, and need not be scanned again
    gc.set_threshold(_COLLECT_EVERY)
    server = HttpServer(application, Listener(port=port))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def close(closing: Closing) -> Tally:
        return asyncio.run_coroutine_threadsafe(_close(service, opening.mounts, closing), loop).result()

    def obey(runner: Runner) -> None:
        """Read the runner's lines, in a thread."""
        try:
            runner.obey(close)
        finally:
            loop.call_soon_threadsafe(ended.set)

    loop.add_signal_handler(signal.SIGTERM, ended.set)
    if runner is None:
        loop.add_signal_handler(signal.SIGINT, ended.set)
    else:
        Thread(target=obey, args=(runner,), name="runner", daemon=True).start()
    tasks = [server.serve(), ended.wait(), *([] if service.joined is None else [_watch(service.joined, threads)])]
    running = [asyncio.ensure_future(task) for task in tasks]
    announcing = asyncio.ensure_future(_announce(port, say_ready))
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        announcing.cancel()
        server.stop()
        service.stores.close()
        if service.sources is not None:
            service.sources.close()
        pauses.install_waiter(None)
    os._exit(0)  # transfers in progress are of a program that has ended, or whose runner was killed


async def _watch(run: JoinedRun, threads: Threads) -> None:
    """Wait until a run is over."""
    is_over = False
    while not is_over:
        await asyncio.sleep(WATCH_SECONDS)
        with suppress(GravelerError):  # the table is out of reach: so it is for the run
            is_over = await threads.run(run.is_over)


async def _announce(port: int, say_ready: Callable[[], None]) -> None:
    """Call ``say_ready`` once the server listens."""
    while True:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except ConnectionRefusedError:
            await asyncio.sleep(_ASK_EVERY)
            continue
        writer.close()
        say_ready()
        return


def _write(output: BinaryIO, document: Ready | Tally) -> None:
    output.write(line_of(document))


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
