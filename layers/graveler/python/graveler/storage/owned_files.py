"""Temporary files in a folder that many processes share, each locked (flock) as long as its owner lives.

The kernel releases the lock when the process ends, however it ends. So a sweep removes a file that it can lock, and needs neither
a clock nor the file's times, which other machines may set. The name of a file tells a sweep whether its owner could lock it: a
file system, or a machine that mounts it, may have no locks, and then nobody can tell whether the owner lives.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from graveler.storage.file_modes import Modes
from graveler.storage.objects.folder_files import FolderFiles
from graveler.system.random_bytes import random_bytes
from graveler.system.temporary_files import try_lock

LOCKED: Final = "locked-"
"""The beginning of the name of a file whose owner holds its lock."""
_UNLOCKED: Final = "unlocked-"
_TRIES: Final = 100


def create_owned(files: FolderFiles, folder: Path, modes: Modes, prefix: str = "") -> tuple[Path, int]:
    """Create a file with an unused name, which begins with ``prefix``, and lock it. Return its path and its descriptor, for
    writing: the lock ends with the last copy of it. ``OSError`` if it cannot be created.

    Cost: an open, a lock and an fstat; a rename more where there are no locks.
    """
    for _ in range(_TRIES):
        digits = random_bytes(8).hex()
        path = folder / f"{prefix}{LOCKED}{digits}"
        descriptor = files.create(path, os.O_WRONLY, modes)
        try:
            locked = try_lock(descriptor)
            if locked is None:
                unlocked = folder / f"{prefix}{_UNLOCKED}{digits}"
                files.rename(path, unlocked)
                return unlocked, descriptor
            # A sweep that came before the lock takes the file for an abandoned one.
            if locked and (os.fstat(descriptor).st_nlink or files.is_file(path)):
                return path, descriptor
        except BaseException:
            with suppress(OSError):  # swept later
                files.unlink(path)
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise FileExistsError(f"new files in {str(folder)!r} keep being removed by others")


@contextmanager
def abandoned(files: FolderFiles, path: Path) -> Iterator[os.stat_result | None]:
    """Enter a block with the status of a file that no living owner holds, and which stays locked; with None for any other file,
    and if that is unknown. ``OSError`` and :class:`graveler.errors.ForbiddenError` if it cannot be opened.

    A file of a version before locks has another name: whether its owner lives is then unknown, and the lock free.
    """
    if _UNLOCKED in path.name:
        yield None
        return
    # Some network file systems lock only what is open for writing.
    descriptor = files.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        yield status if stat.S_ISREG(status.st_mode) and try_lock(descriptor) is True else None
    finally:
        os.close(descriptor)
