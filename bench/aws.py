"""``python -m bench.aws``: ``graveler serve`` on servers that stand in for AWS, DynamoDB Local and s3proxy.

Under load, the operations of ``bench.load``: the server's CPU an operation, and how many requests it makes to the table and to
the store. One after the other, with a latency that proxies add to each request: how many requests go out, how many of them at
once, and in how many waves, of which each begins when all before it has been answered: so often the server waits.
All of it is warm: the server has done the same before. Both stand-ins and the proxies take CPU of the same machine, so that
rates say little; CPU is that of the server alone.
"""

import argparse
import json
import os
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from secrets import token_bytes, token_hex
from shutil import rmtree, which
from statistics import median
from threading import Lock, get_ident
from unittest.mock import patch

from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import FaultyProxy
from tests.support.servers import REGION, dynamodb_local, s3proxy

from bench import keys, rows
from bench.lakes import keys_of
from bench.lines import Goal, Line, table
from bench.load import ROWS, SAMPLE, Cell, Given, under_load
from bench.load_client import Request, compiled
from bench.servers import REQUESTS, Server, ask, graveler
from graveler.lake.opening.aws import open_lake
from graveler.storage.objects.s3 import S3Settings

TIMES = 5
"""Of each operation that is asked with latency: the median of times, the least of waits."""
WAITS = {
    "stat": 2,
    "link": 2,
    "commit of one change": 8,
    "merge of one change": 8,
    "merge of one change with another": 8,
}
"""At most so many requests of an operation wait for one another."""


def main() -> None:
    found = lines(parser().parse_args())
    print(table(found))
    if any(line.failed for line in found):
        raise SystemExit("bench: requests failed")


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.aws", description=__doc__)
    made.add_argument("--keys", default="hive:100000", help="debian, debian-all, or hive:COUNT (default %(default)s)")
    made.add_argument("--rows", default="", help="under load; comma-separated, all of " + ", ".join(ROWS))
    made.add_argument("--seconds", type=float, default=2.0, help="of load for each figure (default %(default)s)")
    made.add_argument("--rounds", type=int, default=3, help="of which the median is taken (default %(default)s)")
    made.add_argument("--clients", default="16", help="how many at once, with commas between (default %(default)s)")
    made.add_argument("--workers", type=int, default=2, help="processes of the server (default %(default)s)")
    made.add_argument(
        "--table-ms", type=float, default=5.0, help="added to a request to the table (default %(default)s)"
    )
    made.add_argument(
        "--store-ms", type=float, default=20.0, help="added to a request to the store (default %(default)s)"
    )
    made.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    return made


@dataclass(frozen=True)
class Exchange:
    """A request to one of the two, by the clock."""

    of_table: bool
    operation: str
    begin: float
    end: float


class Watch:
    """What goes through the proxies, and how much longer it takes."""

    def __init__(self) -> None:
        self.delays = {True: 0.0, False: 0.0}
        """Seconds that a request to the table, and one to the store, takes longer."""
        self._seen: list[Exchange] = []
        self._begun: dict[tuple[bool, int], float] = {}
        self._lock = Lock()

    def over(self, proxy: FaultyProxy, *, of_table: bool) -> None:
        """Watch a proxy: it has a thread for each connection, which asks one request after the other."""

        def begun(_operation: str, _ordinal: int) -> None:
            self._begun[of_table, get_ident()] = time.monotonic()

        def answered(operation: str, _request: bytes, _answer: bytes) -> None:
            time.sleep(self.delays[of_table])
            begin = self._begun[of_table, get_ident()]
            with self._lock:
                self._seen.append(Exchange(of_table, operation, begin, time.monotonic()))

        proxy.begin(begun)
        proxy.answered = answered

    def taken(self) -> list[Exchange]:
        """What was answered since this was asked last."""
        with self._lock:
            taken, self._seen = self._seen, []
        return taken


def lines(arguments: argparse.Namespace) -> list[Line]:
    """Under load, then one after the other with latency."""
    if missing := [tool for tool in ("java", "javac", "mvn") if which(tool) is None]:
        return [Line("operations on AWS' stand-ins", "not measured", notes=f"no {' and no '.join(missing)} here")]
    keys_file = keys_of(arguments.keys, arguments.folder)
    run = arguments.folder / "run" / f"aws-{os.getpid()}"
    run.mkdir(parents=True)
    watch = Watch()
    try:
        with serving(arguments.workers, keys_file, run, watch) as (server, raw):
            found = list(loaded(arguments, server, keys_file, raw, watch))
            watch.delays = {True: arguments.table_ms / 1e3, False: arguments.store_ms / 1e3}
            found += waiting(server, keys_file, watch)
            return found
    finally:
        rmtree(run)


@contextmanager
def serving(workers: int, keys_file: Path, run: Path, watch: Watch) -> Iterator[tuple[Server, str]]:
    """A server on a lake with all keys; and from where may be staged."""
    name = f"bench-{token_hex(6)}"
    objects, tables = f"s3://{name}/lake", f"dynamodb://{name}"
    with (
        patch.dict(os.environ, CREDENTIALS),
        FaultyProxy(dynamodb_local()) as table_proxy,
        FaultyProxy(s3proxy()) as store_proxy,
    ):
        settings = S3Settings(REGION, s3proxy())
        make_bucket(name, settings)
        lake = open_lake(
            objects, tables, s3=settings, region=REGION, dynamodb_endpoint_url=dynamodb_local(), create_table=True
        )
        rows.import_all(lake.create_repository(rows.REPOSITORY, f"{objects}/{rows.REPOSITORY}"), keys_file)
        watch.over(table_proxy, of_table=True)
        watch.over(store_proxy, of_table=False)
        place = ["--objects", objects, "--tables", tables, "--region", REGION, "--cache", str(run / "cache")]
        place += ["--s3-endpoint-url", store_proxy.url, "--dynamodb-endpoint-url", table_proxy.url]
        sealing_key = run / "sealing-key"
        sealing_key.touch(mode=0o600)
        sealing_key.write_bytes(b64encode(token_bytes(32)))
        place += ["--sealing-key-file", str(sealing_key)]
        raw = f"s3://{name}/raw/"
        with graveler(place, workers, source=raw) as server:
            yield server, raw


def loaded(arguments: argparse.Namespace, server: Server, keys_file: Path, raw: str, watch: Watch) -> Iterator[Line]:
    """A line for each operation and number of clients."""
    program = compiled(arguments.folder)
    given = Given("", sample(keys_file), raw)
    chosen = arguments.rows.split(",") if arguments.rows else list(ROWS)
    for name, clients in product(chosen, map(int, arguments.clients.split(","))):
        cell, seen = Cell(), []
        for _ in range(arguments.rounds):
            cell.rounds.append(
                under_load(
                    server, ROWS[name], given.anew(), program, clients, arguments.seconds, begin=partial(forget, watch)
                )
            )
            seen += watch.taken()
        operations = sum(measured.load.operations for measured in cell.rounds)
        of_table = sum(exchange.of_table for exchange in seen)
        yield Line(
            what=f"{name}, {clients} clients, HTTP, on AWS' stand-ins",
            measured=f"{cell.cpu:.2f} ms CPU ({' + '.join(f'{share:.2f}' for share in cell.by_worker)})",
            rate=f"{cell.rate:,.0f}",
            spread=f"p50 {cell.p50:.1f} ms, p99 {cell.p99:.1f}",
            memory=f"{cell.memory:.0f} MB a worker",
            notes=f"{of_table / operations:.2f} requests to the table, {(len(seen) - of_table) / operations:.2f} to the store",
            failed=f"{cell.errors} errors: {cell.first_error}" if cell.errors else "",
        )
        print(f"{name}, {clients} clients: {cell.cpu:.2f} ms", file=sys.stderr)


def forget(watch: Watch) -> None:
    watch.taken()


def sample(keys_file: Path) -> list[str]:
    """Paths from everywhere."""
    found = [key.decode() for key in keys.read(keys_file)]
    return Random(7).sample(found, min(SAMPLE, len(found)))


def waiting(server: Server, keys_file: Path, watch: Watch) -> Iterator[Line]:
    """A line for each operation, asked by one client on its own."""
    paths = sample(keys_file)
    for name, make in OPERATIONS.items():
        taken: list[tuple[float, list[Exchange]]] = []
        for number in range(TIMES + 2):  # two to warm both workers up
            request = make(server.port, number, paths)
            watch.taken()
            begin = time.monotonic()
            ask(server.port, request)
            taken.append((time.monotonic() - begin, watch.taken()))
        del taken[:2]
        seen = [exchanges for _, exchanges in taken]
        # What waits for nothing may still come late on a busy machine; what waits for an answer always comes behind it.
        best = min(map(waves, seen), key=len)
        yield Line(
            what=f"{name}, warm, with latency",
            measured=f"{1e3 * median(seconds for seconds, _ in taken):.0f} ms",
            goals=(Goal("waits", len(best), WAITS[name]),) if name in WAITS else (),
            notes=(
                f"{median(sum(each.of_table for each in one) for one in seen):.0f} requests to the table, "
                f"{median(sum(not each.of_table for each in one) for one in seen):.0f} to the store, at most "
                f"{max(map(at_once, seen))} at once, in {len(best)} waves: {story(best)}"
            ),
        )


def waves(exchanges: Sequence[Exchange]) -> list[list[Exchange]]:
    """What went out, in order; a wave begins when all before it has been answered."""
    found: list[list[Exchange]] = []
    end = 0.0
    for each in sorted(exchanges, key=lambda exchange: exchange.begin):
        if not found or each.begin >= end:
            found.append([])
        found[-1].append(each)
        end = max(end, each.end)
    return found


def at_once(exchanges: Sequence[Exchange]) -> int:
    """The most requests that were out at a time."""
    changes = sorted([(each.begin, 1) for each in exchanges] + [(each.end, -1) for each in exchanges])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def story(sent: Sequence[Sequence[Exchange]]) -> str:
    """The waves in words."""
    counted = [Counter(each.operation for each in wave) for wave in sent]
    return ", ".join(" + ".join(f"{n} {name}" if n > 1 else name for name, n in wave.items()) for wave in counted)


def _stat(_port: int, _number: int, paths: Sequence[str]) -> Request:
    return REQUESTS.get("/refs/main/objects/stat", path=paths[0])


def _page(_port: int, _number: int, paths: Sequence[str]) -> Request:
    return REQUESTS.get("/refs/main/objects/ls", after=paths[0], amount="1000")


def _link(port: int, number: int, _paths: Sequence[str], branch: str = "main", path: str = "waits") -> Request:
    backing = f"/branches/{branch}/staging/backing"
    address = json.loads(ask(port, REQUESTS.get(backing, path=path)))["physical_address"]
    body = {"staging": {"physical_address": address}, "checksum": f"{number:032}", "size_bytes": 1}
    return REQUESTS.send("PUT", backing, body, path=path)


def _commit(port: int, number: int, paths: Sequence[str]) -> Request:
    return _staged(port, f"waits-commit-{number}", number, paths[number])


def _merge(port: int, number: int, paths: Sequence[str]) -> Request:
    """Into a branch that has not changed since."""
    destination, branch = f"waits-destination-{number}", f"waits-merge-{number}"
    ask(port, REQUESTS.send("POST", "/branches", {"name": destination, "source": "main"}))
    ask(port, _staged(port, branch, number, paths[-1 - number]))
    return REQUESTS.send("POST", f"/refs/{branch}/merge/{destination}", {"message": "one"})


def _merge_apart(port: int, number: int, paths: Sequence[str]) -> Request:
    """Into a branch that has changed another object."""
    destination, branch = f"waits-apart-{number}", f"waits-merge-apart-{number}"
    ask(port, _staged(port, destination, number, paths[100 + number]))
    ask(port, _staged(port, branch, number, paths[-100 - number]))
    return REQUESTS.send("POST", f"/refs/{branch}/merge/{destination}", {"message": "one"})


def _staged(port: int, branch: str, number: int, path: str) -> Request:
    """The commit of one staged change on a branch of its own."""
    ask(port, REQUESTS.send("POST", "/branches", {"name": branch, "source": "main"}))
    ask(port, _link(port, number, (), branch, f"{path}.new"))
    return REQUESTS.send("POST", f"/branches/{branch}/commits", {"message": "one"})


OPERATIONS: dict[str, Callable[[int, int, Sequence[str]], Request]] = {
    "stat": _stat,
    "link": _link,
    "page of 1,000": _page,
    "commit of one change": _commit,
    "merge of one change": _merge,
    "merge of one change with another": _merge_apart,
}
"""Each prepares by requests to a port, and gives the one to measure. It takes how many there were before, and paths."""


if __name__ == "__main__":
    main()
