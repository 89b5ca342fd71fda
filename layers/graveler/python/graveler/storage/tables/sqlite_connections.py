"""Connections to a file of SQLite that remember what they read, and those of one handle together.

SQLite's ``data_version`` alone keeps items true: this module knows no writer (docs/design/0014-recent-rows.md).
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Final

from graveler.storage.tables.port import Item, Key
from graveler.storage.tables.rows import decode_row
from graveler.storage.tables.sqlite_files import TableFile

_RECENT: Final = 1024
"""The number of rows that a connection remembers."""
_SMALL_BYTES: Final = 4096
"""The most bytes of a row that it remembers."""
_MISSED: Final = 8
"""The number of missing items after which a partition is looked at as a whole."""
_ANY: Final = "SELECT 1 FROM items WHERE partition = ? LIMIT 1"


class Connection(sqlite3.Connection):
    """A connection, and the ``recent`` rows that it read, with their items.

    The items read under ``version`` are what the file holds as long as SQLite's ``data_version`` is that. A connection that reads
    writes nothing, so each commit of another process, thread or connection changes its ``data_version``, and nothing else has to
    be told of it (docs/design/0014-recent-rows.md). An older item is that of a row that was read again and is equal: comparing a
    row takes a tenth of the time of decoding it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.file: TableFile
        self.siblings: Connections
        """It is one of these. Both are set when it is open."""
        self.version = -1
        """None of SQLite's: nothing is believed before the first question."""
        self.recent: dict[Key, tuple[int, object, Item | None]] = {}
        """The version, the row and the item; None for a missing one."""
        self.empty: set[str] = set()
        """Partitions that hold nothing."""
        self._missed: Counter[str] = Counter()
        """The number of items that were missing, by partition."""

    def recall(self, keys: Sequence[Key]) -> list[Item | None] | None:
        """Return the items under ``keys`` if all of them were read lately, or lie in partitions found empty lately, and nothing
        was committed since; else None. Only for a connection that reads. 3 µs."""
        recent, empty, version = self.recent, self.empty, self.version
        items: list[Item | None] = []
        for key in keys:
            entry = recent.get(key)
            if entry is not None and entry[0] == version:
                items.append(entry[2])
            elif key.partition in empty:
                items.append(None)
            else:
                return None
        ((self.version,),) = self.execute("PRAGMA data_version")
        if self.version == version:
            return items
        empty.clear()
        self._missed.clear()
        return None

    def decode(self, key: Key, row: object) -> Item | None:
        """Return the item of a row that was read just now, None for a missing one, and remember it; for a row equal to the one
        read before, the same object. :class:`graveler.errors.CorruptError` as of
        :func:`graveler.storage.tables.rows.decode_row`.

        ``version`` is from before that read: if anything was committed in between, the next question finds another one."""
        entry = self.recent.get(key)
        item: Item | None = None
        if entry is not None and entry[1] == row:
            item = entry[2]
        elif row is not None:
            item = decode_row(key, row)
        if len(self.recent) >= _RECENT:
            self.recent.clear()
        if not isinstance(row, bytes) or len(row) <= _SMALL_BYTES:
            self.recent[key] = self.version, row, item
        return item

    def note_missing(self, keys: Sequence[Key], items: Sequence[Item | None]) -> None:
        """Count the missing ones of some items that were read just now. A partition in which several were missing is looked at as
        a whole: on a branch where nothing is staged, a reader of one object after another finds nothing there each time."""
        for key, item in zip(keys, items, strict=True):
            if item is None:
                self._missed[key.partition] += 1
                if self._missed[key.partition] == _MISSED and not self.execute(_ANY, (key.partition,)).fetchall():
                    self.empty.add(key.partition)


class Connections:
    """The open connections of one handle in one process. Each is used by one thread at a time."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.is_retired = False
        """True if a connection in use is to be closed, and not kept, when it is returned."""
        self.idle: list[Connection] = []
        self.idle_writers: list[Connection] = []
        self.all: set[sqlite3.Connection] = set()
        self.writing = RLock()
        """One whose release fails in a thread that did not get it."""
        self.successors: dict[int, Connections] = {}
        """The connections of the handle after these, by process."""
        self.is_current = False
        """True if the file is known to have this version. One of an older version gets it with the first write."""

    def retire(self) -> None:
        """Close those that are not in use now, and each other one when it is returned."""
        self.is_retired = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close those that are not in use."""
        for idle in (self.idle, self.idle_writers):
            while True:
                try:
                    connection = idle.pop()
                except IndexError:
                    break
                self.discard(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection that its user returned, or that nobody can be using any more."""
        with suppress(sqlite3.Error):  # its errors have been reported, and its writes were committed long ago
            connection.file.close(connection)
        self.all.discard(connection)

    def close_all(self) -> None:
        """Close the connections that a deleted handle left open, unless they are a parent process's."""
        if self.process == os.getpid():
            for connection in list(self.all):
                if isinstance(connection, Connection):
                    self.discard(connection)
