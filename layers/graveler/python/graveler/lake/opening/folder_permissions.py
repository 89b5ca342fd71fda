"""Checks of the permissions of a lake's folder: it holds every object, and the secrets that sign URLs and tokens."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.storage.durable_files import unavailable
from graveler.storage.file_modes import Modes
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.secrets.key_file import LAKES_OWN

QUEUE_FILE: Final = "turns"
"""The queues for changing a branch (:mod:`graveler.storage.machine_queue`)."""

OWN: Final = frozenset(
    (
        "graveler.json",
        "tables.sqlite",
        "tables.sqlite-wal",
        "tables.sqlite-shm",
        LAKES_OWN,
        "cache",
        "objects",
        HIDDEN,
        QUEUE_FILE,
    )
)
"""The names of a lake's own files in its folder."""


_TOLD: Final = "told-open"


class FolderPermissions(Struct, frozen=True):
    """The permissions that the lake in ``folder`` should have."""

    folder: Path
    modes: Modes

    def wider(self) -> list[Path]:
        """Return the folder, or the lake's entries in it, that let in users whom ``modes`` would not; empty if there are none.
        Deeper entries are not checked: a closed folder already blocks the way to them. A few file system calls."""
        if self.modes.allows(self.folder.stat()):
            return []
        entries = [self.folder / name for name in sorted(OWN)]
        wider = [path for path in entries if path.exists() and not self.modes.allows(path.lstat())]
        return wider or ([self.folder] if _is_writable_by_others(self.folder) else [])

    def tell_once(self) -> bool:
        """Note that the user is being warned; return False if that was noted before, or if it cannot be noted."""
        try:
            os.close(self.modes.create(self.folder / HIDDEN / _TOLD, os.O_WRONLY))
        except OSError:
            return False
        return True

    def narrow(self) -> int:
        """Remove the permissions that ``modes`` do not give from everything of the lake; return how many files and folders had
        some. The folder itself is narrowed if it holds nothing else. Looks at every file. :class:`UnavailableError`."""
        changed = 0
        try:
            with os.scandir(self.folder) as entries:
                is_own = all(entry.name in OWN for entry in entries)
            (self.folder / HIDDEN / _TOLD).unlink(missing_ok=True)
            if is_own:
                changed += self._narrowed(self.folder)
            for name in sorted(OWN):
                path = self.folder / name
                if path.is_symlink() or not path.exists():
                    continue
                changed += self._narrowed(path)
                for below in _below(path) if path.is_dir() else ():
                    changed += self._narrowed(below)
        except OSError as error:
            raise unavailable(error, f"narrowing the permissions of the lake in {str(self.folder)!r}") from error
        return changed

    def _narrowed(self, path: Path) -> bool:
        try:
            status = path.lstat()
            if self.modes.allows(status):
                return False
            path.chmod(stat.S_IMODE(status.st_mode) & (self.modes.folder if path.is_dir() else self.modes.file))
        except FileNotFoundError:  # another process removed it meanwhile
            return False
        return True


def _is_writable_by_others(folder: Path) -> bool:
    """Return whether other users could replace its contents."""
    mode = folder.stat().st_mode
    return bool(mode & 0o022) and not mode & stat.S_ISVTX


def _below(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder; symbolic links are neither yielded nor followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))
