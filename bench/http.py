"""``python -m bench.http``: the HTTP API of ``graveler serve``, with the load from a second process.

Each row is asked by 1 and by 16 clients that keep their connections. CPU is that of the server's processes and of the generator,
in seconds for 1,000 requests; memory is the resident size of the largest worker afterwards. The rows of links and commits count
these only, and so understate: each link follows a request for an address, each commit an upload of one byte.
"""

import argparse
import http.client
import json
import os
import random
import resource
import selectors
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path
from shutil import copytree, rmtree
from urllib.parse import quote, urlencode

from bench import keys, rows
from bench.__main__ import keys_of, prepare

KEY_ID, SECRET = "AKIAJBENCHBENCHBENQ", "b" * 40
CLIENTS = (1, 16)
BASE = f"/api/v1/repositories/{rows.REPOSITORY}"
SAMPLE = 10_000
TICKS = os.sysconf("SC_CLK_TCK")

Steps = Generator[tuple[bytes, bool], bytes, None]
"""Requests, and whether each is one that is measured; takes the body of its answer."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--keys", default="debian", help="debian (1.6 M paths), debian-all (5.6 M), or hive:COUNT")
    parser.add_argument("--rows", default="", help="comma-separated; all of " + ", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=3.0, help="of load for each row (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    parser.add_argument("--load", nargs=3, metavar=("PORT", "ROW", "CLIENTS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    keys_file = keys_of(arguments.keys, arguments.folder)
    if arguments.load:
        port, row, clients = arguments.load
        print(json.dumps(load(int(port), row, int(clients), arguments.seconds, keys_file)))
        return
    base = arguments.folder / f"lake-{keys_file.stem}"
    print(prepare(base, keys_file), end=".\n\n")
    lake = arguments.folder / "run" / "http-lake"
    rmtree(lake, ignore_errors=True)
    copytree(base, lake)
    measure(arguments, lake)


def measure(arguments: argparse.Namespace, lake: Path) -> None:
    """Start a server, put load on it, print the table."""
    environment = os.environ | {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    command = [sys.executable, "-m", "graveler.cli", "serve", "--lake", str(lake), "--port", "0", "--json"]
    command += ["--workers", str(arguments.workers), "--audit-log", os.devnull]
    print(
        "| request | clients | requests/s | p50 ms | p99 ms | server CPU s/1,000 | generator CPU s/1,000 | worker MB |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            port = json.loads(server.stdout.readline())["url"].rpartition(":")[2]
            for row in arguments.rows.split(",") if arguments.rows else ROWS:
                for clients in CLIENTS:
                    print(measured_row(arguments, server.pid, port, row, clients), flush=True)
        finally:
            server.terminate()


def measured_row(arguments: argparse.Namespace, server: int, port: str, row: str, clients: int) -> str:
    """One line of the table. The load says when it begins and ends, so that what it prepares is not counted."""
    command = [sys.executable, "-m", "bench.http", "--keys", arguments.keys, "--folder", str(arguments.folder)]
    command += ["--seconds", str(arguments.seconds), "--load", port, row, str(clients)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
        assert generator.stdout is not None
        assert generator.stdout.readline() == "begin\n"
        before = sum(cpu_seconds(pid) for pid in family(server))
        said = json.loads(generator.stdout.readline())
        processes = family(server)
        used = sum(map(cpu_seconds, processes)) - before
    thousands = said["requests"] / 1000
    return (
        f"| {row} | {clients} | {said['per_second']:,.0f} | {said['p50']:.2f} | {said['p99']:.2f} | "
        f"{used / thousands:.2f} | {said['cpu'] / thousands:.2f} | {max(map(resident, processes)) / 1e6:.0f} |"
    )


def load(port: int, row: str, clients: int, seconds: float, keys_file: Path) -> dict[str, float]:
    """Ask for so many seconds; what it took, in milliseconds."""
    paths = random.Random(7).sample([key.decode() for key in keys.read(keys_file)], SAMPLE)
    asking = [Client(port, ROWS[row](port, number, paths)) for number in range(clients)]
    taken: list[float] = []
    run(asking, 0.3, [])  # caches, and connections to all workers
    print("begin", flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    run(asking, seconds, taken)
    elapsed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    taken.sort()
    return {
        "requests": len(taken),
        "per_second": len(taken) / elapsed,
        "p50": 1000 * taken[len(taken) // 2],
        "p99": 1000 * taken[len(taken) * 99 // 100],
        "cpu": after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime,
    }


class Client:
    """A connection that asks one request after the other."""

    def __init__(self, port: int, steps: Steps) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.steps = steps
        self.measured = False
        self.sent = 0.0
        self.arrived = b""
        self.body = b""
        self.next = next(steps)

    def ask(self) -> None:
        """Send the next request."""
        request, self.measured = self.next
        self.arrived = b""
        self.sent = time.perf_counter()
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Take what has come; is the answer complete?"""
        self.arrived += self.socket.recv(1 << 20)
        head, end, body = self.arrived.partition(b"\r\n\r\n")
        if not end:
            return False
        if not head.startswith((b"HTTP/1.1 20", b"HTTP/1.1 302")):
            raise RuntimeError(self.arrived[:500])
        _, _, length = head.lower().partition(b"content-length:")
        if len(body) < int(length.partition(b"\r\n")[0] or 0):
            return False
        self.body = body
        return True

    def prepare(self) -> None:
        """Make the next request."""
        self.next = self.steps.send(self.body)


def run(clients: list[Client], seconds: float, taken: list[float]) -> None:
    """Let all clients ask for so many seconds, and wait for the last answers."""
    end = time.perf_counter() + seconds
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.ask()
        waiting = len(clients)
        while waiting:
            for selected, _ in selector.select(60):
                client = selected.data
                if not client.answered():
                    continue
                now = time.perf_counter()
                if client.measured:
                    taken.append(now - client.sent)
                client.prepare()
                if now < end or not client.measured:
                    client.ask()
                else:
                    waiting -= 1


def request(method: str, path: str, query: dict[str, str] | None = None, body: bytes = b"", kind: str = "") -> bytes:
    """A request as bytes."""
    target = f"{BASE}{path}?{urlencode(query, quote_via=quote)}" if query else BASE + path
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Basic {b64encode(f'{KEY_ID}:{SECRET}'.encode()).decode()}",
    ]
    if method != "GET":
        lines += [f"Content-Type: {kind or 'application/json'}", f"Content-Length: {len(body)}"]
    return "\r\n".join((*lines, "", "")).encode() + body


def ask_once(port: int, method: str, path: str, query: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    """One request besides the load."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request(method, path, query, body))
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.read()


def stat(port: int, number: int, paths: list[str]) -> Steps:
    for at in count(number * 97):
        yield request("GET", "/refs/main/objects/stat", {"path": paths[at % SAMPLE]}), True


def list_1000(port: int, number: int, paths: list[str]) -> Steps:
    for at in count(number * 97):
        yield request("GET", "/refs/main/objects/ls", {"after": paths[at % SAMPLE], "amount": "1000"}), True


def link(port: int, number: int, paths: list[str]) -> Steps:
    for at in count():
        path = f"linked/{os.getpid()}/{number}/{at}"
        location = json.loads((yield request("GET", "/branches/main/staging/backing", {"path": path}), False))
        body = json.dumps({"staging": location, "checksum": "0" * 32, "size_bytes": 1}).encode()
        yield request("PUT", "/branches/main/staging/backing", {"path": path}, body), True


def create_branch(port: int, number: int, paths: list[str]) -> Steps:
    for at in count():
        body = json.dumps({"name": f"b{os.getpid()}-{number}-{at}", "source": "main"}).encode()
        yield request("POST", "/branches", None, body), True


def commit(port: int, number: int, paths: list[str]) -> Steps:
    branch = f"c{os.getpid()}-{number}"
    ask_once(port, "POST", "/branches", None, json.dumps({"name": branch, "source": "main"}).encode())
    for at in count():
        query = {"path": f"{paths[at % SAMPLE]}.{number}"}
        yield request("POST", f"/branches/{branch}/objects", query, b"%d" % at, "application/octet-stream"), False
        yield request("POST", f"/branches/{branch}/commits", None, b'{"message":"one more"}'), True


ROWS: dict[str, Callable[[int, int, list[str]], Steps]] = {
    "stat": stat,
    "list 1000": list_1000,
    "link": link,
    "create branch": create_branch,
    "commit of 1": commit,
}


def family(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def cpu_seconds(process: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(process: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
