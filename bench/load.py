"""``python -m bench.load``: ``graveler serve`` under load, beside a bare server of the same work, in the same run.

Each row is an operation, asked by so many clients that keep their connections (``load_client.c``). The servers take turns: ours,
the bare one (``bare_server.py``), ours again; and with ``--checkout`` the one of another checkout, which may be an earlier state.
A figure is the median of the rounds. CPU is user and system time of all processes of a server, in ms an operation; beside it the
share of each worker. Memory is the resident size of the largest worker when the row had ended. An answer that is not 2xx is an
error, and fails its row. What is written goes to a branch of its own; what is read is the import of real paths.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from itertools import product
from pathlib import Path
from random import Random
from secrets import token_hex
from shutil import copytree, rmtree
from socket import create_connection, create_server
from statistics import median
from types import MappingProxyType

from bench import keys, rows
from bench.__main__ import keys_of, prepare
from bench.load_client import ADDRESS, NUMBER, Load, Request, Requests, compiled, load

KEY_ID, SECRET = "AKIAJBENCHBENCHBENQ", "b" * 40
SAMPLE = 10_000
BRANCH = "load"
"""What is written goes there."""
TICKS = os.sysconf("SC_CLK_TCK")
OURS, BARE, BEFORE = "server", "bare", "before"
START_SECONDS, IDLE_SECONDS = 120, 1.0
"""So long may a server take to start; one that uses no CPU for the other has started."""
MEMORY_MB = 160
TAIL = 5
"""p99 as a multiple of p50, with many clients."""

REQUESTS = Requests(rows.REPOSITORY, KEY_ID, SECRET)


@dataclass(frozen=True)
class Goal:
    """Bounds of CPU and of the rate, as multiples of the bare server's, and for how many clients they are meant."""

    cpu: float
    rate: float
    clients: tuple[int, ...] = (16,)


@dataclass(frozen=True)
class Given:
    """What requests are made of: a name that was never used, paths that are there, a folder from which may be staged."""

    name: str
    paths: Sequence[str]
    raw: Path

    def anew(self) -> "Given":
        """The same with a name of its own."""
        return replace(self, name=token_hex(4))


@dataclass(frozen=True)
class Row:
    """An operation: a series of them that clients go through, each with its requests."""

    operations: Callable[[Given], list[list[Request]]]
    goal: Goal


def stage(given: Given) -> list[list[Request]]:
    body: dict[str, object] = {
        "physical_address": f"file://{given.raw}/part-{NUMBER}.parquet",
        "checksum": "0" * 32,
        "size_bytes": 1234,
        "content_type": "application/octet-stream",
    }
    return [
        [REQUESTS.send("PUT", f"/branches/{BRANCH}/objects", body, path=f"staged/{given.name}/part-{NUMBER}.parquet")]
    ]


def link(given: Given) -> list[list[Request]]:
    path = f"linked/{given.name}/part-{NUMBER}.parquet"
    body: dict[str, object] = {
        "staging": {"physical_address": ADDRESS},
        "checksum": "0" * 32,
        "size_bytes": 1234,
        "content_type": "application/octet-stream",
    }
    backing = f"/branches/{BRANCH}/staging/backing"
    return [[REQUESTS.get(backing, path=path), REQUESTS.send("PUT", backing, body, path=path)]]


def create_branch(given: Given) -> list[list[Request]]:
    return [[REQUESTS.send("POST", "/branches", {"name": f"{given.name}-{NUMBER}", "source": "main"})]]


def get_branch(_: Given) -> list[list[Request]]:
    return [[REQUESTS.get("/branches/main")]]


def stat(given: Given) -> list[list[Request]]:
    return [[REQUESTS.get("/refs/main/objects/stat", path=path)] for path in given.paths]


def page(given: Given) -> list[list[Request]]:
    return [[REQUESTS.get("/refs/main/objects/ls", after=path, amount="1000")] for path in given.paths]


ROWS = MappingProxyType(
    {
        "stage": Row(stage, Goal(2.4, 0.4)),
        "link": Row(link, Goal(2.4, 0.4)),
        "create branch": Row(create_branch, Goal(2.9, 0.4)),
        "get branch": Row(get_branch, Goal(1.6, 0.7)),
        "stat": Row(stat, Goal(2.4, 0.5)),
        "page of 1,000": Row(page, Goal(1.9, 0.6, (1, 16))),
    }
)


@dataclass(frozen=True)
class Measured:
    """One round of a row on one server. CPU in seconds: of all processes, and of each worker; memory in bytes."""

    load: Load
    cpu: float
    workers: tuple[float, ...]
    memory: int


@dataclass
class Cell:
    """The rounds of a row with so many clients on one server."""

    rounds: list[Measured] = field(default_factory=list)

    def middle(self, value: Callable[[Measured], float]) -> float:
        return median(map(value, self.rounds))

    @property
    def cpu(self) -> float:
        """Milliseconds an operation."""
        return 1e3 * self.middle(lambda one: one.cpu / max(one.load.operations, 1))

    @property
    def by_worker(self) -> list[float]:
        """Milliseconds an operation that each worker used, largest first."""
        used = [[cpu / max(one.load.operations, 1) for cpu in sorted(one.workers, reverse=True)] for one in self.rounds]
        return [1e3 * median(shares) for shares in zip(*used, strict=True)]

    @property
    def rate(self) -> float:
        return self.middle(lambda one: one.load.rate)

    @property
    def p50(self) -> float:
        """Milliseconds."""
        return 1e3 * self.middle(lambda one: one.load.p50)

    @property
    def p99(self) -> float:
        """Milliseconds."""
        return 1e3 * self.middle(lambda one: one.load.p99)

    @property
    def client(self) -> float:
        """Milliseconds an operation that the clients used."""
        return 1e3 * self.middle(lambda one: one.load.cpu / max(one.load.operations, 1))

    @property
    def memory(self) -> float:
        """Megabytes of the largest worker."""
        return max(one.memory for one in self.rounds) / 1e6

    @property
    def errors(self) -> int:
        return sum(one.load.errors for one in self.rounds)

    @property
    def first_error(self) -> str:
        return next((one.load.first_error for one in self.rounds if one.load.errors), "")


Results = dict[tuple[str, int], dict[str, Cell]]
"""By row and number of clients, then by server."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args()
    results = measure(arguments)
    print(report(results))
    if any(cell.errors for cells in results.values() for cell in cells.values()):
        raise SystemExit("bench: requests failed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    parser.add_argument("--rows", default="", help="comma-separated; all of " + ", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=3.0, help="of load for each figure (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is taken (default %(default)s)")
    parser.add_argument("--clients", default="1,16", help="how many at once, with commas between (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes of each server (default %(default)s)")
    parser.add_argument("--checkout", type=Path, help="another checkout of graveler, whose server is measured beside")
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")


def measure(arguments: argparse.Namespace) -> Results:
    """Start the servers, and put load on them in turn."""
    chosen = arguments.rows.split(",") if arguments.rows else list(ROWS)
    if unknown := set(chosen) - set(ROWS):
        raise SystemExit(f"bench: no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    keys_file = keys_of(arguments.keys, arguments.folder)
    base = arguments.folder / f"lake-{keys_file.stem}"
    prepare(base, keys_file)
    program = compiled(arguments.folder)
    paths = Random(7).sample([key.decode() for key in keys.read(keys_file)], SAMPLE)
    results: Results = {}
    run = arguments.folder / "run" / f"load-{os.getpid()}"
    given = Given("", paths, run.resolve() / "raw")
    given.raw.mkdir(parents=True)
    try:
        with ExitStack() as stack:
            servers = {
                OURS: stack.enter_context(graveler(run / OURS, base, arguments.workers, given.raw)),
                BARE: stack.enter_context(bare(run / BARE, keys_file, arguments.workers)),
            }
            if arguments.checkout:
                servers[BEFORE] = stack.enter_context(
                    graveler(run / BEFORE, base, arguments.workers, given.raw, arguments.checkout)
                )
            for name, clients in product(chosen, map(int, arguments.clients.split(","))):
                cells = results[name, clients] = {server: Cell() for server in servers}
                for _ in range(arguments.rounds):
                    for which, server in servers.items():
                        measured = under_load(server, ROWS[name], given.anew(), program, clients, arguments.seconds)
                        cells[which].rounds.append(measured)
                for which, cell in cells.items():
                    print(f"{name}, {clients} clients, {which}: {cell.cpu:.3f} ms, {cell.rate:,.0f}/s", file=sys.stderr)
    finally:
        rmtree(run)
    return results


@dataclass(frozen=True)
class Server:
    """A server that runs: its first process, and its port."""

    process: int
    port: int


def under_load(server: Server, row: Row, given: Given, program: Path, clients: int, seconds: float) -> Measured:
    """One round."""
    before: dict[int, float] = {}
    operations = row.operations(given)
    seen = load(
        program,
        server.port,
        clients,
        seconds,
        operations,
        begin=lambda: before.update((process, cpu_seconds(process)) for process in family(server.process)),
    )
    used = {process: cpu_seconds(process) - before.get(process, 0.0) for process in family(server.process)}
    workers = [process for process in used if process in children(server.process) and is_worker(process)]
    return Measured(seen, sum(used.values()), tuple(used[worker] for worker in workers), max(map(resident, workers)))


@contextmanager
def graveler(folder: Path, base: Path, workers: int, raw: Path, checkout: Path | None = None) -> Iterator[Server]:
    """``graveler serve``, of this checkout or another one, on a copy of the lake."""
    # Data files never change, so links will do; tables change in place.
    copytree(base, folder, copy_function=os.link)
    for file in base.glob("tables.sqlite*"):
        (folder / file.name).unlink()
        (folder / file.name).write_bytes(file.read_bytes())
    environment = os.environ | {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    python = Path(sys.executable)
    if checkout:
        environment["PYTHONPATH"] = str(checkout.resolve() / "layers" / "graveler" / "python")
        own = checkout.resolve() / ".venv" / "bin" / "python"
        python = own if own.exists() else python
    command = [str(python), "-m", "graveler.cli", "serve", "--lake", str(folder), "--port", "0", "--json"]
    command += ["--workers", str(workers), "--audit-log", os.devnull, "--import-source", f"file://{raw}/"]
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
    head, body = request
    with create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        answer = HTTPResponse(connection)
        answer.begin()
        said = answer.read()
    if not 200 <= answer.status < 300:
        raise SystemExit(f"bench: the server at port {port} answered {answer.status}: {said.decode()}")
    return said


def family(process: int) -> list[int]:
    """A process and all below it."""
    return [process, *(below for child in children(process) for below in family(child))]


def children(process: int) -> list[int]:
    """The processes that a process started."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def is_worker(process: int) -> bool:
    """Whether a child of a server's first process serves; Python starts one that does not."""
    return b"resource_tracker" not in Path(f"/proc/{process}/cmdline").read_bytes()


def cpu_seconds(process: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(process: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(results: Results) -> str:
    """The table of what was measured, and that of the goals."""
    return "\n".join([*table(results), "", *goals(results)])


def table(results: Results) -> list[str]:
    """What was measured, a line for each row, number of clients and server."""
    lines = [
        "| request | clients | server | CPU ms | by worker | requests/s | p50 ms | p99 ms | errors | worker MB | client CPU ms |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (name, clients), cells in results.items():
        for server, cell in cells.items():
            by_worker = " + ".join(f"{used:.3f}" for used in cell.by_worker)
            errors = f"{cell.errors}: {cell.first_error.splitlines()[0]}" if cell.errors else "0"
            lines.append(
                f"| {name} | {clients} | {server} | {cell.cpu:.3f} | {by_worker} | {cell.rate:,.0f} | {cell.p50:.2f} | "
                f"{cell.p99:.2f} | {errors} | {cell.memory:.0f} | {cell.client:.3f} |"
            )
    return lines


def goals(results: Results) -> list[str]:
    """Each goal, what was measured, and whether it is met; a row that had errors meets none."""
    lines = ["| goal | measured | wanted | met |", "|---|--:|--:|---|"]
    for (name, clients), cells in results.items():
        ours, other, goal = cells[OURS], cells[BARE], ROWS[name].goal
        row = f"{name}, {clients} client{'s' if clients > 1 else ''}"
        if ours.errors or other.errors:
            lines.append(met(f"{row}: errors", ours.errors + other.errors, 0))
            continue
        if clients in goal.clients:
            lines.append(met(f"{row}: CPU ÷ bare", ours.cpu / other.cpu, goal.cpu))
            lines.append(met(f"{row}: rate ÷ bare", ours.rate / other.rate, goal.rate, least=True))
        if clients > 1:
            lines.append(met(f"{row}: p99 ÷ p50", ours.p99 / ours.p50, TAIL))
    memory = max(cells[OURS].memory for cells in results.values())
    lines.append(met("memory of a worker, MB", memory, MEMORY_MB))
    return lines


def met(what: str, measured: float, wanted: float, *, least: bool = False) -> str:
    """A line of the table of goals."""
    fine = measured >= wanted if least else measured <= wanted
    return f"| {what} | {measured:.{0 if wanted > 99 else 2}f} | {'≥' if least else '≤'} {wanted} | {'yes' if fine else 'no'} |"


if __name__ == "__main__":
    main()
