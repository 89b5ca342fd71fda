"""An object that is being written into a folder, and the blocks around its steps."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from hashlib import md5
from pathlib import Path
from types import TracebackType
from typing import Final

from graveler.storage.durable_files import not_synced, sync_file, unavailable
from graveler.storage.objects.folder_files import FolderFiles
from graveler.storage.objects.port import StoredObject
from graveler.system.random_bytes import random_bytes

PIECE: Final = 1 << 20
"""Bytes read from a file at once."""


class FolderWriter:
    """An object being written into a folder. Nothing of it is visible before :meth:`finish`. Calls come one after the other, from
    any threads. As a context manager it aborts at the end, unless it is finished."""

    def __init__(
        self,
        files: FolderFiles,
        temporary: Path,
        descriptor: int,
        explained: Callable[[], AbstractContextManager[None]],
        publish: Callable[[Path, os.stat_result], StoredObject],
    ) -> None:
        self._files = files
        self._temporary = temporary
        self._descriptor = descriptor
        self._explained = explained
        self._publish = publish

    def __enter__(self) -> "FolderWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def write(self, piece: bytes) -> None:
        """Append these bytes."""
        with self._explained():
            write_all(self._descriptor, piece)

    def finish(self) -> StoredObject:
        """Make the bytes durable, and give the object its name. Errors as those of :meth:`FolderObjects.put`."""
        try:
            with self._explained():
                # The time is part of the ETag. The system's own stamp has steps of milliseconds, in which a file could be
                # replaced twice and get its first inode again; this one has random last digits.
                moment = time.time_ns()
                moment += int.from_bytes(random_bytes(2), "big") % 1000 - moment % 1000
                os.utime(self._descriptor, ns=(moment, moment))
                sync_file(self._descriptor)
                status = os.fstat(self._descriptor)
        except BaseException:
            self.abort()
            raise
        try:
            return self._publish(self._temporary, status)
        finally:
            self._close()  # which releases the lock

    def abort(self) -> None:
        """Abort, unless it is finished."""
        if self._descriptor >= 0:
            discard(self._files, self._temporary)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class PartWriter(FolderWriter):
    """A part being written, whose MD5 becomes its name. ``publish`` takes it after the file and its status."""

    def __init__(
        self,
        files: FolderFiles,
        temporary: Path,
        descriptor: int,
        explained: Callable[[], AbstractContextManager[None]],
        publish: Callable[[Path, os.stat_result, str], StoredObject],
    ) -> None:
        self._digest = md5(usedforsecurity=False)
        super().__init__(
            files,
            temporary,
            descriptor,
            explained,
            lambda file, status: publish(file, status, self._digest.hexdigest()),
        )

    def write(self, piece: bytes) -> None:
        """Append these bytes."""
        self._digest.update(piece)
        super().write(piece)


class Explained:
    """A block whose ``OSError`` is raised as the step that failed, and its object; with ``done`` as one after the step itself is
    done, while making it durable. (A generator takes three times as long.)"""

    __slots__ = ("_doing", "_done", "_key", "_namespace")

    def __init__(self, namespace: str, doing: str, key: str, *, done: bool = False) -> None:
        self._doing, self._namespace, self._key, self._done = doing, namespace, key, done

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            explain = not_synced if self._done else unavailable
            raise explain(error, f"{self._doing} {self._namespace}/{self._key}") from error


def discard(files: FolderFiles, temporary: Path) -> None:
    """Remove a temporary file, if that is possible; otherwise it is swept later."""
    with suppress(OSError):
        files.unlink(temporary)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open file."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def described(key: str, status: os.stat_result) -> StoredObject:
    """Return the description of an object whose file has this status."""
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return StoredObject(key, status.st_size, etag, status.st_mtime)


def pieces_of_file(path: Path, files: FolderFiles | None = None) -> Iterator[bytes]:
    """Yield a file in pieces of :data:`PIECE` bytes; below ``files``, if they are given."""
    # Do not wait for a writer, in case the path is a named pipe.
    opener = None if files is None else lambda _, flags: files.open(path, flags | os.O_NONBLOCK)
    try:
        with open(path, "rb", buffering=0, opener=opener) as file:
            while piece := file.read(PIECE):
                yield piece
    except OSError as error:
        raise unavailable(error, f"reading {path}") from error
