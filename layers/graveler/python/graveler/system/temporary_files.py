"""Temporary files that need no manual clean-up: the next process removes what a killed process left.

A process keeps its temporary files in its own folder, ``graveler-<user id>-<16 hex digits>``, in memory or in the system's
temporary folder, and holds a lock on that folder (flock) as long as it lives. The kernel releases the lock when the process
ends, however it ends. So a folder that can be locked belongs to no process, even across containers with separate process IDs or
when IDs are reused. A process that creates its folder first removes such folders of the same user, once for each location. It
touches nothing of another user, follows no symbolic links, and where the file system has no locks it removes nothing.

Files that get their final name when they are complete lie beside it until then, as ``.graveler-<user id>-<16 hex digits>``, each
with a lock of its own.
"""

import atexit
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple

_DIGITS: Final = 16
_HEX: Final = frozenset("0123456789abcdef")
_TRIES: Final = 100
_REMEMBERED: Final = 10_000
"""The number of swept folders that a process remembers."""


class _OwnFolder(NamedTuple):
    """A folder of this process, and the descriptor that holds its lock."""

    path: Path
    descriptor: int


class _ProcessFolders:
    """The state of this process: its folders by location, and the locations that it has swept."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.folders: dict[str, _OwnFolder] = {}
        self.swept: set[str] = set()
        self.unfinished: set[Path] = set()
        """Files that are being written; a hanging thread leaves them until the process ends."""
        self.registered = False

    def remove_at_exit(self) -> None:
        """Register the removal at exit, once. The caller holds the lock."""
        if not self.registered:
            atexit.register(_remove_all)
            self.registered = True


_process: Final = _ProcessFolders()
_numbers: Final = count()


def own_folder(parent: Path | None = None) -> Path:
    """Return the folder for temporary files of this process in ``parent``, by default the system's temporary folder. It is
    removed when the process ends; remove its contents earlier.

    The first call for a location removes folders that killed processes of the same user left there: one listing of ``parent``.
    Later calls only check that the folder still exists. ``OSError`` if it cannot be created.
    """
    if parent is None:
        from tempfile import gettempdir  # costs some ms to import, and is not always needed

        parent = Path(gettempdir())
    location = str(parent)
    with _process.lock:
        folder = _process.folders.get(location)
        if folder is not None:
            if folder.path.is_dir():
                return folder.path
            del _process.folders[location]  # the folder was cleaned up from outside; create it again
            os.close(folder.descriptor)
        else:
            _sweep(location, f"graveler-{os.geteuid()}-", _remove_folder)
        _process.remove_at_exit()
        folder = _process.folders[location] = _new_folder(location)
        return folder.path


def own_path(parent: Path | None = None) -> Path:
    """Return an unused path in :func:`own_folder`. The caller that creates a file there removes it."""
    return own_folder(parent) / str(next(_numbers))


@contextmanager
def file_beside(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Create a file under a temporary name in the folder of ``target``; yield it and its path. The caller writes and closes the
    file and renames it to ``target``; otherwise it is removed when the block ends.

    The first call for a folder removes such files that killed processes of the same user left there: one listing of the
    folder. ``OSError`` if the file cannot be created.
    """
    folder = str(target.parent)
    prefix = f".graveler-{os.geteuid()}-"
    with _process.lock:
        is_swept = folder in _process.swept
        if len(_process.swept) >= _REMEMBERED:
            _process.swept.clear()
        _process.swept.add(folder)
    if not is_swept:
        _sweep(folder, prefix, _remove_file)
    for _ in range(_TRIES):
        path = target.parent / (prefix + os.urandom(_DIGITS // 2).hex())
        with path.open("xb") as file:
            # Holds the lock until the file has its name, so that closing the file itself can report errors.
            descriptor = os.dup(file.fileno())
            try:
                if not _is_locked_by_us(descriptor, path):
                    continue
                with _process.lock:
                    _process.remove_at_exit()
                    _process.unfinished.add(path.absolute())
                try:
                    yield file, path
                finally:
                    path.unlink(missing_ok=True)
                    with _process.lock:
                        _process.unfinished.discard(path.absolute())
                return
            finally:
                os.close(descriptor)
    raise FileNotFoundError(f"new files in {folder!r} keep being removed by others")


def _new_folder(location: str) -> _OwnFolder:
    for _ in range(_TRIES):
        path = Path(location, f"graveler-{os.geteuid()}-{os.urandom(_DIGITS // 2).hex()}")
        path.mkdir(0o700)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # as below
        if _is_locked_by_us(descriptor, path):
            return _OwnFolder(path, descriptor)
        os.close(descriptor)
    raise FileNotFoundError(f"new folders in {location!r} keep being removed by others")


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder, as the sign that its owner lives. The kernel releases the lock when the last copy of the
    descriptor is closed, however its process ends. Return False if someone else has the lock, None if there are no locks here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_locked_by_us(descriptor: int, path: Path) -> bool:
    """Lock a new file or folder. Return False if another process took it for an abandoned one before the lock, and removes it."""
    # In a file system without locks, no process removes it.
    if try_lock(descriptor) is False:
        return False
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _sweep(location: str, prefix: str, remove: Callable[[str, os.stat_result], None]) -> None:
    """Remove what killed processes of this user left in a folder under our names. What cannot be removed stays."""
    try:
        with os.scandir(location) as entries:
            paths = [entry.path for entry in entries if _is_ours(entry.name, prefix)]
    except OSError:
        return  # creating something there will raise the reason
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # gone, or a symbolic link, or not ours to open
        try:
            status = os.fstat(descriptor)
            if status.st_uid == os.geteuid() and try_lock(descriptor) is True:
                remove(path, status)
        except OSError:
            continue  # it cannot be removed
        finally:
            os.close(descriptor)


def _is_ours(name: str, prefix: str) -> bool:
    digits = name.removeprefix(prefix)
    return digits != name and len(digits) == _DIGITS and _HEX.issuperset(digits)


def _remove_folder(path: str, status: os.stat_result) -> None:
    from shutil import rmtree

    if stat.S_ISDIR(status.st_mode):
        rmtree(path, ignore_errors=True)


def _remove_file(path: str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        Path(path).unlink()


def _remove_all() -> None:
    from shutil import rmtree

    with _process.lock:
        for folder in _process.folders.values():
            rmtree(folder.path, ignore_errors=True)
            os.close(folder.descriptor)
        _process.folders.clear()
        for path in _process.unfinished:
            with suppress(OSError):
                path.unlink()


def _begin_anew() -> None:
    """Forget the folders in a forked child: they are its parent's, and must not stay locked when the parent is killed."""
    _process.lock = Lock()
    for folder in _process.folders.values():
        os.close(folder.descriptor)
    _process.folders.clear()
    _process.swept.clear()
    _process.unfinished.clear()


os.register_at_fork(after_in_child=_begin_anew)
