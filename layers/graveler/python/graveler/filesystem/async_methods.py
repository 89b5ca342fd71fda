"""The same for callers in an event loop: methods and files that are awaited."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from graveler.filesystem.selecting import PathOrPaths


def _in_thread(name: str) -> Callable[..., Any]:
    """Return an asynchronous method that runs the synchronous one of this name in a thread."""

    async def call(self: "Awaiting", *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *arguments, **options)

    return call


class Awaiting(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Asynchronous methods, each of which runs the synchronous one in a thread."""

    _info = _in_thread("info")
    _ls = _in_thread("ls")
    _exists = _in_thread("exists")
    _isdir = _in_thread("isdir")
    _isfile = _in_thread("isfile")
    _find = _in_thread("find")
    _du = _in_thread("du")
    _glob = _in_thread("glob")
    _cat_file = _in_thread("cat_file")
    _cat_ranges = _in_thread("cat_ranges")
    _get_file = _in_thread("get_file")
    _pipe_file = _in_thread("pipe_file")
    _put_file = _in_thread("put_file")
    _cp_file = _in_thread("cp_file")
    _mv_file = _in_thread("mv")
    _rm_file = _in_thread("rm_file")
    _mkdir = _in_thread("mkdir")
    _makedirs = _in_thread("makedirs")

    _copy = _in_thread("copy")  # in an order in which no object is replaced before it is copied

    async def _get(
        self,
        rpath: PathOrPaths,
        lpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **_: Any,
    ) -> None:
        downloads = await asyncio.to_thread(self._downloads, rpath, lpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(downloads))
        works = [asyncio.to_thread(self._get_object, download, DEFAULT_CALLBACK) for download in downloads]
        await _run_coros_in_chunks(works, batch_size=batch_size or self.batch_size, callback=callback)

    async def _put(
        self,
        lpath: Any,
        rpath: PathOrPaths,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        uploads = await asyncio.to_thread(self._uploads, lpath, rpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(uploads))
        works = [asyncio.to_thread(self.put_file, source, name, **options) for source, name in uploads]
        await _run_coros_in_chunks(works, batch_size=batch_size or self.batch_size, callback=callback)

    async def _rm(
        self,
        path: "str | Iterable[str]",
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        del batch_size  # they are deleted by thousands
        await asyncio.to_thread(self.rm, path, recursive, maxdepth)

    async def _walk(self, path: str, *arguments: Any, **options: Any) -> AsyncIterator[tuple[str, Any, Any]]:
        for each in await asyncio.to_thread(lambda: list(self.walk(path, *arguments, **options))):
            yield each

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> "AsyncFile":
        """Open an object as :meth:`open` does, as a file whose methods are awaited."""
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
        """Close the file; what was written appears now."""
        await asyncio.to_thread(self._file.close)

    async def __aenter__(self) -> "AsyncFile":
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await asyncio.to_thread(self._file.__exit__, *raised)
