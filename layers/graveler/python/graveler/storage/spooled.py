"""A temporary file for bytes on their way, whose errors say that the temporary folder is full."""

import io
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakSet

from graveler.storage.durable_files import temporary_files
from graveler.system.temporary_files import own_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class SpooledFile:
    """A new file in ``folder``, by default the process's folder for such files, to be written. It is removed when it is closed,
    or when the ``with`` block ends. ``doing`` names the operation in errors. :class:`graveler.errors.UnavailableError`.

    It belongs to the process that made it. A forked one has a copy of its last bytes, which must not be written a second time:
    there closing changes nothing, and everything else is a ``ValueError``."""

    def __init__(self, doing: str, prefix: str, folder: Path | None = None) -> None:
        from tempfile import NamedTemporaryFile  # costs some ms to import, and is not always needed

        self._doing = doing
        with temporary_files(doing):
            self._file = NamedTemporaryFile(dir=folder or own_folder(), prefix=prefix, delete=False)  # noqa: SIM115
        self.path = Path(self._file.name)
        self._is_inherited = False
        _open.add(self)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write bytes at the present position; return their number."""
        self._expect_own()
        with temporary_files(self._doing):
            return self._file.write(data)

    def flush(self) -> None:
        """Make the written bytes visible to readers of :attr:`path`."""
        self._expect_own()
        with temporary_files(self._doing):
            self._file.flush()

    def tell(self) -> int:
        """Return the position of the next byte."""
        self._expect_own()
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to another position, and return it."""
        self._expect_own()
        with temporary_files(self._doing):  # it writes what is in memory
            return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off, and return its size."""
        self._expect_own()
        with temporary_files(self._doing):
            return self._file.truncate(size)

    def close(self) -> None:
        """Remove the file. A second call does nothing."""
        with suppress(OSError):  # it writes what a full disk has left in memory, which is not needed any more
            self._file.close()
        if not self._is_inherited:
            self.path.unlink(missing_ok=True)

    def leave_to_the_parent(self) -> None:
        """Make sure, in a forked process, that nothing which happens here reaches the file."""
        if self._file.closed:
            return
        self._is_inherited = True
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self._file.fileno(), inheritable=False)
        os.close(nowhere)

    def _expect_own(self) -> None:
        if self._is_inherited:
            raise ValueError(
                f"{self._doing}: it was begun before this process was forked, and belongs to the parent process"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _leave_all() -> None:
    for file in list(_open):
        file.leave_to_the_parent()


_open: Final[WeakSet[SpooledFile]] = WeakSet()
os.register_at_fork(after_in_child=_leave_all)
