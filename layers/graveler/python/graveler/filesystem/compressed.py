"""Writing compressed objects: a compressor in front of the writer of an object, closed or discarded together with it."""

import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from graveler.files.writer import ObjectWriter, forget

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class CompressedWriter(ObjectWriter):
    """A writer whose bytes are compressed on their way to ``writer``, which it owns from now on. Closing, discarding, dropping
    and leaving a ``with`` block do what they do to an :class:`ObjectWriter`.

    ``compress`` returns a compressor for a file and a mode, as those of ``fsspec.compression`` do: some of them close that file
    when they are closed, others do not.
    """

    def __init__(self, writer: ObjectWriter, compress: Callable[..., Any]) -> None:
        io.BufferedIOBase.__init__(self)
        self._writer = writer
        self._output = _Output(writer)
        self._compressor = compress(self._output, mode="w")
        self._size = 0

    @property
    def name(self) -> str:
        """The object's path."""
        return self._writer.name

    def seekable(self) -> bool:
        """See :class:`io.IOBase`."""
        return False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Compress bytes; return their number."""
        if self.closed or self._writer.closed:
            raise ValueError(f"the writer of {self.name!r} is closed")
        self._compressor.write(data)
        self._size += memoryview(data).nbytes
        return memoryview(data).nbytes

    def tell(self) -> int:
        """Return how many bytes were given."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Refuse."""
        del offset, whence
        raise io.UnsupportedOperation("a compressed object is written from its beginning to its end")

    def truncate(self, size: int | None = None, /) -> int:
        """Refuse."""
        del size
        raise io.UnsupportedOperation("a compressed object is written from its beginning to its end")

    def discard(self) -> None:
        """Close without uploading. Does nothing to a closed writer."""
        if self.closed:
            return
        self._output.dropped = True
        self._compressor.close()
        self._writer.discard()
        io.BufferedIOBase.close(self)

    def close(self) -> None:
        """Upload and stage what was written. Does nothing if already closed."""
        if self.closed:
            return
        if not self._writer.closed:  # else its transaction has discarded it
            try:
                self._compressor.close()
                self._writer.close()
            finally:
                self.discard()
        self.discard()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if self._writer.closed:
            self.discard()
        forget(self)


class _Output(io.BufferedIOBase):
    """The file that a compressor writes to: closing it leaves the writer open; bytes after ``dropped`` is set go nowhere."""

    def __init__(self, writer: ObjectWriter) -> None:
        super().__init__()
        self._writer = writer
        self.dropped = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        return memoryview(data).nbytes if self.dropped else self._writer.write(data)

    def tell(self) -> int:
        return 0 if self.dropped else self._writer.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return 0 if self.dropped else self._writer.seek(offset, whence)
