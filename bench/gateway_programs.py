"""``python -m bench.gateway_programs``: what programs notice of the S3 gateway, beside what they have without it.

- The peak of a gateway's memory with 64 transfers of 64 MiB, of which half go as fast as they can and half are slow.
- pyarrow reads a table of many Parquet files, through the gateway and from the store directly, which waits before each answer.
- HEAD of an object, beside the same question to ``graveler serve``: CPU of the servers.
- ``graveler run BRANCH -- true``, beside ``graveler branch list``: the clock, and CPU of all processes.

The store is :mod:`bench.s3_like`.
"""

import argparse
import asyncio
import io
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import uvloop

from bench import rows, servers
from bench.gateway import KEY, KEYS, REGION, Control, Measurement, Target, gateway
from bench.gateway_store import served
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.s3 import S3Objects, S3Settings

TRANSFERS, SLOW_SECONDS = 64, 0.05
READERS = 64
"""Threads of pyarrow that wait for bytes, and writers of the files."""


async def keep_transferring(target: Target, verb: str, seconds: float) -> None:
    """Read or write objects of 64 MiB all the time; each second client pauses between its pieces."""
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    measurement = Measurement(target, stores.of(target.objects), seconds)
    await measurement.put()

    async def transfer(number: int) -> None:
        pause = SLOW_SECONDS * (number % 2)
        while True:
            await (measurement.put(f"data/{number}", pause=pause) if verb == "PUT" else measurement.get(pause=pause))

    transfers = [asyncio.create_task(transfer(number)) for number in range(TRANSFERS)]
    await asyncio.wait(transfers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in transfers:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.wait(transfers)
    stores.close()
    disk.close()


def show_memory(folder: Path, seconds: float) -> None:
    """The peaks of the gateway's memory."""
    for place, namespace in (("S3", f"s3://bucket/{folder.name}"), ("a folder", "local://bench")):
        for verb in ("GET", "PUT"):
            with gateway(folder / f"{verb} {place}", namespace) as target:
                before = rows.peak_memory(target.processes[0])
                uvloop.run(keep_transferring(target, verb, seconds))
                after = rows.peak_memory(target.processes[0])
            print(
                f"| memory, {TRANSFERS} × {verb} of 64 MiB, bytes in {place} | {after / 1e6:.0f} MB | "
                f"{before / 1e6:.0f} MB at the start |",
                flush=True,
            )


async def write_files(objects: S3Objects, names: Sequence[str], data: bytes) -> None:
    """Write a file under each of these names."""
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    places = asyncio.Semaphore(READERS)
    store = stores.of(objects)

    async def write(name: str) -> None:
        async with places, store.writer(name, len(data)) as writer:
            await writer.write(data)
            await writer.finish()

    await asyncio.gather(*map(write, names))
    stores.close()
    disk.close()


def show_partitions(folder: Path, store: str, amount: int) -> None:
    """The times of an engine that reads a table of many files."""
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"id": range(100), "value": [0.5] * 100}), file)
    names = [f"day={number}/part.parquet" for number in range(amount)]
    pa.set_io_thread_count(READERS)
    seconds = {}
    with gateway(folder / "partitions", f"s3://bucket/{folder.name}/partitions") as target:
        places = {"direct": S3Objects("bucket", "", S3Settings(REGION, store)), "gateway": target.objects}
        for name, objects in places.items():
            uvloop.run(write_files(objects, names, file.getvalue()))
            source = pa.fs.S3FileSystem(
                access_key=KEYS.id,
                secret_key=KEYS.secret,
                region=REGION,
                scheme="http",
                endpoint_override=(objects.settings.endpoint_url or "").removeprefix("http://"),
            )
            begin = time.perf_counter()
            table = pa.dataset.dataset([f"{objects.bucket}/{name}" for name in names], filesystem=source).to_table()
            seconds[name] = time.perf_counter() - begin
            assert table.num_rows == 100 * amount
    direct, through = seconds["direct"], seconds["gateway"]
    print(
        f"| {amount:,} Parquet files by pyarrow | {through:.2f} s | {direct:.2f} s directly: × {through / direct:.2f} |"
    )


def show_head(folder: Path, seconds: float) -> None:
    """CPU of a HEAD, and of the same question over HTTP."""
    with gateway(folder / "head", "local://bench") as target:
        uvloop.run(write_files(target.objects, [KEY], b"x"))
        request = Control(target.objects)
        head = cpu_of(target.processes, lambda: request("HEAD", KEY), seconds)
    question = servers.REQUESTS.get("/refs/main/objects/stat", path=KEY)
    with (
        servers.graveler(["--lake", str(target.lake)], 1, source=f"{folder.as_uri()}/") as server,
        servers.connected(server.port) as connection,
    ):
        stat = cpu_of(servers.family(server.process), lambda: servers.answered(connection, question), seconds)
    print(f"| HEAD, CPU | {head:.2f} ms | {stat:.2f} ms for stat over HTTP |", flush=True)


def cpu_of(processes: list[int], request: Callable[[], object], seconds: float) -> float:
    """CPU of a request in ms."""
    request()
    begin, cpu, requests = time.perf_counter(), sum(map(servers.cpu_seconds, processes)), 0
    while time.perf_counter() < begin + seconds:
        request()
        requests += 1
    return 1e3 * (sum(map(servers.cpu_seconds, processes)) - cpu) / requests


def show_run(folder: Path, rounds: int) -> None:
    """Time and CPU of a run of nothing."""
    lake = str(folder / "run")
    command = [sys.executable, "-m", "graveler.cli"]
    subprocess.run([*command, "init", "--lake", lake], check=True, capture_output=True)
    subprocess.run([*command, "repo", "create", "bench", "--lake", lake], check=True, capture_output=True)
    verbs = {
        "run": ["run", "bench/main", "--lake", lake, "--", "true"],
        "list": ["branch", "list", "bench", "--lake", lake],
    }
    clock: dict[str, list[float]] = {name: [] for name in verbs}
    cpu: dict[str, list[float]] = {name: [] for name in verbs}
    for _ in range(rounds):
        for name, verb in verbs.items():
            before, begin = children_cpu(), time.perf_counter()
            subprocess.run([*command, *verb], check=True, capture_output=True)
            clock[name].append(time.perf_counter() - begin)
            cpu[name].append(children_cpu() - before)
    for title, unit in (("clock", clock), ("CPU", cpu)):
        run, listing = median(unit["run"]), median(unit["list"])
        print(f"| `graveler run -- true`, {title} | {run:.2f} s | {listing:.2f} s for `graveler branch list` |")


def children_cpu() -> float:
    """CPU seconds of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def emulated(delay: float) -> Iterator[str]:
    """The address of a store that waits so many ms before each answer."""
    with served("bench.s3_like:create", {"DELAY": str(delay / 1e3)}) as (_, url):
        os.environ["AWS_ENDPOINT_URL_S3"] = url
        yield url


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway_programs", description=__doc__)
    parser.add_argument("--rows", default="memory,partitions,head,run", help="the rows, by their names")
    parser.add_argument("--seconds", type=float, default=5, help="length of a row")
    parser.add_argument("--partitions", type=int, default=4_000, help="number of files")
    parser.add_argument("--delay", type=float, default=20, help="ms that the store waits before each answer of a file")
    arguments = parser.parse_args()
    os.environ.update(
        AWS_ACCESS_KEY_ID=KEYS.id, AWS_SECRET_ACCESS_KEY=KEYS.secret, AWS_CONFIG_FILE=os.devnull, AWS_REGION=REGION
    )
    folder = Path(tempfile.mkdtemp(prefix="bench-gateway-"))
    print("| | gateway | beside |\n|---|---:|---:|", flush=True)
    try:
        for name in arguments.rows.split(","):
            match name:
                case "memory":
                    with emulated(0):
                        show_memory(folder, arguments.seconds)
                case "partitions":
                    with emulated(arguments.delay) as store:
                        show_partitions(folder, store, arguments.partitions)
                case "head":
                    show_head(folder, arguments.seconds)
                case "run":
                    show_run(folder, round(arguments.seconds))
                case _:
                    parser.error(f"there are no rows {name!r}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
