"""A private copy of an SQLite table that this process may only read.

SQLite reads a file in WAL mode only where it can write: readers coordinate through an index beside it. (Its option ``immutable``
ignores the log, and so commits that are not in the file yet.) So file and log are copied to a temporary folder of this process,
and SQLite reads the copy. Somebody with more rights may write meanwhile, whom no lock of ours stops. A copy is whole nevertheless
if the log was not begun anew while it was made:

- The file is copied first. What a checkpoint writes into it meanwhile is also in the log, which is copied afterwards and takes
  precedence over the file.
- A log that is begun anew gets other salts in its header, and a log that is removed has none: then it is copied again.
- A frame of the log that was half written has a wrong checksum: SQLite ignores it, and all frames behind it.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from graveler.errors import BusyError
from graveler.storage.durable_files import temporary_failed, unavailable
from graveler.system.temporary_files import own_path

_TRIES: Final = 20
_LOOKS: Final = 3
"""How often the right to write to a file is asked for that comes or goes meanwhile."""
_HEADER: Final = 32
"""Bytes of the header of a log, with its salts (https://sqlite.org/fileformat2.html#the_write_ahead_log)."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TICK_NS: Final = 50_000_000
"""A file system's clock moves in steps of up to some 10 ms: within one, a second write does not change a file's time."""


class _Source(NamedTuple):
    """The signs of a change of the table: identity, size and time of the file and of its log, and the log's header."""

    file: tuple[int, int, int, int]
    log: tuple[int, int, int, int] | None
    header: bytes


class TableCopy:
    """A copy of the table ``path`` and its log as they were at one moment, in a folder of its own."""

    def __init__(self, path: Path) -> None:
        """Make the copy. :class:`BusyError` if others write so much that no copy is whole; :class:`NotPermittedError` if this
        user may not read the table; :class:`UnavailableError` if the temporary folder is full."""
        self._source = path
        self._folder = _new_folder()
        self.path = self._folder / path.name
        self._process = os.getpid()
        try:
            self._copied, self._is_settled = self._copy()
        except BaseException:
            self.remove()
            raise

    def is_current(self) -> bool:
        """Return whether the table has not changed since the copy was made. Three system calls or five. ``OSError``."""
        return self._is_settled and _look(self._source) == self._copied

    def is_ours(self) -> bool:
        """Return whether this process made the copy, and not one that it was forked from."""
        return self._process == os.getpid()

    def remove(self) -> None:
        """Remove the copy, unless it is a parent process's. Open connections can still read it."""
        if self.is_ours():
            import shutil  # some ms, for the few that make a copy

            shutil.rmtree(self._folder, ignore_errors=True)  # the process removes what is left at its end

    def _copy(self) -> tuple[_Source, bool]:
        for _ in range(_TRIES):
            try:
                before, now = _look(self._source), time.time_ns()
                self._fetch("")
                self._fetch("-wal")
                after = _look(self._source)
            except OSError as error:
                if error.errno in _FULL or Path(str(error.filename)).is_relative_to(self._folder):
                    raise temporary_failed(error, f"copying the table {self._source}") from error
                raise unavailable(error, f"reading the table {self._source}") from error
            # Without a log, what is written meanwhile is in the file alone.
            same = before == after if not before.header else before.file[:2] == after.file[:2]
            if same and before.header == after.header == self._header():
                newest = max(summary[3] for summary in (before.file, before.log) if summary is not None)
                return before, not 0 <= now - newest < _TICK_NS
        raise BusyError(
            f"this user can only read the table {self._source}, and others are writing to it so fast that no whole copy could be "
            "made; try again, or get the right to write there (`graveler init --shared group` makes a lake for a group)"
        )

    def _fetch(self, ending: str) -> None:
        """Copy the file or its log; a missing log is empty."""
        import shutil

        target = Path(f"{self.path}{ending}")
        try:
            source = Path(f"{self._source}{ending}").open("rb")  # noqa: SIM115 - closed below
        except FileNotFoundError:
            if not ending:
                raise
            target.unlink(missing_ok=True)
            return
        with source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)

    def _header(self) -> bytes:
        try:
            with Path(f"{self.path}-wal").open("rb") as log:
                return log.read(_HEADER)
        except FileNotFoundError:
            return b""


def may_write(path: Path) -> bool:
    """Return whether this process may write to the table as SQLite does: to the file, its log and index, and their folder."""
    real = os.access in os.supports_effective_ids
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=real):
        return False
    files = (path, f"{path}-wal", f"{path}-shm")
    # Another process may make or remove a log between the two questions: then both are asked again.
    return all(
        any(os.access(file, os.W_OK, effective_ids=real) or not os.path.lexists(file) for _ in range(_LOOKS))
        for file in files
    )


def _new_folder() -> Path:
    try:
        folder = own_path()
        folder.mkdir(0o700)
    except OSError as error:
        raise temporary_failed(error, "copying a table") from error
    return folder


def _look(path: Path) -> _Source:
    log, header = None, b""
    with suppress(FileNotFoundError), Path(f"{path}-wal").open("rb", buffering=0) as file:
        header, log = file.read(_HEADER), _summary(os.fstat(file.fileno()))
    return _Source(_summary(path.stat()), log, header)


def _summary(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
