"""A temporary file for bytes on their way, whose errors say that the temporary folder is full."""

import io
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from graveler.storage.folders import temporary_files
from graveler.temporary import own_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class SpooledFile:
    """A new file in ``folder``, by default the process's folder for such files, to be written. It is removed when it is closed,
    or when the ``with`` block ends. ``doing`` names the operation in errors. :class:`graveler.errors.UnavailableError`."""

    def __init__(self, doing: str, prefix: str, folder: Path | None = None) -> None:
        from tempfile import NamedTemporaryFile  # costs some ms to import, and is not always needed

        self._doing = doing
        with temporary_files(doing):
            self._file = NamedTemporaryFile(dir=folder or own_folder(), prefix=prefix)  # noqa: SIM115 - close() does
        self.path = Path(self._file.name)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write bytes at the present position; return their number."""
        with temporary_files(self._doing):
            return self._file.write(data)

    def flush(self) -> None:
        """Make the written bytes visible to readers of :attr:`path`."""
        with temporary_files(self._doing):
            self._file.flush()

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to another position, and return it."""
        with temporary_files(self._doing):  # it writes what is in memory
            return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off, and return its size."""
        with temporary_files(self._doing):
            return self._file.truncate(size)

    def close(self) -> None:
        """Remove the file. A second call does nothing."""
        with suppress(OSError):  # it writes what a full disk has left in memory, which is not needed any more
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
