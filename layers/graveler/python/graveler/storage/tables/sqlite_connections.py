"""Connections to a file of SQLite that remember what they read, and those of one handle together.

What keeps items true is SQLite's ``data_version`` alone: nothing here knows who writes (docs/design/0014-recent-rows.md).
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Final

from graveler.storage.tables.port import Item, Key
from graveler.storage.tables.sqlite_files import TableFile

_RECENT: Final = 1024
"""The number of items that a connection remembers."""
_MISSED: Final = 8
"""The number of missing items after which a partition is looked at as a whole."""
_ANY: Final = "SELECT 1 FROM items WHERE partition = ? LIMIT 1"


class Connection(sqlite3.Connection):
    """A connection, and the ``recent`` items that it read: they are what the file holds as long as SQLite's ``data_version`` is
    ``version``. One that reads writes nothing, so each commit of another process, thread or connection changes its
    ``data_version``, and nothing else has to be told of it (docs/design/0014-recent-rows.md)."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.file: TableFile
        self.siblings: Connections
        """It is one of these. Both are set when it is open."""
        self.version = -1
        """None of SQLite's: nothing is believed before the first question."""
        self.recent: dict[Key, Item | None] = {}
        self.empty: set[str] = set()
        """Partitions that hold nothing."""
        self._missed: Counter[str] = Counter()
        """The number of items that were missing, by partition."""

    def recall(self, keys: Sequence[Key]) -> list[Item | None] | None:
        """Return the items under ``keys`` if all of them were read lately, or lie in partitions found empty lately, and nothing
        was committed since; else None. 3 µs."""
        recent, empty = self.recent, self.empty
        items: list[Item | None] = []
        for key in keys:
            if key in recent:
                items.append(recent[key])
            elif key.partition in empty:
                items.append(None)
            else:
                return None
        ((version,),) = self.execute("PRAGMA data_version")
        if version == self.version:
            return items
        recent.clear()
        empty.clear()
        self._missed.clear()
        self.version = version
        return None

    def remember(self, keys: Sequence[Key], items: Sequence[Item | None]) -> None:
        """Keep items that were read just now. ``version`` is from before that read: if anything was committed in between, the
        next question finds another one and forgets them. A partition in which several were missing is looked at as a whole: who
        reads one object after another on a branch where nothing is staged finds nothing there each time."""
        if len(self.recent) + len(keys) > _RECENT:
            self.recent.clear()
        self.recent.update(zip(keys, items, strict=True))
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
