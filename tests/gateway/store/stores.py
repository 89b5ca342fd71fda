"""The stores that the contract runs against. A new one is one entry in the table here."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from graveler.gateway.store.folder_bytes import FolderBytes
from graveler.gateway.store.port import Body, Bytes
from graveler.server.threads import Threads
from graveler.storage.objects.confined_folder import Confinement
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects

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


STORES: Mapping[str, OpenStore] = {"folder": _folder, "confined": _confined_folder}


async def contents(body: Body) -> bytes:
    """All bytes of a read, which is closed."""
    if isinstance(body, bytes):
        return body
    try:
        return b"".join([piece async for piece in body])
    finally:
        await body.aclose()
