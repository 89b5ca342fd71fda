"""Listing a folder for an import: every file with its size, time and MD5, in the order of the keys."""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.model import ObjectEntry
from graveler.tree.record import RecordCodec, encode_key

_PIECE: Final = 1 << 20
_IN_FLIGHT: Final = 256
"""Files that are being digested ahead of the one that is taken: what bounds the memory."""

Progress = Callable[[int, int], None]
"""Called with the number of objects and of bytes that were added since the last call."""


def no_progress(objects: int, size: int) -> None:
    """Tells nobody."""


class FolderListing:
    """The files of ``folder``, as records under ``destination`` (a key prefix, possibly empty).

    Files are addressed where they lie, ``file://<absolute path>``, and not copied. Symbolic links to files count as files; links
    to folders are not followed. ``threads`` read files at the same time.
    """

    def __init__(
        self, folder: Path, destination: str, codec: RecordCodec, progress: Progress = no_progress, threads: int = 4
    ) -> None:
        self._folder = folder.absolute()
        self._destination = destination
        self._codec = codec
        self._progress = progress
        self._threads = threads
        if not self._folder.exists():
            raise NotFoundError(f"folder {str(folder)!r} does not exist")
        if not self._folder.is_dir():
            raise InvalidError(f"{str(folder)!r} is not a folder; name the folder that holds it")

    def __call__(self) -> Iterator[tuple[bytes, bytes]]:
        """The records in ascending order of their keys. Reads each file once; memory for some hundred records.

        :class:`InvalidError` for names that are no keys, :class:`UnavailableError` for files that cannot be read.
        """
        with ThreadPoolExecutor(self._threads, thread_name_prefix="graveler-import") as pool:
            waiting: deque[Future[tuple[bytes, bytes, int]]] = deque()
            try:
                for path in self._files(self._folder, self._destination):
                    waiting.append(pool.submit(self._record, *path))
                    if len(waiting) >= _IN_FLIGHT:
                        yield self._finished(waiting.popleft())
                while waiting:
                    yield self._finished(waiting.popleft())
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _finished(self, future: "Future[tuple[bytes, bytes, int]]") -> tuple[bytes, bytes]:
        key, packed, size = future.result()
        self._progress(1, size)
        return key, packed

    def _files(self, folder: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Paths of files and their keys, in the order of the keys: a folder sorts as if its name ended with the slash."""
        found: list[tuple[bytes, str, bool]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder or entry.is_file():
                        name = entry.name + ("/" if is_folder else "")
                        found.append((_name_bytes(name, entry.path), entry.path, is_folder))
        except OSError as error:
            raise _unreadable(str(folder), error) from None
        for name_bytes, path, is_folder in sorted(found):
            name = prefix + name_bytes.decode()
            if is_folder:
                yield from self._files(Path(path), name)
            else:
                yield path, encode_key(name)

    def _record(self, path: str, key: bytes) -> tuple[bytes, bytes, int]:
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - one file descriptor for both stat and bytes
                stat = os.fstat(file.fileno())
                digest = md5(usedforsecurity=False)
                size = 0
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
        except OSError as error:
            raise _unreadable(path, error) from None
        entry = ObjectEntry(key.decode(), f"file://{path}", size, digest.hexdigest(), int(stat.st_mtime))
        return key, self._codec.encode(entry), size


def _name_bytes(name: str, path: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidError(
            f"the name of {os.fsencode(path)!r} is not UTF-8, so it cannot be an object's path; rename the file"
        ) from None


def _unreadable(path: str, error: OSError) -> UnavailableError:
    what = "no permission to read it" if error.errno in (errno.EACCES, errno.EPERM) else os.strerror(error.errno or 0)
    return UnavailableError(f"cannot import {path!r}: {what}; nothing was imported")
