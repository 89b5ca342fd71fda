"""The port *bytes* on a folder: files, read and written in threads."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from io import FileIO
from threading import Lock
from typing import TypeVar

from graveler.errors import UnavailableError
from graveler.gateway.store.port import NO_CHECKSUMS, PIECE, SMALL, Body, Bytes, Writer, too_short
from graveler.server.threads import Threads
from graveler.storage.durable_files import unavailable
from graveler.storage.limits import check_part_number
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_writer import FolderWriter
from graveler.storage.objects.port import StoredObject

T = TypeVar("T")


class FolderBytes(Bytes):
    """The objects of ``objects``, whose files the threads ``disk`` read and write."""

    def __init__(self, objects: FolderObjects, disk: Threads) -> None:
        self._objects = objects
        self._disk = disk

    @property
    def namespace(self) -> str:
        return self._objects.namespace

    async def read(self, key: str, start: int, length: int) -> Body:
        return await _owned(self._disk.run(self._read, key, start, length))

    def writer(self, key: str, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS) -> Writer:  # noqa: ARG002
        self._objects.name_of(key)
        return _FolderWriter(lambda: self._objects.writer(key), length, self._disk)

    def part_writer(
        self,
        key: str,
        upload_id: str,
        number: int,
        length: int,
        checksums: Mapping[str, str] = NO_CHECKSUMS,  # noqa: ARG002
    ) -> Writer:
        self._objects.name_of(key)
        check_part_number(number)
        return _FolderWriter(lambda: self._objects.part_writer(key, upload_id, number), length, self._disk)

    def _read(self, key: str, start: int, length: int) -> "Body":
        file = self._objects.open_file(key)
        pieces = _FilePieces(file, f"{self.namespace}/{key}", start, length, self._disk)
        try:
            size = os.fstat(file.fileno()).st_size
            if start + length > size:
                raise too_short(self.namespace, key, size, start + length)
            if length > SMALL:
                return pieces
            body = pieces.next() if length else b""
        except BaseException:
            file.close()
            raise
        file.close()
        return body


async def _owned(reading: "asyncio.Future[Body]") -> Body:
    """Return what a thread opened; if the caller is cancelled before, close it."""
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        reading.add_done_callback(_discard)
        raise


def _discard(reading: "asyncio.Future[Body]") -> None:
    if not reading.cancelled() and reading.exception() is None and isinstance(body := reading.result(), _FilePieces):
        body.close()


class _FilePieces:
    """``length`` bytes of an open file from offset ``position``."""

    def __init__(self, file: FileIO, address: str, position: int, length: int, disk: Threads) -> None:
        self._file = file
        self._address = address
        self._position = position
        self._end = position + length
        self._disk = disk
        self._lock = Lock()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._position < self._end:
            yield await self._disk.run(self.next)

    async def aclose(self) -> None:
        # A cancelled read may still be running in its thread; its descriptor must not become another file's.
        if self._lock.locked():
            await asyncio.shield(self._disk.run(self.close))
        else:
            self.close()

    def close(self) -> None:
        """Close the file, once no thread reads it."""
        with self._lock:
            self._file.close()

    def next(self) -> bytes:
        """Return the next piece. :class:`UnavailableError` if the file has become shorter, or its disk fails."""
        with self._lock:
            try:
                piece = os.pread(self._file.fileno(), min(PIECE, self._end - self._position), self._position)
            except OSError as error:
                raise unavailable(error, f"reading {self._address}") from error
            if not piece:
                raise UnavailableError(
                    f"{self._address} became shorter while it was being read; only graveler may write there"
                )
            self._position += len(piece)
            return piece


class _FolderWriter(Writer):
    """An object or part of ``length`` bytes, written in pieces of :data:`PIECE` with the writer that ``open_file`` returns."""

    def __init__(self, open_file: Callable[[], FolderWriter], length: int, disk: Threads) -> None:
        self._open_file = open_file
        self._length = length
        self._disk = disk
        self._file: FolderWriter | None = None
        self._pieces: list[bytes] = []
        self._collected = 0
        self._missing = length
        self._lock = Lock()
        """Held by the thread that works on the file: a cancelled step may still run when it is aborted."""
        self._began = self._ended = False

    async def write(self, piece: bytes) -> None:
        self._missing -= len(piece)
        if self._missing < 0:
            raise ValueError(f"more than the declared {self._length:,} bytes")
        self._pieces.append(piece)
        self._collected += len(piece)
        if self._collected >= PIECE and self._missing:
            pieces, self._pieces, self._collected = self._pieces, [], 0
            self._began = True
            await self._disk.run(self._append, pieces)

    async def finish(self) -> StoredObject:
        if self._missing:
            raise ValueError(f"{self._missing:,} of the declared {self._length:,} bytes are missing")
        self._began = True
        return await self._disk.run(self._finish, self._pieces)

    async def abort(self) -> None:
        if self._began and not self._ended:
            await asyncio.shield(self._disk.run(self._abort))
        self._ended = True

    def _append(self, pieces: list[bytes]) -> None:
        with self._lock:
            file = self._opened()
            for piece in pieces:
                file.write(piece)

    def _finish(self, pieces: list[bytes]) -> StoredObject:
        with self._lock:
            file = self._opened()
            for piece in pieces:
                file.write(piece)
            stored = file.finish()
            self._ended = True
            return stored

    def _abort(self) -> None:
        with self._lock, suppress(OSError):  # what stays is swept
            self._ended = True
            if self._file is not None:
                self._file.abort()

    def _opened(self) -> FolderWriter:
        if self._ended:
            raise UnavailableError("the write was aborted")
        if self._file is None:
            self._file = self._open_file()
        return self._file
