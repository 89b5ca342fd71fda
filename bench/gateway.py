"""``python -m bench.gateway``: the S3 gateway beside its store directly, and beside a bare relay (:mod:`bench.bare_relay`).

The store is :mod:`bench.s3_like`, so its part of the time is small. It answers a PUT with the MD5 of the bytes, as S3 does, and
the gateway takes that one; with ``--no-md5`` the gateway computes it. ``--delay 20`` makes the store wait so many milliseconds
before each answer. The clients are one process with the gateway's own client of S3. A row has requests or bytes for each second,
and the CPU of the server that is measured for each request. Every server has one process.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from msgspec import Struct

from bench.gateway_store import served
from bench.s3_like import SIZE
from bench.servers import cpu_seconds, family
from graveler.gateway.control import KeyPair, LakePlace, Mount, Opening, line_of
from graveler.gateway.store.port import Bytes
from graveler.gateway.store.s3_origins import locate
from graveler.gateway.store.stores import ByteStores
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.location import FolderLake
from graveler.server.threads import Threads
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.objects.s3_signature import Keys, S3Signer, target_of

KEYS = KeyPair("AKIAJBENCHBENCHBENQ0", "b" * 40)
REGION = "eu-central-1"
_AT_ONCE = 16
KEY, LISTED, SMALL, MIDDLE = "data/part-00000.parquet", 1_000, 4096, 1 << 20


class Target(Struct):
    """A server to measure: the objects in its bucket, its processes, and the lake that it serves."""

    name: str
    objects: S3Objects
    processes: list[int]
    lake: Path | None = None

    def cpu(self) -> float:
        """CPU seconds that it has used."""
        return sum(map(cpu_seconds, self.processes))


@contextmanager
def gateway(folder: Path, namespace: str) -> Iterator[Target]:
    """A gateway of one branch, as of ``graveler run``, whose objects are in the namespace."""
    create_folder_lake(folder).create_repository("bench", namespace)
    opening = Opening(
        lake=LakePlace(folder=FolderLake(folder)),
        mounts=(Mount(bucket="bench", repository="bench", ref="main"),),
        keys=KEYS,
        region=REGION,
    )
    command = [sys.executable, "-m", "graveler.gateway"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line_of(opening))
        process.stdin.flush()
        ready = json.loads(process.stdout.readline())
        try:
            settings = S3Settings(REGION, f"http://127.0.0.1:{ready['port']}")
            yield Target("gateway", S3Objects("bench", "", settings), [process.pid], folder)
        finally:
            process.terminate()


@contextmanager
def relay(store: str) -> Iterator[Target]:
    """The bare relay to a store."""
    with served("bench.bare_relay:create", {"STORE": store}) as (process, url):
        yield Target("relay", S3Objects("bucket", "", S3Settings(REGION, url)), family(process))


class Measurement:
    """The rows of one target."""

    def __init__(self, target: Target, store: Bytes, seconds: float) -> None:
        self._target = target
        self._store = store
        self._seconds = seconds

    async def rate(self, request: Callable[[], Awaitable[object]], clients: int) -> tuple[float, float]:
        """Repeat a request by so many clients for the time of a row. Return requests a second, and ms of CPU for each."""
        await request()
        requests, begin, cpu = 0, time.perf_counter(), self._target.cpu()

        async def client() -> None:
            nonlocal requests
            while time.perf_counter() < begin + self._seconds:
                await request()
                requests += 1

        await asyncio.gather(*[client() for _ in range(clients)])
        return requests / (time.perf_counter() - begin), 1e3 * (self._target.cpu() - cpu) / requests

    async def get(self, length: int = SIZE, *, pause: float = 0) -> None:
        """Read the beginning of an object, with so many seconds between pieces."""
        body = await self._store.read(KEY, 0, length)
        if not isinstance(body, bytes):
            async for _ in body:
                if pause:
                    await asyncio.sleep(pause)
            await body.aclose()

    async def put(self, key: str = KEY, size: int = SIZE, *, pause: float = 0) -> None:
        """Write an object, with so many seconds between pieces."""
        piece = bytes(min(size, 64 << 10))
        async with self._store.writer(key, size) as writer:
            for _ in range(size // len(piece)):
                await writer.write(piece)
                if pause:
                    await asyncio.sleep(pause)
            await writer.finish()


class Control:
    """Requests that are not for bytes, by a connection of its own."""

    def __init__(self, objects: S3Objects) -> None:
        self._origin, region, _ = locate(objects)
        self._signer = S3Signer(Keys(KEYS.id, KEYS.secret), region)
        url = urlsplit(self._origin.url)
        self._connection = HTTPConnection(url.hostname or "", url.port)

    def __call__(self, method: str, key: str, query: tuple[tuple[str, str], ...] = ()) -> bytes:
        target = target_of(self._origin.base, key, query)
        headers = self._signer.sign(method, target, {"host": self._origin.authority})
        self._connection.request(method, target, headers=headers)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return body


async def measure(target: Target, seconds: float) -> dict[str, tuple[float, float]]:
    """Measure all rows of a target: requests a second, and ms of CPU for each."""
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    measurement = Measurement(target, stores.of(target.objects), seconds)
    await measurement.put()
    rows = {
        "GET 4 KiB": await measurement.rate(lambda: measurement.get(SMALL), 1),
        "GET 4 KiB, 16 clients": await measurement.rate(lambda: measurement.get(SMALL), 16),
        "GET a range of 1 MiB, 16 clients": await measurement.rate(lambda: measurement.get(MIDDLE), 16),
        "GET 64 MiB": await measurement.rate(lambda: measurement.get(SIZE), 1),
        "GET 64 MiB, 4 clients": await measurement.rate(lambda: measurement.get(SIZE), 4),
        "PUT 64 MiB": await measurement.rate(measurement.put, 1),
    }
    if target.lake:
        for begin in range(0, LISTED, _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, LISTED))
            await asyncio.gather(*[measurement.put(f"listed/{number:05}", SMALL) for number in numbers])
        request = Control(target.objects)
        listing = (("list-type", "2"), ("prefix", "listed/"))

        async def head() -> None:
            request("HEAD", KEY)

        async def list_objects() -> None:
            assert request("GET", "", listing).count(b"<Key>") == LISTED

        rows["HEAD"] = await measurement.rate(head, 1)
        rows["LIST 1,000, not committed"] = await measurement.rate(list_objects, 1)
        open_folder_lake(target.lake).repository("bench").commit("main", "listed")
        rows["LIST 1,000"] = await measurement.rate(list_objects, 1)
    stores.close()
    disk.close()
    return rows


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="length of a row")
    parser.add_argument("--delay", type=float, default=0, help="ms that the store waits before each answer")
    parser.add_argument("--no-md5", action="store_true", help="the store computes no MD5")
    arguments = parser.parse_args()
    os.environ.update(
        AWS_ACCESS_KEY_ID=KEYS.id, AWS_SECRET_ACCESS_KEY=KEYS.secret, AWS_CONFIG_FILE=os.devnull, AWS_REGION=REGION
    )
    environment = {"DELAY": str(arguments.delay / 1e3), "MD5": "0" if arguments.no_md5 else "1"}
    folder = Path(tempfile.mkdtemp(prefix="bench-gateway-"))
    tables: dict[str, dict[str, tuple[float, float]]] = {}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        process, url = stack.enter_context(served("bench.s3_like:create", environment))
        os.environ["AWS_ENDPOINT_URL_S3"] = url
        store = Target("direct", S3Objects("bucket", "", S3Settings(REGION, url)), family(process))
        targets = [
            store,
            stack.enter_context(relay(url)),
            stack.enter_context(gateway(folder / "lake", "s3://bucket/lake")),
            stack.enter_context(gateway(folder / "on disk", "local://bench")),
        ]
        targets[-1].name = "gateway, folder"
        for target in targets:
            tables[target.name] = uvloop.run(measure(target, arguments.seconds))
    names = list(tables)
    print(f"| | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for row in tables["gateway"]:
        print(f"| {row} | {' | '.join(cell(row, tables[name].get(row)) for name in names)} |")


def cell(row: str, figures: tuple[float, float] | None) -> str:
    """A cell: rate, and CPU of a request."""
    if figures is None:
        return ""
    rate, cpu = figures
    size = SIZE if "64 MiB" in row else MIDDLE if "1 MiB" in row else 0
    return f"{f'{rate * size / 1e6:,.0f} MB/s' if size else f'{rate:,.0f}/s'}, {cpu:.2f} ms"


if __name__ == "__main__":
    main()
