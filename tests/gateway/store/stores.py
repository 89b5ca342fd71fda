"""The stores that the contract runs against. A new one is one entry in the table here."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

from graveler.gateway.store.folder_bytes import FolderBytes
from graveler.gateway.store.port import Body, Bytes
from graveler.gateway.store.s3_bytes import S3Bytes
from graveler.gateway.store.s3_client import S3Client
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
    async with _over(FolderObjects(folder / "objects")) as store:
        yield store


@asynccontextmanager
async def _confined_folder(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    async with _over(FolderObjects(folder / "objects", confinement=Confinement("/", frozenset({(0, 0)})))) as store:
        yield store


@asynccontextmanager
async def _over(objects: FolderObjects) -> AsyncIterator[tuple[Objects, Bytes]]:
    disk = Threads("disk", 4)
    try:
        yield objects, FolderBytes(objects, disk)
    finally:
        disk.close()


@asynccontextmanager
async def _s3proxy(folder: Path) -> AsyncIterator[tuple[Objects, Bytes]]:
    with patch.dict(os.environ, CREDENTIALS):
        settings, bucket = s3_settings(), f"bucket-{token_hex(8)}"
        make_bucket(bucket, settings)
        objects = S3Objects(bucket, "pre/fix", settings)
        client = S3Client(objects)
        try:
            yield objects, S3Bytes(objects, client)
        finally:
            client.close()


STORES: Mapping[str, OpenStore] = {"folder": _folder, "confined": _confined_folder, "s3proxy": _s3proxy}


async def contents(body: Body) -> bytes:
    """All bytes of a read, which is closed."""
    if isinstance(body, bytes):
        return body
    try:
        return b"".join([piece async for piece in body])
    finally:
        await body.aclose()
