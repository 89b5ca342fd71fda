"""The worker processes, from start until a signal stops them."""

import asyncio
import http.client
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from graveler.server.configuration import ServerSettings
from graveler.server.gateway import HEALTH, Gateway
from graveler.server.listening import HEAD_BYTES, HEAD_SECONDS, SERVER_LOG
from graveler.server.metrics import WorkerDeaths
from graveler.server.restarts import MOST, Restarts
from graveler.server.worker import Companion, build_gateway

STOP_SECONDS: Final = 30
"""Seconds that running requests have to finish after the server is stopped."""

_CONNECTIONS: Final = 8192
"""Connections per worker; idle ones cost little. Further ones wait until others close."""

_ASK_EVERY: Final = 0.05
_OTHERS_SECONDS: Final = 5.0
"""Seconds after the first worker's answer that a server waits for the others before it says that it is ready. Clients that come
before them keep their connections to the first one, while the others start on the processors that it needs."""

_log = logging.getLogger(__name__)


class _Workers(MPServer):
    """Granian's server, with workers that are started again as :class:`Restarts` decides. Before the first one has answered, the
    end of any worker ends the server."""

    deaths: WorkerDeaths

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        restarts = Restarts()
        due: dict[int, float] = {}
        while True:
            self.main_loop_interrupt.wait(max(0.0, min(due.values()) - time.monotonic()) if due else None)
            self.main_loop_interrupt.clear()
            if self.interrupt_signal:
                return
            while self.interrupt_children:
                worker = self.interrupt_children.pop(0)
                self.deaths.note()
                pause = restarts.died(worker, time.monotonic() - self.wrks[worker].birth)
                if pause is None or not self.respawn_failed_workers:
                    if pause is None:
                        _log.error(
                            "worker %d has ended %d times in a row soon after its start; giving up", worker + 1, MOST
                        )
                    self.interrupt_children.append(worker)  # so the exit code is 1
                    return
                due[worker] = time.monotonic() + pause
            now = time.monotonic()
            for worker in sorted(worker for worker, moment in due.items() if moment <= now):
                del due[worker]
                self._respawn_workers([worker], spawn_target, target_loader)
            if self.reload_signal:
                self._reload(spawn_target, target_loader)  # type: ignore[no-untyped-call]


def serve(settings: ServerSettings, ready: Callable[[], None], companion: Companion | None = None) -> None:
    """Serve requests until SIGTERM or SIGINT, then finish the running ones. ``settings.port`` must not be 0. ``companion`` starts
    another server in each worker.

    ``ready`` is called in another thread once all workers have started; if one of them needs longer than the others, a few
    seconds after the first one responds. Call this in the main thread of a dedicated process.
    """
    # Forked workers would inherit the threads' locks in whatever state they are.
    multiprocessing.set_start_method("spawn", force=True)
    # glibc gives threads their own heaps, which each retain freed memory, and places ever larger buffers in them.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(256 << 10))
    server = _Workers(
        "graveler",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGINL,
        workers=settings.workers,
        backlog=_CONNECTIONS,
        backpressure=_CONNECTIONS,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_SECONDS * 1000, max_buffer_size=HEAD_BYTES),
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=SERVER_LOG,
        workers_kill_timeout=STOP_SECONDS,
    )
    server.deaths = WorkerDeaths(settings.metrics)
    stopping = Event()
    started, starts = multiprocessing.Pipe(duplex=False)

    def announce() -> None:
        while not stopping.wait(_ASK_EVERY):
            if answers(settings.host, settings.port):
                server.respawn_failed_workers = True
                with started:
                    wait_for_workers(started, settings.workers, stopping)
                ready()
                return

    waiting = Thread(target=announce, name="readiness", daemon=True)
    waiting.start()
    try:
        server.serve(target_loader=partial(_start_worker, settings, starts, companion), wrap_loader=False)
    finally:
        stopping.set()
        waiting.join()
        starts.close()


def _start_worker(settings: ServerSettings, starts: Connection, companion: Companion | None) -> Gateway:
    """Return the gateway of this process. Once its loop runs, which granian begins when it listens, tell the first process."""
    os.dup2(2, 1)  # the first process writes documents to standard output, between which nothing else may stand
    gateway = build_gateway(settings, companion=companion)

    def tell() -> None:
        with starts, suppress(BrokenPipeError):  # nobody waits for the successor of a worker that died
            starts.send_bytes(b"started")

    asyncio.get_event_loop().call_soon(tell)
    return gateway


def wait_for_workers(started: Connection, workers: int, stopping: Event, seconds: float = _OTHERS_SECONDS) -> int:
    """Wait until so many workers have said that they started, but for so many ``seconds`` at most, and not after the server
    stops. Return the number of those that have not."""
    deadline = time.monotonic() + seconds
    while workers and time.monotonic() < deadline and not stopping.is_set():
        if started.poll(_ASK_EVERY):
            started.recv_bytes()
            workers -= 1
    return workers


def answers(host: str, port: int) -> bool:
    """Return whether the server at this address answers."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    with closing(http.client.HTTPConnection(local, port, timeout=10)) as connection:
        try:
            connection.request("GET", HEALTH[0])
            return connection.getresponse().status == 204
        except (OSError, http.client.HTTPException):
            return False
