"""The files below a folder, by their paths: as the operating system finds them, or without following a symbolic link.

Anyone who may write in a folder can put links there. A user of the library has only their own rights, so the library follows
links. A server reads and writes for others: its files are *confined*. It opens each folder on the way in the one above it, and
refuses a link wherever it leads, and any path through a forbidden folder. So a link that appears between a check and a read is
found by the read.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import ForbiddenError
from graveler.storage.durable_files import make_folder, sync_descriptor, unavailable
from graveler.storage.file_modes import Modes

if TYPE_CHECKING:
    from typing import Self

_THROUGH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for a folder on the way, for which this user may have no right but to pass."""
_LINKED: Final = frozenset((errno.ELOOP, errno.ENOTDIR))
_MAX_LINKS: Final = 40
"""Linux's own limit."""


class Confinement(Struct, frozen=True):
    """``start`` is the folder from which on no link is followed, above the root; empty: the root. ``never`` are device and inode
    of folders through which no path may lead."""

    start: str = ""
    never: frozenset[tuple[int, int]] = frozenset()


class Beneath:
    """The files below ``root``. All paths are below it. Errors are ``OSError``, and :class:`ForbiddenError` if the
    ``confinement`` refuses. Cost: with a confinement, one more open for each folder on the way."""

    def __init__(self, root: Path, confinement: Confinement | None = None) -> None:
        self.root = root
        self.confinement = confinement
        self._skip = len(str(root).rstrip("/")) + 1
        self._resolved = root if confinement is None else trusted_path(root)
        self._start = (confinement and confinement.start) or str(self._resolved)
        self._above = () if confinement is None else self._resolved.relative_to(self._start).parts
        self._flags = os.O_CLOEXEC if confinement is None else os.O_CLOEXEC | os.O_NOFOLLOW

    def open(self, path: Path | str, flags: int) -> int:
        """Return the descriptor of an existing file or folder."""
        if self.confinement is None:
            return os.open(path, flags | self._flags)
        path = Path(path)
        with self._at(path) as spot:
            descriptor = os.open(spot.name, flags | self._flags, dir_fd=spot.folder)
        if flags & os.O_DIRECTORY:
            self._expect_allowed(descriptor, path)
        return descriptor

    def open_in(self, descriptor: int, folder: str, name: str, flags: int) -> int:
        """Open a file as :meth:`open` does, in a folder opened by it: one open, however deep it lies."""
        try:
            return os.open(name, flags | self._flags, dir_fd=descriptor)
        except OSError as error:
            if self.confinement is not None and error.errno in _LINKED and _is_link(name, descriptor):
                raise self.linked(Path(folder, name)) from None
            raise

    def status_in(self, descriptor: int, folder: str, name: str) -> os.stat_result:
        """Return the status as :meth:`status` does, in a folder opened by :meth:`open`."""
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=self.confinement is None)
        if self.confinement is not None and stat.S_ISLNK(status.st_mode):
            raise self.linked(Path(folder, name))
        return status

    def open_or_create(self, path: Path, flags: int, modes: Modes) -> int:
        """Return the descriptor of a file, which is created if missing."""
        with self._at(path) as spot:
            return modes.open(spot.name, flags | self._flags, spot.folder)

    def create(self, path: Path, flags: int, modes: Modes) -> int:
        """Return the descriptor of a new file."""
        with self._at(path) as spot:
            return modes.create(spot.name, flags, spot.folder)

    def status(self, path: Path) -> os.stat_result:
        """Return the status of a path."""
        with self._at(path) as spot:
            status = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=self.confinement is None)
        if self.confinement is not None and stat.S_ISLNK(status.st_mode):
            raise self.linked(path)
        return status

    def is_folder(self, path: Path) -> bool:
        """Return whether the path is a folder."""
        try:
            return stat.S_ISDIR(self.status(path).st_mode)
        except OSError:
            return False

    def is_file(self, path: Path) -> bool:
        """Return whether the path is a plain file."""
        try:
            return stat.S_ISREG(self.status(path).st_mode)
        except OSError:
            return False

    @contextmanager
    def entries(self, folder: Path) -> "Iterator[Iterator[os.DirEntry[str]]]":
        """Enter a block with the entries of a folder. Call :meth:`is_folder_entry` for an entry's kind."""
        if self.confinement is None:
            with os.scandir(folder) as entries:
                yield entries
            return
        descriptor = self.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    def is_folder_entry(self, entry: "os.DirEntry[str]", folder: Path) -> bool:
        """Return whether an entry of ``folder`` is a folder, or a link to one. A link that goes in circles leads to none."""
        if self.confinement is None:
            try:
                return entry.is_dir()
            except OSError as error:
                if error.errno == errno.ELOOP:
                    return False
                raise
        if entry.is_symlink():
            raise self.linked(folder / entry.name)
        return entry.is_dir(follow_symlinks=False)

    def link(self, source: Path, destination: Path) -> None:
        """Give a file another, unused name."""
        with self._at(source) as source_spot, self._at(destination) as destination_spot:
            os.link(
                source_spot.name,
                destination_spot.name,
                src_dir_fd=source_spot.folder,
                dst_dir_fd=destination_spot.folder,
                follow_symlinks=False,
            )

    def rename(self, source: Path, destination: Path) -> None:
        """Rename a file, replacing any file of the new name."""
        with self._at(source) as source_spot, self._at(destination) as destination_spot:
            os.rename(
                source_spot.name,
                destination_spot.name,
                src_dir_fd=source_spot.folder,
                dst_dir_fd=destination_spot.folder,
            )

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        with self._at(path) as spot:
            os.unlink(spot.name, dir_fd=spot.folder)

    def rmdir(self, path: Path) -> None:
        """Remove an empty folder."""
        with self._at(path) as spot:
            os.rmdir(spot.name, dir_fd=spot.folder)

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that contains only files, with them."""
        with self.entries(folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with suppress(FileNotFoundError):
                self.unlink(folder / name)
        self.rmdir(folder)

    def make_root(self, modes: Modes) -> None:
        """Make the root and what is missing above it, durably."""
        make_folder(self._resolved, modes)

    def make_folder(self, path: Path, modes: Modes) -> None:
        """Make one folder; an existing one keeps its permissions."""
        with self._at(path) as spot:
            modes.make_folder(spot.name, spot.folder)

    def make_folders(self, path: Path, modes: Modes) -> None:
        """Make a folder and those above it, as far as they are missing."""
        if path == self.root:
            self.make_root(modes)
            return
        try:
            self.make_folder(path, modes)
        except FileNotFoundError:
            self.make_folders(path.parent, modes)
            self.make_folder(path, modes)

    def sync(self, folder: Path) -> tuple[int, int]:
        """Make the names in a folder durable. Returns its device and inode."""
        return sync_descriptor(self.open(folder, os.O_RDONLY | os.O_DIRECTORY))

    def linked(self, path: Path) -> ForbiddenError:
        """Return the error for a link at a path."""
        return ForbiddenError(
            f"{self._below(path)!r} is a symbolic link, or behind one, and a server does not follow links; name the place that "
            "it points to, or replace the link by what is there"
        )

    def _below(self, path: Path) -> str:
        return str(path)[self._skip :]

    def _at(self, path: Path) -> "_Spot":
        if self.confinement is None:
            return _Spot(str(path))
        below = self._below(path)
        names = [*self._above, *below.split("/")] if below else list(self._above)
        if not names:  # the folder where it starts
            return _Spot(".", os.open(self._start, _THROUGH), self, path)
        return _Spot(names[-1], self._walk(names[:-1], path), self, path)

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
        if self.confinement is None or not self.confinement.never:
            return
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) in self.confinement.never:
            os.close(descriptor)
            raise ForbiddenError(
                f"{self._below(path)!r} is in the lake's own folder, or is a view of the system, and cannot be an object"
            )


class _Spot:
    """``name`` in the open folder ``folder`` (None: a whole path), which is closed at the end of the block."""

    __slots__ = ("_files", "_path", "folder", "name")

    def __init__(
        self, name: str, folder: int | None = None, files: Beneath | None = None, path: Path | None = None
    ) -> None:
        self.name, self.folder, self._files, self._path = name, folder, files, path

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.folder is None:
            return
        try:
            if isinstance(error, OSError) and error.errno in _LINKED and _is_link(self.name, self.folder):
                assert self._files is not None
                assert self._path is not None
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
