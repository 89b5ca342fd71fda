"""``python -m bench.load``: ``graveler serve`` under load, beside a bare server of the same work, in the same run.

Each row is an operation, asked by so many clients that keep their connections (``load_client.c``). The servers take turns: ours,
the bare one (``bare_server.py``), ours again; and with ``--checkout`` the one of another checkout, which may be an earlier state.
A figure is the median of the rounds. CPU is user and system time of all processes of a server, in ms an operation; behind it the
share of each worker. An operation of two requests counts once. Memory is the resident size of the largest worker when the row had
ended. An answer that is not 2xx is an error, and fails its row. What is written goes to branches of its own; what is read is the
import of real paths. The bare server has no commits.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random
from secrets import token_hex
from shutil import rmtree
from statistics import median
from types import MappingProxyType

from bench import keys, results
from bench.lakes import keys_of, lake_copy, prepare
from bench.lines import Goal, Line, table
from bench.load_client import ADDRESS, CLIENT, NUMBER, Load, Request, compiled, load
from bench.servers import (
    BRANCH,
    REQUESTS,
    Server,
    ask,
    bare,
    children,
    cpu_seconds,
    family,
    graveler,
    is_worker,
    resident,
)

PAGE = Path(__file__).parents[1] / "docs/performance.md"
SAMPLE = 10_000
POPULAR = 100
"""Places of a listing that many ask for."""
OURS, BARE, BEFORE = "server", "bare", "before"
MEMORY_MB = 160
TAIL = 5
"""p99 as a multiple of p50, with many clients."""


@dataclass(frozen=True)
class Bounds:
    """Of CPU and of the rate, as multiples of the bare server's, and for how many clients they are meant."""

    cpu: float
    rate: float
    clients: tuple[int, ...] = (16,)


@dataclass(frozen=True)
class Given:
    """What requests are made of: a name that was never used, paths that are there, an address below which may be staged."""

    name: str
    paths: Sequence[str]
    raw: str

    def anew(self) -> "Given":
        """The same with a name of its own."""
        return replace(self, name=token_hex(4))


@dataclass(frozen=True)
class Row:
    """An operation: a series of them that clients go through, each with its requests."""

    title: str
    operations: Callable[[Given], list[list[Request]]]
    bounds: Bounds | None
    """None: the bare server cannot do it."""
    branch_each: bool = False
    """Whether each client has a branch of its own."""
    ahead: bool = False
    """Whether there is a branch that is a commit ahead of ``main``."""


def stage(given: Given) -> list[list[Request]]:
    path = f"staged/{given.name}/part-{NUMBER}.parquet"
    return [[REQUESTS.send("PUT", f"/branches/{BRANCH}/objects", external(given), path=path)]]


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
    """At so few places that each is soon asked for again."""
    return page_anywhere(replace(given, paths=given.paths[:POPULAR]))


def page_anywhere(given: Given) -> list[list[Request]]:
    return [[REQUESTS.get("/refs/main/objects/ls", after=path, amount="1000")] for path in given.paths]


def commit(given: Given) -> list[list[Request]]:
    branch = f"/branches/{given.name}-{CLIENT}"
    return [
        [
            REQUESTS.send("PUT", f"{branch}/objects", external(given), path=f"{path}.{NUMBER}"),
            REQUESTS.send("POST", f"{branch}/commits", {"message": "one more"}),
        ]
        for path in given.paths
    ]


def merge(given: Given) -> list[list[Request]]:
    branch = f"{given.name}-{NUMBER}"
    return [
        [
            REQUESTS.send("POST", "/branches", {"name": branch, "source": "main"}),
            REQUESTS.send("POST", f"/refs/{given.name}-ahead/merge/{branch}", {}),
        ]
    ]


def external(given: Given) -> dict[str, object]:
    """An object that lies somewhere else already, at an address of its own."""
    return {
        "physical_address": f"{given.raw}part-{NUMBER}.parquet",
        "checksum": "0" * 32,
        "size_bytes": 1234,
        "content_type": "application/octet-stream",
    }


ROWS = MappingProxyType(
    {
        "stage": Row("stage an object that lies elsewhere", stage, Bounds(2.4, 0.4)),
        "link": Row("get an address, and link what was written there", link, Bounds(2.4, 0.4)),
        "create branch": Row("create a branch", create_branch, Bounds(2.9, 0.4)),
        "get branch": Row("get a branch", get_branch, Bounds(1.6, 0.7)),
        "stat": Row("stat an object", stat, Bounds(2.4, 0.5)),
        "page of 1,000": Row("list a page of 1,000, one of a hundred", page, Bounds(1.9, 0.6, (1, 16))),
        "page anywhere": Row("list a page of 1,000, anywhere", page_anywhere, Bounds(1.9, 0.6, (1, 16))),
        "merge": Row("create a branch, and merge one that is a commit ahead into it", merge, None, ahead=True),
        "stage and commit": Row("stage an object and commit it", commit, None, branch_each=True),
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
    arguments = parser().parse_args()
    measured = measure(arguments)
    found = [line(name, clients, cells) for (name, clients), cells in measured.items()]
    print(table(found))
    if any(line.failed for line in found):
        raise SystemExit("bench: requests failed")
    if arguments.write:
        command = f"python -m bench.load --seconds {arguments.seconds:g} --rounds {arguments.rounds}"
        title = results.title(command)
        results.keep("python -m bench.load", title, f"{results.about()}\n\n{table(found)}")
        results.show(PAGE, "load", f"{title}.\n\n{short(measured)}")


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    made.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    made.add_argument("--rows", default="", help="comma-separated; all of " + ", ".join(ROWS))
    made.add_argument("--seconds", type=float, default=3.0, help="of load for each figure (default %(default)s)")
    made.add_argument("--rounds", type=int, default=3, help="of which the median is taken (default %(default)s)")
    made.add_argument("--clients", default="1,16", help="how many at once, with commas between (default %(default)s)")
    made.add_argument("--workers", type=int, default=2, help="processes of each server (default %(default)s)")
    made.add_argument("--checkout", type=Path, help="another checkout of graveler, whose server is measured beside")
    made.add_argument(
        "--write", action="store_true", help="put the tables into bench/RESULTS.md and docs/performance.md"
    )
    made.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    return made


def measure(arguments: argparse.Namespace) -> Results:
    """Start the servers, and put load on them in turn."""
    chosen = re.split(",(?!000)", arguments.rows) if arguments.rows else list(ROWS)
    if unknown := set(chosen) - set(ROWS):
        raise SystemExit(f"bench: no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    keys_file = keys_of(arguments.keys, arguments.folder)
    base = arguments.folder / f"lake-{keys_file.stem}"
    prepare(base, keys_file)
    program = compiled(arguments.folder)
    paths = Random(7).sample([key.decode() for key in keys.read(keys_file)], SAMPLE)
    found: Results = {}
    run = arguments.folder / "run" / f"load-{os.getpid()}"
    raw = run.resolve() / "raw"
    raw.mkdir(parents=True)
    given = Given("", paths, f"file://{raw}/")
    try:
        with ExitStack() as stack:
            servers: dict[str, Server] = {}
            for which, checkout in (OURS, None), (BEFORE, arguments.checkout):
                if which == OURS or checkout:
                    lake_copy(base, run / which)
                    place = ("--lake", str(run / which))
                    started = graveler(place, arguments.workers, source=given.raw, checkout=checkout)
                    servers[which] = stack.enter_context(started)
            servers[BARE] = stack.enter_context(bare(run / BARE, keys_file, arguments.workers))
            for name, clients in product(chosen, map(int, arguments.clients.split(","))):
                asked = {which: server for which, server in servers.items() if ROWS[name].bounds or which != BARE}
                cells = found[name, clients] = {which: Cell() for which in asked}
                for _ in range(arguments.rounds):
                    for which, server in asked.items():
                        measured = under_load(server, ROWS[name], given.anew(), program, clients, arguments.seconds)
                        cells[which].rounds.append(measured)
                for which, cell in cells.items():
                    print(f"{name}, {clients} clients, {which}: {cell.cpu:.3f} ms, {cell.rate:,.0f}/s", file=sys.stderr)
    finally:
        rmtree(run)
    return found


def under_load(
    server: Server,
    row: Row,
    given: Given,
    program: Path,
    clients: int,
    seconds: float,
    *,
    begin: Callable[[], None] = lambda: None,
) -> Measured:
    """One round. ``begin`` is called after the warm-up."""
    before: dict[int, float] = {}
    operations = row.operations(given)

    def start() -> None:
        begin()
        before.update((process, cpu_seconds(process)) for process in family(server.process))

    for client in range(clients if row.branch_each else 0):
        ask(server.port, REQUESTS.send("POST", "/branches", {"name": f"{given.name}-{client:03}", "source": "main"}))
    if row.ahead:
        ahead = f"{given.name}-ahead"
        path = f"{ahead}/object"
        ask(server.port, REQUESTS.send("POST", "/branches", {"name": ahead, "source": "main"}))
        ask(server.port, REQUESTS.send("PUT", f"/branches/{ahead}/objects", external(given), path=path))
        ask(server.port, REQUESTS.send("POST", f"/branches/{ahead}/commits", {"message": "one ahead"}))
    seen = load(
        program,
        server.port,
        clients,
        seconds,
        operations,
        begin=start,
    )
    used = {process: cpu_seconds(process) - before.get(process, 0.0) for process in family(server.process)}
    workers = [process for process in used if process in children(server.process) and is_worker(process)]
    return Measured(seen, sum(used.values()), tuple(used[worker] for worker in workers), max(map(resident, workers)))


def lines(arguments: argparse.Namespace) -> list[Line]:
    """Measure; a line for each row and number of clients."""
    return [line(name, clients, cells) for (name, clients), cells in measure(arguments).items()]


def line(name: str, clients: int, cells: dict[str, Cell]) -> Line:
    """A row with its goals."""
    ours, bare, before = cells[OURS], cells.get(BARE), cells.get(BEFORE)
    beside = "; ".join(f"{which}: {brief(cell)}" for which, cell in cells.items() if which != OURS)
    found = []
    bounds = ROWS[name].bounds
    if bounds and bare and clients in bounds.clients:
        found.append(Goal("CPU ÷ bare", ours.cpu / bare.cpu, bounds.cpu))
        found.append(Goal("rate ÷ bare", ours.rate / bare.rate, bounds.rate, least=True))
    if clients > 1:
        found.append(Goal("p99 ÷ p50", ours.p99 / ours.p50, TAIL))
    found.append(Goal("worker MB", ours.memory, MEMORY_MB))
    notes = f"clients: {ours.client:.3f} ms CPU"
    if before:
        notes += f"; CPU ÷ before {ours.cpu / before.cpu:.2f}, rate ÷ before {ours.rate / before.rate:.2f}"
    return Line(
        what=f"{name}, {clients} client{'s' if clients > 1 else ''}, HTTP",
        measured=f"{ours.cpu:.3f} ms CPU ({' + '.join(f'{share:.3f}' for share in ours.by_worker)})",
        rate=f"{ours.rate:,.0f}",
        spread=f"p50 {ours.p50:.2f} ms, p99 {ours.p99:.2f}",
        memory=f"{ours.memory:.0f} MB a worker",
        beside=beside,
        goals=tuple(found),
        notes=notes,
        failed="; ".join(
            f"{cell.errors} errors of {which}: {cell.first_error}" for which, cell in cells.items() if cell.errors
        ),
    )


def short(measured: Results) -> str:
    """The table of the page on performance: what readers want to know of each operation. Of those with 1 and with 16 clients."""
    lines = [
        "| over HTTP | 1 client: a second | p50, p99 ms | 16 clients: a second | p50, p99 ms | CPU ms | a bare server's |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in dict.fromkeys(name for name, _ in measured):
        one, many, other = measured[name, 1][OURS], measured[name, 16][OURS], measured[name, 16].get(BARE)
        cells = [ROWS[name].title]
        for cell in one, many:
            cells += [f"{cell.rate:,.0f}", f"{cell.p50:.1f}, {cell.p99:.1f}"]
        cells += [f"{many.cpu:.2f}", f"{other.cpu:.2f}" if other else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def brief(cell: Cell) -> str:
    """What stands beside ours."""
    return f"{cell.cpu:.3f} ms CPU, {cell.rate:,.0f}/s, p50 {cell.p50:.2f} ms, p99 {cell.p99:.2f}"


if __name__ == "__main__":
    main()
