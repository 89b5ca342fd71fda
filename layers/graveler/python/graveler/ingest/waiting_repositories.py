"""The repositories with pending changes, so that the clock checks no others.

A repository is marked in the transaction in which the first change of a rule becomes pending. The clock removes the mark when
nothing is pending in the repository, on condition that it is the mark that it read before checking: each marking draws a new one,
so changes that became pending meanwhile are not forgotten.

Processes of earlier versions set no mark. So at intervals the clock checks every repository with rules.
"""

from contextlib import suppress
from secrets import token_hex
from typing import Final

from msgspec import Struct

from graveler.model import RepositoryUID
from graveler.storage.tables.port import ConditionFailedError, Key, Matches, Put, Tables
from graveler.storage.tables.walking import walk

PARTITION: Final = "ingest/waiting"
ALL_EVERY: Final = 900
"""Seconds between two checks of every repository with rules."""

_ALL: Final = Key(PARTITION, b"\0all")


class Waiting(Struct, frozen=True):
    """The ``marks`` of repositories, and whether it is time to check ``all``."""

    marks: dict[RepositoryUID, str]
    all: bool


def mark_write(uid: RepositoryUID) -> Put:
    """Return the write that marks a repository as having pending changes; part of the transaction that stages them."""
    return Put(Key(PARTITION, uid.encode()), {"mark": token_hex(8)})


def waiting(tables: Tables, now: float) -> Waiting:
    """Return the repositories that the clock has to check. One table read per thousand. An unreadable item is still a mark,
    without a text; the next one that is written replaces it."""
    marks: dict[RepositoryUID, str] = {}
    looked: object = None
    for sort, item in walk(tables, PARTITION):
        content = item if not isinstance(item, Exception) else {}
        if sort == _ALL.sort:
            looked = content.get("at")
        else:
            mark = content.get("mark")
            marks[RepositoryUID(sort.decode(errors="backslashreplace"))] = mark if isinstance(mark, str) else ""
    return Waiting(marks, not isinstance(looked, int) or not 0 <= now - looked < ALL_EVERY)


def forget(tables: Tables, uid: RepositoryUID, mark: str) -> None:
    """Remove a mark, unless it was replaced by now. One table write."""
    with suppress(ConditionFailedError):
        tables.delete(Key(PARTITION, uid.encode()), Matches({"mark": mark}))


def looked_at_all(tables: Tables, now: float) -> None:
    """Record that every repository with rules was checked. One table write."""
    tables.put(_ALL, {"at": int(now)})
