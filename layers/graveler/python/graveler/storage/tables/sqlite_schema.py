"""The table in a file of SQLite: made in a new file, recognised in an old one, and the settings of a connection to it."""

import sqlite3
import time
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError, LaterVersionError, UnavailableError
from graveler.storage.tables.sqlite_errors import BUSY, code_of

APPLICATION_ID: Final = 0x67726176
"""``grav``: marks the file as ours, also for file(1)."""
FORMAT_VERSION: Final = 2
"""Since 2, rows have checksums (:mod:`graveler.storage.tables.rows`)."""

_CREATE: Final = (
    "CREATE TABLE items (partition TEXT NOT NULL, sort BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (partition, sort)) \
WITHOUT ROWID"
)
_PAGE_BYTES: Final = 8192
"""Commit items of 1.5 KB would spill to overflow pages of 4,096 bytes: the same history then takes twice the space."""
_WAL_BYTES: Final = 64 << 20


def prepare(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> bool:
    """Make the table if the file is new, and return whether the file has this version; one of an older version gets it with the
    first write. :class:`InvalidError` for a file that is not ours, :class:`LaterVersionError`."""
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new file; an old one keeps its own
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # F_FULLFSYNC, on macOS; nothing elsewhere
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA secure_delete = FAST")  # a secret that was replaced does not stay in its page
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # writers copy the log themselves
    version = _version(connection, path)
    if version is None:
        enter_wal(connection, path, busy_seconds)
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection, path)
        if version is None:  # no other process made it meanwhile
            connection.execute(_CREATE)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")
    enter_wal(connection, path, busy_seconds)
    return version == FORMAT_VERSION


def _version(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return the version of our table in the file; None if the file is empty. :class:`InvalidError` for another program's file,
    :class:`LaterVersionError`."""
    # One statement, hence one moment: another process may be making the table.
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application == 0 and version == 0 and tables == 0:
        return None
    if application != APPLICATION_ID:
        raise InvalidError(f"{path} is an SQLite file of another program; choose another file for the table")
    if version > FORMAT_VERSION:
        raise LaterVersionError(f"the table {path}", version, FORMAT_VERSION)
    return int(version)


def enter_wal(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> None:
    """Let the file have a log. :class:`UnavailableError` on a file system without shared memory."""
    # Changing the mode does not wait for others as other statements do.
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if code_of(error) not in BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
            continue
        if mode != "wal":
            raise UnavailableError(f"the table {path} is on a file system without shared memory; use a local disk")
        return
