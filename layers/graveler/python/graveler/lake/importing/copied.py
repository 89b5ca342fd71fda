"""Imports that copy: the files of a folder are uploaded into the repository's own storage, within one import."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Final

from msgspec.structs import replace

from graveler.daemon_pool import DaemonPool
from graveler.errors import UnavailableError
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.importing.importer import Listing
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.uploads import size_and_md5
from graveler.lake.parts import RepositoryParts
from graveler.progress import ObjectProgress
from graveler.tree.record import object_size

_THREADS: Final = 8
_IN_FLIGHT: Final = 64
"""The number of files that are being copied ahead of the record that is taken."""
_FILE: Final = "file://"


def copied(
    repository: RepositoryParts, branch: str, listing: FolderListing, progress: ObjectProgress, *, write: bool
) -> Listing:
    """Return a listing that copies each file of ``listing``, whose records note times, when its record is taken.

    Cost: each file read twice and an object written. :class:`UnavailableError` for a file that changes meanwhile; what was copied
    until then is collected as garbage. Without ``write`` nothing is copied: the records say what would be.
    """
    stopped = Event()

    def copy(key: bytes, packed: bytes) -> tuple[bytes, bytes]:
        entry = repository.codec.decode(key, packed)
        file = Path(entry.address.removeprefix(_FILE))
        size, checksum = size_and_md5(file)
        if stopped.is_set():
            raise UnavailableError(f"stopped before {str(file)!r} was copied")
        name = repository.names.new(branch, entry.path, repository.clock.now())
        stored = repository.objects.put(name, file).size if write else size
        if stored != size or file.stat().st_mtime_ns != noted_time(entry.checksum):
            raise UnavailableError(f"{str(file)!r} changed while it was being copied; nothing was imported, try again")
        address = f"{repository.namespace}/{name}"
        return key, repository.pack(replace(entry, address=address, size=size, checksum=checksum))

    def records() -> Generator[tuple[bytes, bytes], None, None]:
        with DaemonPool(_THREADS, "graveler-copy") as pool:
            waiting: deque[Future[tuple[bytes, bytes]]] = deque()
            try:
                for key, packed in listing():
                    waiting.append(pool.submit(copy, key, packed))
                    if len(waiting) >= _IN_FLIGHT:
                        yield _told(waiting.popleft().result(), progress)
                while waiting:
                    yield _told(waiting.popleft().result(), progress)
            except BaseException:  # Ctrl-C too
                stopped.set()
                raise

    return records


def _told(record: tuple[bytes, bytes], progress: ObjectProgress) -> tuple[bytes, bytes]:
    progress(1, object_size(record[1]))
    return record
