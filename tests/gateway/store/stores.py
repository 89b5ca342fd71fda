"""The stores that the contract runs against. A new one is one entry in the table here."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

from graveler.gateway.store.port import Body, Bytes, UrlObjects
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.confined_folder import Confinement
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects
from graveler.storage.objects.s3 import S3Objects
from tests.storage.adapters import CREDENTIALS, make_bucket, s3_settings

OpenStore = Callable[[Path], AbstractAsyncContextManager[tuple[Objects, Bytes]]]
"""Opens an empty store, given an empty folder: as threads know it, and as the event loop."""


@asynccontextmanager
async def _folder(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    objects = FolderObjects(folder / "objects")
    with _streamed(objects) as store:
        yield objects, store


@asynccontextmanager
async def _confined_folder(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    objects = FolderObjects(folder / "objects", confinement=Confinement("/", frozenset({(0, 0)})))
    with _streamed(objects) as store:
        yield objects, store


@asynccontextmanager
async def _s3proxy(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    with patch.dict(os.environ, CREDENTIALS):
        settings, bucket = s3_settings(), f"bucket-{token_hex(8)}"
        make_bucket(bucket, settings)
        objects = S3Objects(bucket, "pre/fix", settings)
        with _streamed(objects) as store:
            yield objects, store


@asynccontextmanager
async def _signed_urls(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    """s3proxy, by URLs that somebody else signs."""
    async with _s3proxy(folder) as (objects, _):
        signed = UrlObjects(
            objects.namespace,
            lambda method, key: objects.presign(key, method, 60),
            lambda key, upload_id, number: objects.presign_part(key, upload_id, number, 60),
        )
        with _streamed(signed) as store:
            yield objects, store


@contextmanager
def _streamed(objects: Objects | UrlObjects) -> Iterator[Bytes]:
    disk = Threads("disk", 4)
    stores = ByteStores(disk)
    try:
        yield stores.of(objects)
    finally:
        stores.close()
        disk.close()


STORES: Mapping[str, OpenStore] = {
    "folder": _folder,
    "confined": _confined_folder,
    "s3proxy": _s3proxy,
    "signed_urls": _signed_urls,
}


async def contents(body: Body) -> bytes:
    """All bytes of a read, which is closed."""
    if isinstance(body, bytes):
        return body
    try:
        return b"".join([piece async for piece in body])
    finally:
        await body.aclose()
