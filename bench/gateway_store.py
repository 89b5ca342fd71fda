"""Costs of the gateway's client of S3, beside boto3 and (if it is installed) obstore, against :mod:`bench.s3_like`.

``python -m bench.gateway_store`` prints a table: time and CPU of this process for each request. The server is another process on
the same machine, whose CPU is not counted.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from socket import create_connection, create_server
from typing import Any

from bench.s3_like import SIZE
from bench.servers import running
from graveler.gateway.store.port import Bytes
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.s3 import S3Objects, S3Settings

SMALL, REQUESTS, AT_ONCE, TRANSFERS = 4096, 2_000, 16, 8
KEY = "data/part-00000.parquet"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": os.devnull}


@contextmanager
def served(application: str, environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """An application of granian, with one worker; its process and address."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "rsgi", "--workers", "1", "--no-ws"]
    command += ["--port", str(port), "--no-log", "--factory", application]
    with running(command, os.environ | environment) as process:
        while process.poll() is None:
            with suppress(ConnectionRefusedError):
                create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield process.pid, f"http://127.0.0.1:{port}"


def show(name: str, amount: int, size: int, begin: tuple[float, float]) -> None:
    seconds, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    rate = f"{amount / seconds:8,.0f}/s" if size < 1 << 20 else f"{amount * size / seconds / 1e6:6,.0f} MB/s"
    print(f"{name:32} {rate:>12} {1e3 * seconds / amount:9.2f} ms {1e3 * cpu / amount:9.3f} ms CPU", flush=True)


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


async def measure(name: str, get: Callable[[int], Awaitable[None]], put: Callable[[], Awaitable[None]]) -> None:
    """Measure a client of the event loop."""
    for _ in range(50):
        await get(SMALL)
    begin = now()
    for _ in range(REQUESTS):
        await get(SMALL)
    show(f"{name}: GET 4 KiB", REQUESTS, SMALL, begin)

    async def several() -> None:
        for _ in range(REQUESTS // AT_ONCE):
            await get(SMALL)

    begin = now()
    await asyncio.gather(*[several() for _ in range(AT_ONCE)])
    show(f"{name}: GET 4 KiB, 16 at once", REQUESTS // AT_ONCE * AT_ONCE, SMALL, begin)
    begin = now()
    for _ in range(TRANSFERS):
        await get(SIZE)
    show(f"{name}: GET 64 MiB", TRANSFERS, SIZE, begin)
    begin = now()
    for _ in range(TRANSFERS):
        await put()
    show(f"{name}: PUT 64 MiB", TRANSFERS, SIZE, begin)


async def ours(objects: S3Objects) -> None:
    disk = Threads("disk", 1)
    stores = ByteStores(disk)
    store: Bytes = stores.of(objects)
    piece = bytes(64 << 10)

    async def get(length: int) -> None:
        body, size = await store.read(KEY, 0, length), 0
        if isinstance(body, bytes):
            size = len(body)
        else:
            async for part in body:
                size += len(part)
            await body.aclose()
        assert size == length

    async def put() -> None:
        async with store.writer(KEY, SIZE) as writer:
            for _ in range(0, SIZE, len(piece)):
                await writer.write(piece)
            await writer.finish()

    await measure("ours", get, put)
    stores.close()
    disk.close()


async def boto3(objects: S3Objects) -> None:
    data = bytes(SIZE)
    with ThreadPoolExecutor(AT_ONCE) as threads:

        def read(length: int) -> None:
            assert sum(map(len, objects.stream(KEY, 0, length))) == length

        async def get(length: int) -> None:
            await asyncio.get_running_loop().run_in_executor(threads, read, length)

        async def put() -> None:
            await asyncio.get_running_loop().run_in_executor(threads, objects.put, KEY, data)

        await measure("boto3", get, put)


async def obstore(url: str) -> None:
    from obstore import get_async, get_range_async, put_async
    from obstore.store import S3Store

    store: Any = S3Store("bucket", endpoint=url, region="eu-west-1", client_options={"allow_http": True})
    data = bytes(SIZE)

    async def get(length: int) -> None:
        if length == SMALL:
            assert len(bytes(await get_range_async(store, KEY, start=0, length=length))) == length
            return
        size = 0
        async for part in (await get_async(store, KEY)).stream(min_chunk_size=256 << 10):
            size += len(bytes(part))
        assert size == length

    async def put() -> None:
        await put_async(store, KEY, data, use_multipart=False)

    await measure("obstore", get, put)


def main() -> None:
    """Measure all that are installed."""
    import uvloop

    os.environ.update(ENVIRONMENT)
    with served("bench.s3_like:create", {}) as (_, url):
        objects = S3Objects("bucket", "lake", S3Settings("eu-west-1", url))
        for work in (ours(objects), boto3(objects), *([obstore(url)] if find_spec("obstore") else [])):
            uvloop.run(work)


if __name__ == "__main__":
    main()
