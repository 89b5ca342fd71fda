"""Leftovers in the hidden folder of objects: temporary files of dead writers, and unfinished uploads."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from graveler.errors import GravelerError
from graveler.storage.objects.folder_names import FolderNames
from graveler.storage.owned_files import LOCKED, abandoned

_UNLOCKED_AGE: Final = 24 * 3600
"""Seconds after which a file of a version that did not lock its files counts as abandoned."""
_UPLOAD_AGE: Final = 7 * 24 * 3600
"""Seconds after the last part for which an unfinished upload stays: clients and servers come and go between two parts, so no
process owns it."""


class Leftovers:
    """The hidden folder of some objects, and its clean-up."""

    def __init__(self, names: FolderNames) -> None:
        self._names = names
        self._files = names.files

    def sweep(self) -> int:
        """Remove the temporary files of writers that do not live any more, and uploads without a new part for a week; return
        their number. Each writing process calls it once.

        A file goes when its lock is free. A version before locks held none: its files go a day after the last write. That day,
        and the week of an upload, are differences between two times of this file system, whatever this process's clock says. A
        part that is being written keeps its upload. Where the file system has no locks, temporary files stay.
        """
        removed = 0
        now: float | None = None
        for path in self._children(self._names.writes):
            with suppress(OSError, GravelerError), abandoned(self._files, path) as status:  # another process sweeps too
                if status is None:
                    continue
                if not path.name.startswith(LOCKED):
                    now = self._now() if now is None else now
                    if status.st_mtime > now - _UNLOCKED_AGE:
                        continue
                self._files.unlink(path)
                removed += 1
        for folder in self._children(self._names.hidden / "uploads"):
            with suppress(OSError, GravelerError):
                now = self._now() if now is None else now
                if self._files.status(folder).st_mtime < now - _UPLOAD_AGE and not self._is_written_to(folder):
                    self._files.remove_folder(folder)
                    removed += 1
        return removed

    def tidy(self) -> None:
        """Remove the hidden folder, unless it holds files of living writers or unfinished uploads."""
        self.sweep()
        with suppress(OSError, GravelerError):  # not empty, or there is none
            for folder in (self._names.writes, self._names.hidden / "uploads"):
                with suppress(FileNotFoundError):
                    self._files.rmdir(folder)
            locks = self._names.hidden / "locks"
            for path in self._children(locks):
                with abandoned(self._files, path) as status:
                    if status is not None:
                        self._files.unlink(path)
            with suppress(FileNotFoundError):
                self._files.rmdir(locks)
            self._files.rmdir(self._names.hidden)

    def _is_written_to(self, upload: Path) -> bool:
        """Return whether someone writes to an upload, or may do so."""
        for path in self._children(upload):
            if not path.name.isdecimal():  # parts are complete
                with abandoned(self._files, path) as status:
                    if status is None:
                        return True
        return False

    def _now(self) -> float:
        """Return the time of the file system, in Unix seconds, as it gives it to a new file."""
        path, descriptor = self._names.new_temporary("")
        try:
            return os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)
            self._files.unlink(path)

    def _children(self, folder: Path) -> list[Path]:
        try:
            with self._files.entries(folder) as entries:
                return [folder / entry.name for entry in entries]
        except OSError:
            return []
