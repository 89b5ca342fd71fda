"""Shared parts of the adapters on a file system: names that survive a power cut, and errors in plain words."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graveler.errors import UnavailableError
from graveler.storage.file_modes import Modes
from graveler.storage.objects.port import NotPermittedError, NotSyncedError

_WHY = {
    errno.ENOSPC: "the disk is full; free some space, then try again",
    errno.EDQUOT: "the disk quota is used up; free some space or raise the quota, then try again",
    errno.EFBIG: "the file would be larger than the file system or this process allows; see `ulimit -f`",
    errno.EACCES: "no permission; grant it to this user",
    errno.EPERM: "the operation is not permitted; grant this user the right to do it",
    errno.EROFS: "the file system is read-only; mount it writable",
    errno.ENAMETOOLONG: "the name is too long for this file system (most allow 255 bytes between two slashes)",
    errno.EMFILE: "this process has too many open files; see `ulimit -n`",
    errno.ENFILE: "this machine has too many open files",
    errno.EIO: "the disk reports an input/output error; check it",
    errno.EXDEV: "it is on another file system than the namespace's own folder; keep a namespace on one",
    errno.ELOOP: "the path contains a loop of symbolic links",
}
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_NO_FULL_SYNC = frozenset((errno.EINVAL, errno.ENOTSUP, errno.ENOTTY))
_DENIED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


def unavailable(error: OSError, doing: str) -> UnavailableError:
    """Return the error to raise for ``error``, which occurred while ``doing`` (as in "writing x")."""
    kind = NotPermittedError if error.errno in _DENIED else UnavailableError
    return kind(f"{doing} failed: {_WHY.get(error.errno or 0) or error.strerror or error}")


def not_synced(error: OSError, doing: str) -> NotSyncedError:
    """Return the error to raise for one that occurred after an operation was done, while making it durable."""
    reason = _WHY.get(error.errno or 0) or error.strerror or error
    return NotSyncedError(
        f"{doing} succeeded, but may not be safe on the disk: {reason}. A power failure may undo it; try again"
    )


@contextmanager
def temporary_files(doing: str) -> Iterator[None]:
    """Translate errors of work with temporary files, whose disk may be full, as :func:`temporary_failed` does."""
    try:
        yield
    except OSError as error:
        raise temporary_failed(error, doing) from error


def temporary_failed(error: OSError, doing: str) -> UnavailableError:
    """Return the error to raise for one of a temporary file: it names the folder, and how to choose another one."""
    import tempfile  # already loaded by the code that made the file

    where = tempfile.tempdir or os.environ.get("TMPDIR", "")
    return unavailable(error, f"{doing} in the temporary folder {os.fsdecode(where)!r} (set TMPDIR to use another one)")


def sync_folder(folder: Path) -> tuple[int, int]:
    """Make the names in ``folder`` durable. Returns device and inode, which tell this folder from a later one of its name."""
    return sync_descriptor(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def sync_file(descriptor: int) -> None:
    """Sync an open file to the medium. On macOS ``fsync`` leaves the bytes in the drive's cache, so there it is
    ``F_FULLFSYNC``, as far as the file system has that."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_descriptor(descriptor: int) -> tuple[int, int]:
    """Sync an open folder as :func:`sync_folder` does, and close it."""
    try:
        status = os.fstat(descriptor)
        try:
            sync_file(descriptor)
        except OSError as error:
            if (
                error.errno != errno.EINVAL
            ):  # EINVAL: a file system without folder syncs, whose names are durable at once
                raise
    finally:
        os.close(descriptor)
    return status.st_dev, status.st_ino


def make_folder(folder: Path, modes: Modes) -> None:
    """Make ``folder`` and those above it, durably; an existing one is success, and keeps its permissions.

    Syncs the parent of each, up to where the file system begins, also of existing ones: their maker may not have synced the name
    yet, or have died before. Skips only a folder that this user may not read and in which nothing was made.
    """
    missing: list[Path] = []
    above = folder
    while not above.is_dir():
        missing.append(above)
        above = above.parent
    for child in reversed(missing):
        modes.make_folder(child)
    real = Path(os.path.realpath(folder))
    device = real.stat().st_dev
    for number, parent in enumerate(real.parents):
        try:
            if sync_folder(parent)[0] != device:
                return
        except PermissionError:
            if number < len(missing):
                raise
