"""Async versions of the filesystem's methods."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, TypeVar

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from graveler.filesystem.selection import PathOrPaths

C = TypeVar("C")

_METHODS: Final = {
    **{
        f"_{name}": name
        for name in (
            *("info", "ls", "exists", "isdir", "isfile", "find", "du", "glob", "cat_file", "cat_ranges", "get_file"),
            *("pipe_file", "put_file", "cp_file", "rm_file", "mkdir", "makedirs"),
            "copy",  # in an order in which no object is replaced before it is copied
        )
    },
    "_mv_file": "mv",
}
"""Async methods, and the synchronous ones that they run in a thread."""


def with_async_methods(cls: type[C]) -> type[C]:
    """Add the async methods that fsspec asks a filesystem for."""
    for name, method in _METHODS.items():
        setattr(cls, name, _in_thread(method))
    for function in (_get, _put, _rm, _walk, open_async):
        setattr(cls, function.__name__, function)
    return cls


def _in_thread(name: str) -> Callable[..., Any]:
    """Return an async method that runs the synchronous one of this name in a thread."""

    async def call(self: AsyncFileSystem, *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *arguments, **options)

    return call


async def _get(
    self: AsyncFileSystem,
    rpath: PathOrPaths,
    lpath: Any,
    recursive: bool = False,
    callback: Callback = DEFAULT_CALLBACK,
    maxdepth: int | None = None,
    batch_size: int | None = None,
    **_: Any,
) -> None:
    downloads = await asyncio.to_thread(self._planned_downloads, rpath, lpath, recursive, maxdepth)
    callback.set_size(len(downloads))
    works = [asyncio.to_thread(self._downloads.write, download, DEFAULT_CALLBACK) for download in downloads]
    await _run_coros_in_chunks(works, batch_size=batch_size or self.batch_size, callback=callback)


async def _put(
    self: AsyncFileSystem,
    lpath: Any,
    rpath: PathOrPaths,
    recursive: bool = False,
    callback: Callback = DEFAULT_CALLBACK,
    maxdepth: int | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> None:
    uploads = await asyncio.to_thread(self._uploads.plan, lpath, rpath, recursive=recursive, maxdepth=maxdepth)
    callback.set_size(len(uploads))
    works = [asyncio.to_thread(self.put_file, source, name, **options) for source, name in uploads]
    await _run_coros_in_chunks(works, batch_size=batch_size or self.batch_size, callback=callback)


async def _rm(
    self: AsyncFileSystem,
    path: "str | Iterable[str]",
    recursive: bool = False,
    batch_size: int | None = None,
    maxdepth: int | None = None,
    **_: Any,
) -> None:
    del batch_size  # they are deleted by thousands
    await asyncio.to_thread(self.rm, path, recursive, maxdepth)


async def _walk(
    self: AsyncFileSystem, path: str, *arguments: Any, **options: Any
) -> AsyncIterator[tuple[str, Any, Any]]:
    for row in await asyncio.to_thread(lambda: list(self.walk(path, *arguments, **options))):
        yield row


async def open_async(self: AsyncFileSystem, path: str, mode: str = "rb", **options: Any) -> "AsyncFile":
    """Open an object as :meth:`GravelerFileSystem.open` does, as a file whose methods are awaited."""
    return AsyncFile(await asyncio.to_thread(self.open, path, mode, **options))


class AsyncFile:
    """A file whose methods run in threads, one at a time."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def read(self, length: int = -1) -> Any:
        """Return ``length`` bytes, fewer only at the end."""
        return await asyncio.to_thread(self._file.read, length)

    async def write(self, data: bytes) -> int:
        """Write bytes; return their number."""
        return int(await asyncio.to_thread(self._file.write, data))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    async def close(self) -> None:
        """Close the file; a written object appears now."""
        await asyncio.to_thread(self._file.close)

    async def __aenter__(self) -> "AsyncFile":
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await asyncio.to_thread(self._file.__exit__, *raised)
