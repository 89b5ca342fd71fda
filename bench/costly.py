"""``python -m bench.costly``: the ten requests to ``graveler serve`` with the most CPU for the bytes that they send.

What a stranger looks for who wants much work for little. Every request of the API that reads is sent with what makes it largest,
and some that are built for the purpose (long expressions, patterns, headers, nested JSON, wrong secrets), against a lake of
--objects objects, 1,000 commits, 1,000 branches, and a branch with 10,000 uncommitted changes. CPU is that of the server's
processes; each request is sent until they have used 0.3 seconds, and at least five times.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from urllib.parse import quote

from bench.servers import cpu_seconds, family
from graveler.lake.opening.folder import create_folder_lake
from graveler.model import ObjectEntry

KEY_ID, SECRET = "AKIAJBENCHBENCHBENQ", "b" * 40
BASE: Final = "/api/v1"
REPOSITORY: Final = f"{BASE}/repositories/costly"
OPENAPI: Final = Path(__file__).resolve().parents[1] / "docs/openapi.json"
ENOUGH: Final = 0.3
MOST: Final = 400
SHOWN: Final = 10
NAMES: Final = {
    **dict.fromkeys(("ref", "left", "right", "source", "commit", "commit_id"), "main"),
    "right": "changed",
    "repository": "costly",
    "branch": "changed",
    "destination": "changed",
    "tag": "v1",
}
QUERY: Final = {"amount": "1000", "path": "a/00000008", "prefix": "", "id": "main"}
"""What the parameters of a query say that are of one of these names."""

ELSEWHERE: Final = ("getObject", "headObject")
"""Its bytes are in no store of this machine."""

KEY: Final = {"Authorization": f"Basic {b64encode(f'{KEY_ID}:{SECRET}'.encode()).decode()}"}
JSON: Final = {"Content-Type": "application/json"}


class Asked(NamedTuple):
    """A request, and what it is called."""

    name: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def size(self) -> int:
        """Bytes, with what the client adds."""
        head = f"{self.method} {self.target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        return len(head) + sum(len(name) + len(value) + 4 for name, value in self.headers.items()) + len(self.body)


class Measured(NamedTuple):
    """What a request took, each time."""

    asked: Asked
    status: int
    answer: int
    cpu: float
    elapsed: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.costly", description=__doc__)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--all", action="store_true", help="show all of them")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        make_lake(lake, arguments.objects)
        found = measure(lake)
    found.sort(key=lambda each: -each.cpu / each.asked.size)
    print("| request | status | sent B | answer B | CPU ms | ms | CPU µs per byte sent |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for each in found if arguments.all else found[:SHOWN]:
        print(
            f"| {each.asked.name} | {each.status} | {each.asked.size:,} | {each.answer:,} | {1e3 * each.cpu:.1f} | "
            f"{1e3 * each.elapsed:.1f} | {1e6 * each.cpu / each.asked.size:.1f} |"
        )


def make_lake(folder: Path, objects: int) -> None:
    """A lake as the module's docstring has it."""
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("costly", "local://costly")
        listing = folder / "listing.csv"
        with listing.open("w") as file:
            file.write("path,physical_address,size,etag\n")
            for number in range(objects):
                file.write(f"{'abcdefgh'[number % 8]}/{number:08},s3://bucket/{number:08},1,{number:032x}\n")
        repository.import_listing("main", listing)
        listing.unlink()
        for number in range(1_000):
            repository.commit("main", f"commit {number}", allow_empty=True)
            repository.create_branch(f"branch-{number:04}", "main")
        repository.create_tag("v1", "main")
        repository.create_branch("changed", "main~1000")
        changed = [
            ObjectEntry(f"a/{number * 8:08}", f"s3://bucket/changed/{number}", 2, "0" * 32, 1)
            for number in range(min(10_000, objects // 8))
        ]
        repository.link_many("changed", changed)


def requests() -> Iterator[Asked]:
    """All requests to send."""
    for path, item in json.loads(OPENAPI.read_text())["paths"].items():
        operation = item.get("get")
        if operation is not None:
            target = path
            for name, value in NAMES.items():
                target = target.replace("{" + name + "}", value)
            known = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
            query = "&".join(f"{name}={quote(value)}" for name, value in QUERY.items() if name in known)
            if "{" not in target and operation["operationId"] not in ELSEWHERE:
                yield Asked(operation["operationId"], "GET", f"{BASE}{target}?{query}", KEY)
    stat = f"{REPOSITORY}/refs/main/objects/stat"
    yield Asked("getCommit: 990 steps back", "GET", f"{REPOSITORY}/commits/{quote('main~990')}", KEY)
    yield Asked("getCommit: 1,000 times one step", "GET", f"{REPOSITORY}/commits/main{quote('~') * 1000}", KEY)
    yield Asked("getCommit: 300 second parents", "GET", f"{REPOSITORY}/commits/main{quote('^2') * 300}", KEY)
    yield Asked(
        "logCommits: of a path that nothing changed",
        "GET",
        f"{REPOSITORY}/refs/main/commits?objects=none&amount=1000",
        KEY,
    )
    yield Asked(
        "listObjects: by delimiter, deep", "GET", f"{REPOSITORY}/refs/changed/objects/ls?delimiter=/&amount=1000", KEY
    )
    yield Asked("diffRefs: by delimiter", "GET", f"{REPOSITORY}/refs/main/diff/changed?delimiter=/&amount=1000", KEY)
    yield Asked(
        "headObject: a Range of 30 KB",
        "HEAD",
        f"{REPOSITORY}/refs/main/objects?path=a/00000008",
        {**KEY, "Range": "bytes=" + "0-," * 10_000},
    )
    yield Asked(
        "statObject: 400 headers", "GET", f"{stat}?path=a/00000008", {**KEY, **{f"x-{n}": "y" for n in range(400)}}
    )
    yield Asked(
        "statObject: 15 KB of query",
        "GET",
        f"{stat}?path=a/00000008&" + "&".join(f"p{n}=%41" for n in range(1_500)),
        KEY,
    )
    yield Asked("statObject: no key", "GET", f"{stat}?path=a/00000008", {})
    wrong = b64encode(f"{KEY_ID}:{'c' * 40}".encode()).decode()
    yield Asked("statObject: a wrong secret", "GET", f"{stat}?path=a/00000008", {"Authorization": f"Basic {wrong}"})
    yield Asked("statObject: a token that is none", "GET", f"{stat}?path=a", {"Authorization": f"Bearer {'a.' * 2000}"})
    login = json.dumps({"access_key_id": KEY_ID, "secret_access_key": "c" * 40}).encode()
    yield Asked("login: a wrong secret", "POST", f"{BASE}/auth/login", JSON, login)
    yield Asked("login: 15 KB of brackets", "POST", f"{BASE}/auth/login", JSON, b"[" * 15_000)
    many = json.dumps({"paths": [f"none/{number}" for number in range(1_000)]}).encode()
    yield Asked(
        "deleteObjects: 1,000 that are not there",
        "POST",
        f"{REPOSITORY}/branches/main/objects/delete",
        KEY | JSON,
        many,
    )
    yield Asked(
        "deleteObjects: 1 MB of brackets",
        "POST",
        f"{REPOSITORY}/branches/main/objects/delete",
        KEY | JSON,
        b'{"paths":' + b"[" * (1 << 20),
    )
    keys = ",".join(f'"k{number}":0' for number in range(100_000))
    yield Asked(
        "commit: 100,000 unknown fields",
        "POST",
        f"{REPOSITORY}/branches/main/commits",
        KEY | JSON,
        f"{{{keys}}}".encode(),
    )
    merge = f"{REPOSITORY}/refs/changed/merge/main"
    yield Asked("mergeIntoBranch: refused, uncommitted changes", "POST", merge, KEY | JSON, b"{}")
    yield Asked(
        "createBranch: of a name that is there",
        "POST",
        f"{REPOSITORY}/branches",
        KEY | JSON,
        b'{"name":"changed","source":"main"}',
    )
    yield Asked(
        "resetBranch: a path without changes",
        "PUT",
        f"{REPOSITORY}/branches/main",
        KEY | JSON,
        b'{"type":"object","path":"none"}',
    )


def measure(lake: Path) -> list[Measured]:
    """Send them all to a server of its own."""
    environment = os.environ | {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    command = [
        sys.executable,
        "-m",
        "graveler.cli",
        "serve",
        "--lake",
        str(lake),
        "--port",
        "0",
        "--json",
        "--workers",
        "1",
    ]
    command += ["--audit-log", os.devnull]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            port = int(json.loads(server.stdout.readline())["url"].rpartition(":")[2])
            asked = list(requests())
            random.Random(7).shuffle(asked)
            return [sent(server.pid, port, each) for each in asked]
        finally:
            server.terminate()


def sent(server: int, port: int, asked: Asked) -> Measured:
    """What one request takes, when caches are warm."""
    status, answer = ask(port, asked)
    processes = family(server)
    before = sum(map(cpu_seconds, processes))
    began = time.perf_counter()
    times = 0
    while times < 5 or (sum(map(cpu_seconds, processes)) - before < ENOUGH and times < MOST):
        ask(port, asked)
        times += 1
    elapsed = time.perf_counter() - began
    return Measured(asked, status, answer, (sum(map(cpu_seconds, processes)) - before) / times, elapsed / times)


def ask(port: int, asked: Asked) -> tuple[int, int]:
    """Status, and length of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request(asked.method, asked.target, asked.body or None, asked.headers)
        answer = connection.getresponse()
        return answer.status, len(answer.read())
    finally:
        connection.close()


if __name__ == "__main__":
    main()
