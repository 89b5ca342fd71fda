"""The runtime of this process: its threads, the processes that work for it, its temporary files."""

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
    """What a store's work is done with in this process.

    ``scratch`` is a folder for files that RocksDB is writing: in memory where there is one. ``workers`` is how many processes may
    work for this one; give more than 1 only to stores of files whose pickled copies read and write the same. ``writes_at_once``
    is how many files of one tree may be under way to the store together, ``reads_at_once`` how many ranges are fetched before
    they are opened where it is known which ones come.
    """

    def __init__(
        self, *, scratch: Path | None = None, workers: int = 1, writes_at_once: int = 1, reads_at_once: int = 1
    ) -> None:
        self.scratch = ScratchFolder(scratch or default_scratch())
        self.workers = workers
        self.writes_at_once = writes_at_once
        self.reads_at_once = reads_at_once

    def alone(self) -> "LocalRuntime":
        """The same without worker processes."""
        return LocalRuntime(
            scratch=self.scratch.folder, writes_at_once=self.writes_at_once, reads_at_once=self.reads_at_once
        )

    def crew(self) -> "Crew":
        """The worker processes. Starts some when first asked."""
        from graveler.runtime.crew import crew  # most programs never need it

        return crew(self.workers)

    def writes(self, put: "Put") -> "Writes":
        """For a writer of many files: each is on its way when it is put, and all are durable when they are settled."""
        from graveler.runtime.writes import Writes  # not for those who only read

        return Writes(put, self.writes_at_once)

    def read(self, load: Callable[..., T], *what: object) -> "ThreadRead[T]":
        """Have ``load(*what)`` called by one of this process's threads for reading."""
        from graveler.runtime.reads import begin  # 10 ms, for whoever reads many files

        return begin(self.reads_at_once, load, *what)


class ScratchFolder:
    """Files in ``folder`` that are there for a moment only. What a killed process leaves is removed by a later one
    (:mod:`graveler.temporary`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def bytes_of(self, write: Callable[[str], None]) -> bytes:
        """The bytes of the file that ``write`` makes at the path it is given. The file is removed. ``OSError`` if it cannot be
        made."""
        from graveler.temporary import own_path  # not for those who only read

        path = own_path(self.folder)
        try:
            write(str(path))
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)


def default_scratch() -> Path:
    """A folder in memory if this system has one to write to, else the one for temporary files."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        return memory
    from tempfile import gettempdir  # costs some ms to import, and is not needed where there is the other

    return Path(gettempdir())


def processors() -> int:
    """How many workers are worth having: the processors that this process may use, eight at most; ``GRAVELER_WORKERS`` says
    otherwise. 1 is none."""
    asked = os.environ.get("GRAVELER_WORKERS", "")
    if asked.isdecimal():
        return max(1, int(asked))
    if not sys.executable or os.name == "nt":  # there, one cannot wait for a pipe
        return 1
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, 8)
