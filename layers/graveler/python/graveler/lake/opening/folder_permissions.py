"""Whether the folder of a lake lets in whom it should not: it holds every object, and the secrets that sign URLs and tokens."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.storage.folder_objects import HIDDEN
from graveler.storage.folders import unavailable
from graveler.storage.key_file import LAKES_OWN
from graveler.storage.modes import Modes

LINES_FILE: Final = "turns"
"""Who waits to change a branch (:mod:`graveler.storage.lines`)."""

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
        LINES_FILE,
    )
)
"""What a lake has in its folder."""


_TOLD: Final = "told-open"


class FolderPermissions(Struct, frozen=True):
    """The permissions that the lake in ``folder`` is to have."""

    folder: Path
    modes: Modes

    def wider(self) -> list[Path]:
        """The folder, or what of the lake is in it, whichever lets in somebody whom ``modes`` would not; nothing if all is well.
        What lies deeper is not looked at: nobody gets there through a closed folder. A few looks at the file system."""
        if self.modes.allows(self.folder.stat()):
            return []
        entries = [self.folder / name for name in sorted(OWN)]
        wider = [path for path in entries if path.exists() and not self.modes.allows(path.lstat())]
        return wider or ([self.folder] if _is_writable_by_others(self.folder) else [])

    def tell_once(self) -> bool:
        """Note that somebody is being told of it; False if somebody was before, or if nothing can be noted."""
        try:
            os.close(self.modes.create(self.folder / HIDDEN / _TOLD, os.O_WRONLY))
        except OSError:
            return False
        return True

    def narrow(self) -> int:
        """Take the permissions away that ``modes`` do not give, from everything of the lake; how many files and folders had
        some. The folder itself is narrowed if nothing else is in it. Looks at every file. :class:`UnavailableError`."""
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
        except FileNotFoundError:  # somebody removed it meanwhile
            return False
        return True


def _is_writable_by_others(folder: Path) -> bool:
    """Could others replace what is in it?"""
    mode = folder.stat().st_mode
    return bool(mode & 0o022) and not mode & stat.S_ISVTX


def _below(folder: Path) -> Iterator[Path]:
    """Everything below a folder, symbolic links neither shown nor followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))
