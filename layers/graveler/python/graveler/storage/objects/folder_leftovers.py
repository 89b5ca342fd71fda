"""Leftovers in the hidden folder of objects: temporary files of dead writers, and unfinished uploads."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from graveler.errors import GravelerError
from graveler.storage.objects.folder_files import FolderFiles
from graveler.storage.objects.folder_names import FolderNames
from graveler.storage.objects.part_names import part_named
from graveler.storage.owned_files import LOCKED, abandoned

_UNLOCKED_AGE: Final = 24 * 3600
"""Seconds after which a file of a version that did not lock its files counts as abandoned."""
_UPLOAD_AGE: Final = 7 * 24 * 3600
"""Seconds after the last part for which an unfinished upload stays: clients and servers come and go between two parts, so no
process owns it."""


def sweep(names: FolderNames) -> int:
    """Remove the temporary files of writers that do not live any more, and uploads without a new part for a week; return
    their number. Each writing process calls it once.

    A file goes when its lock is free. A version before locks held none: its files go a day after the last write. That day,
    and the week of an upload, are differences between two times of this file system, whatever this process's clock says. A
    part that is being written keeps its upload. Where the file system has no locks, temporary files stay.
    """
    files, removed = names.files, 0
    now: float | None = None
    for path in _children(files, names.writes):
        with suppress(OSError, GravelerError), abandoned(files, path) as status:  # another process sweeps too
            if status is None:
                continue
            if not path.name.startswith(LOCKED):
                now = _now(names) if now is None else now
                if status.st_mtime > now - _UNLOCKED_AGE:
                    continue
            files.unlink(path)
            removed += 1
    for folder in _children(files, names.hidden / "uploads"):
        with suppress(OSError, GravelerError):
            now = _now(names) if now is None else now
            if files.status(folder).st_mtime < now - _UPLOAD_AGE and not _is_written_to(files, folder):
                files.remove_folder(folder)
                removed += 1
    return removed


def tidy(names: FolderNames) -> None:
    """Remove the hidden folder, unless it holds files of living writers or unfinished uploads."""
    sweep(names)
    files = names.files
    with suppress(OSError, GravelerError):  # not empty, or there is none
        for folder in (names.writes, names.hidden / "uploads"):
            with suppress(FileNotFoundError):
                files.rmdir(folder)
        locks = names.hidden / "locks"
        for path in _children(files, locks):
            with abandoned(files, path) as status:
                if status is not None:
                    files.unlink(path)
        with suppress(FileNotFoundError):
            files.rmdir(locks)
        files.rmdir(names.hidden)


def _is_written_to(files: FolderFiles, upload: Path) -> bool:
    """Return whether someone writes to an upload, or may do so."""
    for path in _children(files, upload):
        if part_named(path.name) is None:  # parts are complete
            with abandoned(files, path) as status:
                if status is None:
                    return True
    return False


def _now(names: FolderNames) -> float:
    """Return the time of the file system, in Unix seconds, as it gives it to a new file."""
    path, descriptor = names.new_temporary("")
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        names.files.unlink(path)


def _children(files: FolderFiles, folder: Path) -> list[Path]:
    try:
        with files.entries(folder) as entries:
            return [folder / entry.name for entry in entries]
    except OSError:
        return []
