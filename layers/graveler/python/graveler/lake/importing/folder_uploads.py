"""Imports that copy: the files of a folder are uploaded into the repository's own storage, within one import."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Event
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from graveler.errors import GravelerError, UnavailableError
from graveler.lake.committing.publish import Publishing
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.uploads import size_and_md5
from graveler.lake.parts import RepositoryParts
from graveler.system.daemon_pool import DaemonPool
from graveler.system.progress import ObjectProgress
from graveler.tree.record import object_size

_THREADS: Final = 8
_IN_FLIGHT: Final = 64
"""The number of files that are being copied ahead of the record that is taken."""
_PATIENCE: Final = 60.0
"""Seconds that the removal waits for writes in progress, which end at their next piece, but may have to sync many bytes."""
_FILE: Final = "file://"


class Copies:
    """The copies of the files of ``listing``, whose records note times: each is made when its record is taken. Without ``write``
    nothing is copied: the records say what would be.

    A block of one import: at its end the copies are removed, unless the import's commit has them, or may have them. So an import
    that fails or is interrupted leaves none. Only one whose process is killed does; the garbage collector removes them.
    """

    def __init__(
        self,
        repository: RepositoryParts,
        branch: str,
        listing: FolderListing,
        progress: ObjectProgress,
        *,
        write: bool,
    ) -> None:
        self._repository = repository
        self._branch = branch
        self._listing = listing
        self._progress = progress
        self._write = write
        self._names = bytearray()
        """The names of all copies, each with a newline: half of the memory of a list."""
        self._writing = 0
        self._changed = Condition()
        self._stopped = Event()
        self._removed = Event()
        self._publishing = Publishing.FAILED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._publishing in (Publishing.BEGUN, Publishing.DONE):
            return  # a commit may have the copies, or has them
        remaining = self._remove()
        if remaining and error is not None:
            error.add_note(
                f"{remaining:,} copied files could not be removed; `graveler gc run` removes them when they are a day old"
            )

    def note(self, publishing: Publishing) -> None:
        """Note how far a commit with these copies is."""
        self._publishing = publishing

    def __call__(self) -> Generator[tuple[bytes, bytes], None, None]:
        """Yield the records of the copies, in the order of the listing.

        Cost: each file read twice and an object written. Memory: 47 bytes a file, to remove it. :class:`UnavailableError` for a
        file that changes meanwhile.
        """
        with DaemonPool(_THREADS, "graveler-copy") as pool:
            waiting: deque[Future[tuple[bytes, bytes]]] = deque()
            try:
                for key, packed in self._listing():
                    waiting.append(pool.submit(self._copy, key, packed))
                    if len(waiting) >= _IN_FLIGHT:
                        yield self._reported(waiting.popleft().result())
                while waiting:
                    yield self._reported(waiting.popleft().result())
            except BaseException:  # Ctrl-C too
                self._stopped.set()
                raise

    def _copy(self, key: bytes, packed: bytes) -> tuple[bytes, bytes]:
        repository = self._repository
        entry = repository.codec.decode(key, packed)
        file = Path(entry.address.removeprefix(_FILE))
        size, checksum = size_and_md5(file)
        name = repository.names.new(self._branch, entry.path, repository.clock.now())
        stored = self._put(name, file) if self._write else size
        if stored != size or file.stat().st_mtime_ns != noted_time(entry.checksum):
            raise UnavailableError(f"{str(file)!r} changed while it was being copied; nothing was imported, try again")
        address = f"{repository.namespace}/{name}"
        return key, repository.pack(replace(entry, address=address, size=size, checksum=checksum))

    def _put(self, name: str, file: Path) -> int:
        """Copy a file and return its size. Ends at the next piece once the import has ended."""

        def go_on(_: int = 0) -> None:
            if self._stopped.is_set():
                raise UnavailableError(f"stopped before {str(file)!r} was copied")

        with self._noted(name):
            go_on()
            size = self._repository.objects.put(name, file, sent=go_on).size
            if self._removed.is_set():  # the removal no longer waited for this one
                self._repository.objects.delete(name)
        return size

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        with self._changed:
            self._names += f"{name}\n".encode()
            self._writing += 1
        try:
            yield
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def _remove(self) -> int:
        """Remove all copies, and return the number of those that remain. A full disk may refuse until some are removed, so those
        are tried again. One object request each."""
        self._stopped.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._writing, _PATIENCE)
            self._removed.set()
            names = self._names.decode().split()
        for _ in range(2):
            names = self._remove_some(names)
        return len(names)

    def _remove_some(self, names: Sequence[str]) -> list[str]:
        """Remove copies, and return those that remain."""
        refused = []
        with DaemonPool(_THREADS, "graveler-copy") as pool:
            for begin in range(0, len(names), _IN_FLIGHT):
                some = names[begin : begin + _IN_FLIGHT]
                removals = [pool.submit(self._repository.objects.delete, name) for name in some]
                for name, removal in zip(some, removals, strict=True):
                    error = removal.exception()
                    if isinstance(error, GravelerError):
                        refused.append(name)
                    elif error is not None:
                        raise error
        return refused

    def _reported(self, record: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        self._progress(1, object_size(record[1]))
        return record
