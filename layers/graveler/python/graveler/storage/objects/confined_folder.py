"""The files below a folder, without following a symbolic link.

Anyone who may write in a folder can put links there. A server reads and writes for others: its files are *confined*. It opens
each folder on the way in the one above it, and refuses a link wherever it leads, and any path through a forbidden folder. So a
link that appears between a check and a read is found by the read.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import ForbiddenError
from graveler.storage.durable_files import make_folder, unavailable
from graveler.storage.file_modes import Modes
from graveler.storage.objects.folder_files import FolderFiles

if TYPE_CHECKING:
    from typing import Self

_THROUGH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for a folder on the way, for which this user may have no right but to pass."""
_CONFINED: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_LINKED: Final = frozenset((errno.ELOOP, errno.ENOTDIR))
_MAX_LINKS: Final = 40
"""Linux's own limit."""


class Confinement(Struct, frozen=True):
    """``start`` is the folder from which on no link is followed, above the root; empty: the root. ``never`` are device and inode
    of folders through which no path may lead."""

    start: str = ""
    never: frozenset[tuple[int, int]] = frozenset()


def files_below(root: Path, confinement: Confinement | None = None) -> FolderFiles:
    """Return the files below ``root``: with a confinement without following a symbolic link."""
    return FolderFiles(root) if confinement is None else ConfinedFolder(root, confinement)


class ConfinedFolder(FolderFiles):
    """The files below ``root``, without those behind a symbolic link and those that the ``confinement`` refuses:
    :class:`ForbiddenError`. Cost: one more open for each folder on the way."""

    follows_links = False

    def __init__(self, root: Path, confinement: Confinement) -> None:
        super().__init__(root)
        self._never = confinement.never
        self._resolved = trusted_path(root)
        self._start = confinement.start or str(self._resolved)
        self._above = self._resolved.relative_to(self._start).parts

    def open(self, path: Path | str, flags: int) -> int:
        path = Path(path)
        with self._locate(path) as location:
            descriptor = os.open(location.name, flags | _CONFINED, dir_fd=location.folder)
        if flags & os.O_DIRECTORY:
            self._expect_allowed(descriptor, path)
        return descriptor

    def open_in(self, descriptor: int, folder: str, name: str, flags: int) -> int:
        try:
            return os.open(name, flags | _CONFINED, dir_fd=descriptor)
        except OSError as error:
            if error.errno in _LINKED and _is_link(name, descriptor):
                raise self.linked(Path(folder, name)) from None
            raise

    def status_in(self, descriptor: int, folder: str, name: str) -> os.stat_result:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise self.linked(Path(folder, name))
        return status

    def open_or_create(self, path: Path, flags: int, modes: Modes) -> int:
        with self._locate(path) as location:
            return modes.open(location.name, flags | _CONFINED, location.folder)

    def create(self, path: Path, flags: int, modes: Modes) -> int:
        with self._locate(path) as location:
            return modes.create(location.name, flags, location.folder)

    def status(self, path: Path) -> os.stat_result:
        with self._locate(path) as location:
            status = os.stat(location.name, dir_fd=location.folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise self.linked(path)
        return status

    @contextmanager
    def entries(self, folder: Path) -> "Iterator[Iterator[os.DirEntry[str]]]":
        descriptor = self.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    def is_folder_entry(self, entry: "os.DirEntry[str]", folder: Path) -> bool:
        if entry.is_symlink():
            raise self.linked(folder / entry.name)
        return entry.is_dir(follow_symlinks=False)

    def link(self, source: Path, destination: Path) -> None:
        with self._locate(source) as old, self._locate(destination) as new:
            os.link(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder, follow_symlinks=False)

    def rename(self, source: Path, destination: Path) -> None:
        with self._locate(source) as old, self._locate(destination) as new:
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)

    def unlink(self, path: Path) -> None:
        with self._locate(path) as location:
            os.unlink(location.name, dir_fd=location.folder)

    def rmdir(self, path: Path) -> None:
        with self._locate(path) as location:
            os.rmdir(location.name, dir_fd=location.folder)

    def make_root(self, modes: Modes) -> None:
        make_folder(self._resolved, modes)

    def make_folder(self, path: Path, modes: Modes) -> None:
        with self._locate(path) as location:
            modes.make_folder(location.name, location.folder)

    def _locate(self, path: Path) -> "_Location":
        below = self._below(path)
        names = [*self._above, *below.split("/")] if below else list(self._above)
        if not names:  # the folder where it starts
            return _Location(".", os.open(self._start, _THROUGH), self, path)
        return _Location(names[-1], self._walk(names[:-1], path), self, path)

    def _walk(self, names: list[str], path: Path) -> int:
        """Return the descriptor of the last one of these folders, each in the one before it."""
        descriptor = os.open(self._start, _THROUGH)
        for name in names:
            above = descriptor
            try:
                descriptor = os.open(name, _THROUGH, dir_fd=above)
            except OSError as error:
                if error.errno in _LINKED and _is_link(name, above):
                    raise self.linked(path) from None
                raise
            finally:
                os.close(above)
            self._expect_allowed(descriptor, path)
        return descriptor

    def _expect_allowed(self, descriptor: int, path: Path) -> None:
        if not self._never:
            return
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) in self._never:
            os.close(descriptor)
            raise ForbiddenError(
                f"{self._below(path)!r} is in the lake's own folder, or is a view of the system, and cannot be an object"
            )


class _Location:
    """``name`` in the open folder ``folder``, which is closed at the end of the block."""

    __slots__ = ("_files", "_path", "folder", "name")

    def __init__(self, name: str, folder: int, files: ConfinedFolder, path: Path) -> None:
        self.name, self.folder, self._files, self._path = name, folder, files, path

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, OSError) and error.errno in _LINKED and _is_link(self.name, self.folder):
                raise self._files.linked(self._path) from None
        finally:
            os.close(self.folder)


def trusted_path(path: Path) -> Path:
    """Return a path without symbolic links, following only those of the superuser or this user: others must not choose where a
    server reads. Missing parts stay as they are. :class:`ForbiddenError` for another's link, :class:`UnavailableError` where the
    path cannot be examined."""
    trusted = (0, os.geteuid())
    done, waiting, links = Path("/"), [*path.absolute().parts[:0:-1]], 0
    while waiting:
        name = waiting.pop()
        candidate = done.parent if name == ".." else done / name
        if not _is_linked(candidate):
            done = candidate
            continue
        links += 1
        if candidate.lstat().st_uid not in trusted or links > _MAX_LINKS:
            raise ForbiddenError(
                f"'{candidate}' is a symbolic link of another user, and a server does not follow links; name the place itself"
            )
        target = candidate.readlink()
        if target.is_absolute():
            done = Path("/")
        waiting += [part for part in reversed(target.parts) if part != "/"]
    return done


def _is_linked(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError as error:
        raise unavailable(error, f"looking at '{path}'") from None


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
