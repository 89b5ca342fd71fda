"""Writing an object as a file: to a temporary file first, and to the lake as a whole when it is closed."""

import io
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from warnings import warn

from graveler.storage.spooled import SpooledFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Upload = Callable[[Path], None]
"""Makes the file an object."""


class ObjectWriter(io.BufferedIOBase):
    """The bytes of an object that is to be. Closing uploads and stages it; leaving a ``with`` block by an exception,
    :meth:`discard`, or forgetting the writer does not. Cost: nothing until then. :class:`UnavailableError` from any verb if the
    temporary folder is full.

    ``file`` is the writer's own from now on. If the upload fails, :meth:`close` raises its error and the writer is closed;
    what was written is gone.
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
        """Nothing is seen of the object before :meth:`close`, so there is nothing to hurry."""

    def discard(self) -> None:
        """Close without uploading. A writer that is closed already stays as it is."""
        self._file.close()
        super().close()

    def close(self) -> None:
        """Upload and stage what was written. A second time, nothing. Errors as :meth:`WriteableObject.upload`."""
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

    def __del__(self) -> None:
        # Python closes forgotten files. Half an object must not come into the lake like that.
        forget(self)


class TextObjectWriter(io.TextIOWrapper):
    """As :class:`ObjectWriter`, for text."""

    def __init__(self, binary: ObjectWriter, encoding: str, errors: str | None, newline: str | None) -> None:
        self._binary = binary
        super().__init__(binary, encoding, errors, newline)

    def discard(self) -> None:
        """Close without uploading."""
        self._binary.discard()

    def close(self) -> None:
        """Upload and stage what was written. A second time, nothing."""
        if self.closed:
            return
        try:
            self.flush()
        except BaseException:
            self.discard()  # or closing would upload what came through
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
    """What happens to a writer that nobody closed: a warning, and no object."""
    if not writer.closed:
        writer.discard()
        warn(f"the writer of {writer.name!r} was never closed; nothing was uploaded", ResourceWarning, stacklevel=3)
