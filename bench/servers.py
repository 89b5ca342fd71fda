"""The servers of the bench, each on a copy of the lake: ours, that of another checkout, the bare one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from socket import create_connection, create_server, socket

from bench import rows
from bench.load_client import Request, Requests

KEY_ID, SECRET = "AKIAJBENCHBENCHBENQ", "b" * 40
BRANCH = "load"
"""For what is written, beside ``main``."""
START_SECONDS, IDLE_SECONDS = 300, 1.0
"""So long may a server take to start; one that uses no CPU for the other has started."""
TICKS = os.sysconf("SC_CLK_TCK")

REQUESTS = Requests(rows.REPOSITORY, KEY_ID, SECRET)


@dataclass(frozen=True)
class Server:
    """A server that runs: its first process, and its port."""

    process: int
    port: int


def package_of(checkout: Path) -> Path:
    """Where another checkout's package is, for ``PYTHONPATH``."""
    return checkout.resolve() / "layers" / "graveler" / "python"


@contextmanager
def graveler(place: Sequence[str], workers: int, *, source: str, checkout: Path | None = None) -> Iterator[Server]:
    """``graveler serve``, of this checkout or another one, for the lake that the options ``place`` name. Clients may link from
    ``source``."""
    environment = os.environ | {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    python = Path(sys.executable)
    if checkout:
        environment["PYTHONPATH"] = str(package_of(checkout))
        own = checkout.resolve() / ".venv" / "bin" / "python"
        python = own if own.exists() else python
    command = [str(python), "-m", "graveler.cli", "serve", *place, "--port", "0", "--json"]
    command += ["--workers", str(workers), "--audit-log", os.devnull, "--import-source", source]
    with running(command, environment) as process:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["url"].rpartition(":")[2])
        yield ready(process.pid, port)


@contextmanager
def bare(folder: Path, keys_file: Path, workers: int) -> Iterator[Server]:
    """The bare server, on the same keys."""
    folder.mkdir()
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"DB": str(folder.resolve() / "table.sqlite"), "KEYS": str(keys_file.resolve())}
    command = [sys.executable, "-m", "granian", "--interface", "rsgi", "--workers", str(workers), "--no-ws"]
    command += ["--port", str(port), "--no-log", "--factory", "bench.bare_server:create"]
    with running(command, environment) as process:
        yield ready(process.pid, port)


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def ready(process: int, port: int) -> Server:
    """Wait until a server answers, and all of its workers have done what they do when they start."""
    deadline = time.monotonic() + START_SECONDS
    answers, used = False, -1.0
    while not answers or sum(map(cpu_seconds, family(process))) > used:
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: the server at port {port} was not ready after {START_SECONDS} s")
        used = sum(map(cpu_seconds, family(process)))
        with suppress(ConnectionRefusedError):
            answers = bool(ask(port, REQUESTS.get("/branches/main")))
        time.sleep(IDLE_SECONDS)
    ask(port, REQUESTS.send("POST", "/branches", {"name": BRANCH, "source": "main"}))
    return Server(process, port)


def ask(port: int, request: Request) -> bytes:
    """What one request besides the load is answered."""
    with connected(port) as connection:
        return answered(connection, request)


def connected(port: int) -> socket:
    """A connection to a server, for :func:`answered`."""
    return create_connection(("127.0.0.1", port), timeout=600)


def answered(connection: socket, request: Request) -> bytes:
    """What a request is answered on a connection that is kept."""
    head, body = request
    connection.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
    with HTTPResponse(connection) as answer:
        answer.begin()
        said = answer.read()
    if not 200 <= answer.status < 300:
        raise SystemExit(f"bench: {head.split(maxsplit=2)[:2]} was answered {answer.status}: {said.decode()}")
    return said


def family(process: int) -> list[int]:
    """A process and all below it."""
    return [process, *(below for child in children(process) for below in family(child))]


def children(process: int) -> list[int]:
    """The processes that a process started."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended since
            found += map(int, (task / "children").read_text().split())
    return found


def is_worker(process: int) -> bool:
    """Whether a child of a server's first process serves; Python starts one that does not."""
    return b"resource_tracker" not in Path(f"/proc/{process}/cmdline").read_bytes()


def cpu_seconds(process: int) -> float:
    """CPU that a process has used, with the processes that it has started and that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def resident(process: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
