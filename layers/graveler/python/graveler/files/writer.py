"""Writing an object as a file: data goes to a temporary file, and to the lake as a whole on close."""

import io
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn
from warnings import warn

from graveler.storage.spooled import SpooledFile
from graveler.system.tracebacks import short_traceback

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Upload = Callable[[Path], None]
"""The function that stores the file as an object."""


class ObjectWriter(io.BufferedIOBase):
    """The file object for writing an object. Closing it uploads and stages the object; leaving a ``with`` block by an exception,
    :meth:`discard`, or dropping the writer does not. Cost: nothing until closing. :class:`UnavailableError` from any method if
    the temporary folder is full.

    The writer owns ``file`` from now on. If the upload fails, :meth:`close` raises its error, the writer is closed, and the
    written data is lost.
    """

    def __init__(self, path: str, file: SpooledFile, upload: Upload) -> None:
        super().__init__()
        self._path = path
        self._file = file
        self._upload = upload

    @property
    def name(self) -> str:
        """The object's path."""
        return self._path

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        return self._file.truncate(size)

    def flush(self) -> None:
        """Do nothing: the object is invisible before :meth:`close`, so no data needs to be flushed."""

    def discard(self) -> None:
        """Close without uploading. Does nothing to a closed writer."""
        self._file.close()
        super().close()

    @short_traceback
    def close(self) -> None:
        """Upload and stage the written data. Does nothing if already closed. Errors as :meth:`WriteableObject.upload`."""
        if self.closed:
            return
        try:
            self._file.flush()
            self._upload(self._file.path)
        finally:
            self.discard()

    def __enter__(self) -> "ObjectWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the writer of {self.name!r} cannot be pickled; open it in the process that writes")

    def __del__(self) -> None:
        # Python closes abandoned files. That must not put half an object into the lake.
        forget(self)


class TextObjectWriter(io.TextIOWrapper):
    """:class:`ObjectWriter` for text."""

    def __init__(self, binary: ObjectWriter, encoding: str, errors: str | None, newline: str | None) -> None:
        self._binary = binary
        super().__init__(binary, encoding, errors, newline)

    def discard(self) -> None:
        """Close without uploading."""
        self._binary.discard()

    @short_traceback
    def close(self) -> None:
        """Upload and stage the written data. Does nothing if already closed."""
        if self.closed:
            return
        try:
            self.flush()
        except BaseException:
            self.discard()  # otherwise closing would upload the data written so far
            raise
        super().close()

    def __enter__(self) -> "TextObjectWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        forget(self)


def forget(writer: ObjectWriter | TextObjectWriter) -> None:
    """Discard a writer that was never closed, with a warning and without an object."""
    if not writer.closed:
        writer.discard()
        warn(f"the writer of {writer.name!r} was never closed; nothing was uploaded", ResourceWarning, stacklevel=3)
