"""An object as a file for reading, which several threads may use at once."""

import io
import os
from collections.abc import Callable
from io import FileIO
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from graveler.errors import GravelerError
from graveler.filesystem.error_translation import translating_lake_errors
from graveler.lake.objects.verification import OpenedObject, damaged
from graveler.model import ObjectEntry

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK: Final = 1 << 20
"""Bytes that a small read fetches of an object that is not a local file."""
FILE_BLOCK: Final = 1 << 16
"""The same for a local file."""

Fetch = Callable[[int, int], bytes]
"""Returns exactly so many bytes from a position, all of them inside the object."""


def pieces_of_file(file: FileIO, entry: ObjectEntry, ref: str) -> Fetch:
    """Return a function that reads an open file, at any position and from any thread. :class:`DamagedObjectError` if it is
    shorter than recorded."""
    descriptor = file.fileno()

    def fetch(start: int, length: int) -> bytes:
        piece = os.pread(descriptor, length, start)
        if len(piece) == length:
            return piece
        pieces = [piece]
        while piece and (rest := length - sum(map(len, pieces))):  # one call returns 2 GiB at most
            piece = os.pread(descriptor, rest, start + length - rest)
            pieces.append(piece)
        whole = b"".join(pieces)
        if len(whole) < length:
            raise damaged(entry, ref, f"{start + len(whole):,} bytes")
        return whole

    return fetch


def pieces_of_object(opened: OpenedObject) -> Fetch:
    """Return a function that reads an object from its store, one object read for each call. :class:`DamagedObjectError` if it is
    shorter than recorded."""

    def fetch(start: int, length: int) -> bytes:
        whole = b"".join(opened.read(start, length))
        if len(whole) != length:
            raise damaged(opened.entry, opened.ref, f"{start + len(whole):,} bytes")
        return whole

    return fetch


class PlainFile(io.BufferedReader):
    """A local file for callers that let one thread after another use it.

    Its methods are C. That saves threads of another language much time: each call from one makes a Python thread state, and the
    first Python function in that costs a mapping of memory.
    """

    def __del__(self) -> None:
        self.close()  # without a warning: Arrow leaves this to Python


class ObjectFile(io.BufferedIOBase):
    """The bytes of one object as of its opening: later changes staged at its path do not show.

    ``tell``, ``seek`` and ``read`` are those of any file. In addition, a ``read`` that follows a ``seek`` in the same thread
    reads at that position whatever other threads did in between: DuckDB reads one file object from several threads, always in
    these two steps. Reads of fewer than ``block_size`` bytes fetch a whole block. Cost: one object read for each, none for a
    local file.
    """

    mode = "rb"

    def __init__(
        self,
        entry: ObjectEntry,
        name: str,
        info: dict[str, Any],
        fetch: Fetch,
        block_size: int,
        file: FileIO | None = None,
        note: Callable[[GravelerError], GravelerError] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.path = name
        self.size = entry.size
        self.details = info
        self.blocksize = block_size
        self._fetch = fetch
        self._position = 0
        self._sought: dict[int, int] = {}
        """Positions by thread: of the last seek, until its next read."""
        self._mover: int | None = None
        """The thread whose seek the position is from, until any read."""
        self._block: tuple[int, bytes] = (0, b"")
        self._file = file
        """The local file, which is closed together with this one."""
        self._note = note
        """Returns the error to raise for one of the lake, which is then translated to one of files."""

    @property
    def is_local(self) -> bool:
        """True if reads take a local file's time, and not a network's."""
        return self._file is not None

    def read_at(self, start: int, length: int) -> bytes:
        """Return the bytes from a position, without regard to any other. Fewer only at the end."""
        self._check_open()
        return self._bytes(start, min(length, self.size - start))

    def info(self) -> dict[str, Any]:
        """Return what the filesystem's ``info`` returned when the file was opened. No request."""
        return self.details

    def readable(self) -> bool:
        """See :class:`io.IOBase`."""
        return True

    def seekable(self) -> bool:
        """See :class:`io.IOBase`."""
        return True

    def tell(self) -> int:
        """See :class:`io.IOBase`."""
        self._check_open()
        return self._sought.get(get_ident(), self._position)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """See :class:`io.IOBase`. No request."""
        self._check_open()
        if whence == io.SEEK_CUR:
            offset += self.tell()
        elif whence == io.SEEK_END:
            offset += self.size
        elif whence != io.SEEK_SET:
            raise ValueError(f"whence is {whence}; give 0 (start), 1 (here) or 2 (end)")
        if offset < 0:
            raise ValueError(f"position {offset} is before the beginning of {self.name!r}")
        self._mover = get_ident()
        self._position = self._sought[self._mover] = offset
        return offset

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, fewer only at the end; everything to the end without a size."""
        start = self._start()
        rest = max(0, self.size - start)
        length = rest if size is None or size < 0 else min(size, rest)
        block = self._bytes(start, length)
        self._position = start + length
        return block

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, as many as one fetch brings."""
        return self.read(self.blocksize if size < 0 else size)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """See :class:`io.BufferedIOBase`."""
        view = memoryview(buffer).cast("B")
        block = self.read(len(view))
        view[: len(block)] = block
        return len(block)

    def readinto1(self, buffer: "WriteableBuffer", /) -> int:
        """See :class:`io.BufferedIOBase`."""
        return self.readinto(buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        """See :class:`io.IOBase`."""
        limit = self.size if size is None or size < 0 else size
        start, length = self._start(), 0
        pieces: list[bytes] = []
        while piece := self._bytes(
            start + length, min(max(1, self.blocksize // 8), limit - length, self.size - start - length)
        ):
            end = piece.find(b"\n") + 1
            pieces.append(piece[:end] if end else piece)
            length += len(pieces[-1])
            if end:
                break
        self._position = start + length
        return b"".join(pieces)

    def close(self) -> None:
        """Release the file. Reads that other threads have begun fail."""
        if not self.closed and self._file is not None:
            self._file.close()
        self._block = (0, b"")
        super().close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the open file {self.name!r} cannot be pickled; open it in the other process, which gets the filesystem"
        )

    def _start(self) -> int:
        """Return where this thread's next read begins."""
        self._check_open()
        me, mover, self._mover = get_ident(), self._mover, None
        position = self._sought.pop(me, None)
        if position is not None:
            return position
        if mover is not None:  # it moved, and left the reading to this thread
            self._sought.pop(mover, None)
        return self._position

    def _bytes(self, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        position, block = self._block
        if position <= start and start + length <= position + len(block):
            return block[start - position : start - position + length]
        with translating_lake_errors(self.name, self._note):
            if length >= self.blocksize:
                return self._fetch(start, length)
            block = self._fetch(start, min(self.blocksize, self.size - start))
        self._block = start, block
        return block[:length]

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"the file {self.name!r} is closed")


class Cache(Protocol):
    """The cache that ``blockcache::`` puts in front of a file, an ``fsspec.caching.MMapCache``."""

    multi_fetcher: object
    """Returns several parts of whatever object has the path by then."""
    blocks: set[int]
    """The numbers of the blocks that it has, or is fetching."""

    def _fetch(self, start: int | None, end: int | None, /) -> bytes: ...


class CachedFile(ObjectFile):
    """A file for fsspec's ``blockcache::``, which reads bytes by ``_fetch_range``, keeps them on the disk, and is the file's
    ``cache`` from then on; in the end it says that the file is ``closed``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stored = self._fetch
        self._cache: Cache | None = None

    @property
    def cache(self) -> Cache | None:
        """The cache that answers reads."""
        return self._cache

    @cache.setter
    def cache(self, cache: Cache) -> None:
        cache.multi_fetcher = None  # so that all parts are of the object that was opened
        self._cache = cache

        def fetch(start: int, length: int) -> bytes:
            end = start + length
            try:
                return bytes(cache._fetch(start, end))
            except BaseException:  # else it would take blocks that did not arrive for zeros
                cache.blocks.difference_update(range(start // self.blocksize, end // self.blocksize + 1))
                raise

        self._fetch = fetch

    @property
    def closed(self) -> bool:
        """See :class:`io.IOBase`."""
        return super().closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        if closed:
            ObjectFile.close(self)

    def _fetch_range(self, start: int, end: int) -> bytes:
        with translating_lake_errors(self.name, self._note):
            return self._stored(start, end - start)
