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
    """A new file in ``folder``, by default the process's folder for such, to be written. It is removed when it is closed, or
    when the ``with`` block ends. ``doing`` is what an error says that was tried. :class:`graveler.errors.UnavailableError`."""

    def __init__(self, doing: str, prefix: str, folder: Path | None = None) -> None:
        from tempfile import NamedTemporaryFile  # costs some ms to import, and not everybody needs it

        self._doing = doing
        with temporary_files(doing):
            self._file = NamedTemporaryFile(dir=folder or own_folder(), prefix=prefix)  # noqa: SIM115 - close() does
        self.path = Path(self._file.name)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Add bytes, or replace them; their number."""
        with temporary_files(self._doing):
            return self._file.write(data)

    def flush(self) -> None:
        """Show what was written to those who open :attr:`path`."""
        with temporary_files(self._doing):
            self._file.flush()

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go elsewhere; the position."""
        with temporary_files(self._doing):  # it writes what is in memory
            return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off; its size."""
        with temporary_files(self._doing):
            return self._file.truncate(size)

    def close(self) -> None:
        """Remove the file. A second time, nothing."""
        with suppress(OSError):  # it writes what a full disk has left in memory, which nobody needs any more
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
