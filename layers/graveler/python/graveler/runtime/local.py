"""The runtime of this process: its threads, its worker processes, its temporary files."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from graveler.runtime.crew import Crew
    from graveler.runtime.reads import ThreadRead
    from graveler.runtime.writes import Writes
    from graveler.tree.runtime import Put

T = TypeVar("T")


class LocalRuntime:
    """The means with which a store works in this process.

    ``scratch`` is a folder for files that RocksDB is writing: in memory if possible. ``workers`` is the number of processes that
    may work for this one; give more than 1 only to stores of files whose pickled copies read and write the same.
    ``writes_at_once`` is the maximum number of concurrent writes of one tree's files to the store, ``reads_at_once`` the number
    of ranges fetched before they are opened, where it is known which ones come.
    """

    def __init__(
        self, *, scratch: Path | None = None, workers: int = 1, writes_at_once: int = 1, reads_at_once: int = 1
    ) -> None:
        self.scratch = ScratchFolder(scratch or default_scratch())
        self.workers = workers
        self.writes_at_once = writes_at_once
        self.reads_at_once = reads_at_once

    def alone(self) -> "LocalRuntime":
        """Return the same runtime without worker processes."""
        return LocalRuntime(
            scratch=self.scratch.folder, writes_at_once=self.writes_at_once, reads_at_once=self.reads_at_once
        )

    @property
    def has_crew(self) -> bool:
        """True if all worker processes are running, so that sharing work with them does not wait for their start."""
        if self.workers <= 1 or "graveler.runtime.crew" not in sys.modules:  # loading it takes 10 ms
            return False
        from graveler.runtime.crew import is_running

        return is_running(self.workers)

    def crew(self) -> "Crew":
        """Return the worker processes. The first call starts them."""
        from graveler.runtime.crew import crew  # most programs never need it

        return crew(self.workers)

    def writes(self, put: "Put") -> "Writes":
        """Return a writer of many files: each put starts at once, and all are durable after ``settle``."""
        from graveler.runtime.writes import Writes  # readers do not need it

        return Writes(put, self.writes_at_once)

    def read(self, load: Callable[..., T], *arguments: object) -> "ThreadRead[T]":
        """Start ``load(*what)`` in one of this process's threads for reading."""
        from graveler.runtime.reads import begin  # 10 ms, only for those who read many files

        return begin(self.reads_at_once, load, *arguments)


class ScratchFolder:
    """Short-lived files in ``folder``. A later process removes what a killed one leaves
    (:mod:`graveler.system.temporary_files`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def bytes_of(self, write: Callable[[str], None]) -> bytes:
        """Return the bytes of the file that ``write`` makes at the path it receives, and remove the file. ``OSError`` if it
        cannot be made."""
        from graveler.system.temporary_files import own_path  # readers do not need it

        path = own_path(self.folder)
        try:
            write(str(path))
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)


def default_scratch() -> Path:
    """Return a writable folder in memory if this system has one, otherwise the one for temporary files."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        return memory
    from tempfile import gettempdir  # costs some ms to import, and is not needed if /dev/shm exists

    return Path(gettempdir())


def processors() -> int:
    """Return the number of useful workers: the processors that this process may use, eight at most, or ``GRAVELER_WORKERS``. 1
    means none."""
    setting = os.environ.get("GRAVELER_WORKERS", "")
    if setting.isdecimal():
        return max(1, int(setting))
    if not sys.executable or os.name == "nt":  # there, one cannot wait for a pipe
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, 8)
