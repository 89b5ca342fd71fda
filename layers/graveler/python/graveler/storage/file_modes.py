"""Permissions of the files and folders that graveler makes: for their owner alone, their owner's group, or by the umask."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

_BITS: Final = 0o777


class Modes(Struct, frozen=True):
    """Permission bits of new ``folder``\\s and ``file``\\s. The umask takes bits away, unless ``exact``."""

    folder: int
    file: int
    exact: bool = False

    def create(self, path: str | Path, flags: int, above: int | None = None) -> int:
        """Return the descriptor of a new file; ``path`` may be a name in the open folder ``above``. ``FileExistsError``, and
        other ``OSError``."""
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self.file, dir_fd=above)
        if self.exact:
            os.fchmod(descriptor, self.file)
        return descriptor

    def open(self, path: str | Path, flags: int, above: int | None = None) -> int:
        """Return the descriptor of a file, which is created if missing; an existing one keeps its permissions. ``above`` as for
        :meth:`create`. ``OSError``."""
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, dir_fd=above)
            except FileNotFoundError:
                with suppress(FileExistsError):  # a concurrent process was faster
                    return self.create(path, flags, above)

    def make_folder(self, path: str | Path, above: int | None = None) -> None:
        """Make one folder; an existing one keeps its permissions. ``above`` as for :meth:`create`. ``OSError``,
        ``FileExistsError`` if it is a file."""
        try:
            os.mkdir(path, self.folder & _BITS, dir_fd=above)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(path, dir_fd=above).st_mode):
                raise
            return
        if self.exact:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                os.fchmod(descriptor, self.folder)
            finally:
                os.close(descriptor)

    def make_folders(self, path: Path) -> None:
        """Make a folder and those above it, as far as they are missing. ``OSError`` as of :meth:`make_folder`."""
        try:
            self.make_folder(path)
        except FileNotFoundError:
            self.make_folders(path.parent)
            self.make_folder(path)

    def allows(self, status: os.stat_result) -> bool:
        """Return whether this status grants no permission beyond these."""
        return not status.st_mode & _BITS & ~(self.folder | self.file)


PRIVATE: Final = Modes(0o700, 0o600)
"""The owner alone: a lake holds the secrets that sign URLs and tokens."""
GROUP: Final = Modes(0o2770, 0o660, exact=True)
"""The owner and the group, even with a narrower umask; folders pass the group on to their contents."""
PLAIN: Final = Modes(0o777, 0o666)
"""The user's umask, for files that a user takes out of a lake."""
