"""The files below a folder, by their paths, as the operating system finds them.

The library follows symbolic links: its user has only their own rights. A server confines its files
(:mod:`graveler.storage.objects.confined_folder`).
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from graveler.errors import ForbiddenError
from graveler.storage.durable_files import make_folder, sync_descriptor
from graveler.storage.file_modes import Modes


class FolderFiles:
    """The files below ``root``. All paths are below it. Errors are ``OSError``."""

    follows_links = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self._skip = len(str(root).rstrip("/")) + 1

    def open(self, path: Path | str, flags: int) -> int:
        """Return the descriptor of an existing file or folder."""
        return os.open(path, flags | os.O_CLOEXEC)

    def open_in(self, descriptor: int, folder: str, name: str, flags: int) -> int:  # noqa: ARG002 - for errors
        """Open a file as :meth:`open` does, in a folder opened by it: one open, however deep it lies."""
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=descriptor)

    def status_in(self, descriptor: int, folder: str, name: str) -> os.stat_result:  # noqa: ARG002 - for errors
        """Return the status as :meth:`status` does, in a folder opened by :meth:`open`."""
        return os.stat(name, dir_fd=descriptor)

    def open_or_create(self, path: Path, flags: int, modes: Modes) -> int:
        """Return the descriptor of a file, which is created if missing."""
        return modes.open(path, flags | os.O_CLOEXEC)

    def create(self, path: Path, flags: int, modes: Modes) -> int:
        """Return the descriptor of a new file."""
        return modes.create(path, flags)

    def status(self, path: Path) -> os.stat_result:
        """Return the status of a path."""
        return os.stat(path)  # noqa: PTH116 - a path object takes as long as the system call

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

    def entries(self, folder: Path) -> "AbstractContextManager[Iterator[os.DirEntry[str]]]":
        """Return a block with the entries of a folder. Call :meth:`is_folder_entry` for an entry's kind."""
        return os.scandir(folder)

    def is_folder_entry(self, entry: "os.DirEntry[str]", folder: Path) -> bool:  # noqa: ARG002 - for errors
        """Return whether an entry of ``folder`` is a folder, or a link to one. A link that goes in circles leads to none."""
        try:
            return entry.is_dir()
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise

    def link(self, source: Path, destination: Path) -> None:
        """Give a file another, unused name."""
        os.link(source, destination, follow_symlinks=False)

    def rename(self, source: Path, destination: Path) -> None:
        """Rename a file, replacing any file of the new name."""
        os.rename(source, destination)  # noqa: PTH104

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)  # noqa: PTH108

    def rmdir(self, path: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(path)  # noqa: PTH106

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
        make_folder(self.root, modes)

    def make_folder(self, path: Path, modes: Modes) -> None:
        """Make one folder; an existing one keeps its permissions."""
        modes.make_folder(path)

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
        """Return the error for a link at a path, where links are not followed."""
        return ForbiddenError(
            f"{self._below(path)!r} is a symbolic link, or behind one, and a server does not follow links; name the place that "
            "it points to, or replace the link by what is there"
        )

    def _below(self, path: Path) -> str:
        return str(path)[self._skip :]
