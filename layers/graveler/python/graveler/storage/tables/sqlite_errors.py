"""Errors of SQLite, and the errors to raise for them."""

import sqlite3
from pathlib import Path
from typing import Final

from graveler.errors import BusyError, CorruptError, GravelerError, UnavailableError
from graveler.storage.objects.port import NotPermittedError

BUSY: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL))
"""Codes for a file that others use."""
_DAMAGED: Final = frozenset(
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
)
"""Our statements are always the same ones: an error that SQLite finds in one (no such column, unsupported file format) comes from
the file."""
REFUSED: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then try again",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; grant this user write permission",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and that this user can write there",
    sqlite3.SQLITE_PERM: "no permission; grant it to this user",
    sqlite3.SQLITE_IOERR: "the disk reports an input/output error, or is full; check it",
}
"""The reason and the remedy, by code."""


def code_of(error: BaseException) -> int:
    """Return the code of an error of SQLite; that of no error for any other."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)) & 0xFF


def explained(error: sqlite3.Error | UnicodeDecodeError, path: Path, busy_seconds: float) -> GravelerError | None:
    """Return the error to raise for an error of SQLite; None for one that is a mistake of ours."""
    code = code_of(error)
    if code in BUSY:
        return busy(path, busy_seconds)
    # Invalid UTF-8 in a column that damage turned into text is an error of Python's, without a code.
    if code in _DAMAGED or isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        return CorruptError(f"the table {path} is damaged, or is not a table ({error}); restore it from a copy")
    if code in REFUSED:
        return UnavailableError(f"the table {path} cannot be used now: {REFUSED[code]} ({error})")
    return None


def busy(path: Path, seconds: float) -> BusyError:
    """Return the error for a table that others wrote to for so many seconds."""
    return BusyError(f"the table {path} was busy for {seconds:g} s with other writes; nothing was written; try again")


def not_writable(path: Path) -> NotPermittedError:
    """Return the error for a write to a table that can only be read."""
    return NotPermittedError(
        f"the table {path} can only be read: its disk is read-only, or this user may not write there; nothing was "
        "written. Mount the disk writable, or grant this user the right (`graveler init --shared group` makes a lake for a "
        "group)"
    )
