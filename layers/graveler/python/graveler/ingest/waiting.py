"""Which repositories have something pending, so that the clock looks at no others.

A repository is marked in the transaction in which the first change of a rule becomes pending. The clock takes the mark away when
nothing is pending in the repository, on condition that it is the mark that it saw before it looked: each marking draws another
one, so what became pending meanwhile is not forgotten.

Processes of before mark nothing. So now and then the clock looks at every repository with rules.
"""

from contextlib import suppress
from secrets import token_hex
from typing import Final

from msgspec import Struct

from graveler.model import RepositoryUID
from graveler.storage.tables import ConditionFailedError, Key, Matches, Put, Tables
from graveler.storage.walking import walk

PARTITION: Final = "ingest/waiting"
ALL_EVERY: Final = 900
"""Seconds between two looks at every repository with rules."""

_ALL: Final = Key(PARTITION, b"\0all")


class Waiting(Struct, frozen=True):
    """The ``marks`` of repositories, and whether it is time to look at ``all``."""

    marks: dict[RepositoryUID, str]
    all: bool


def mark_write(uid: RepositoryUID) -> Put:
    """Says that something is pending in a repository; part of the transaction that stages it."""
    return Put(Key(PARTITION, uid.encode()), {"mark": token_hex(8)})


def waiting(tables: Tables, now: float) -> Waiting:
    """Where the clock has to look. One table read for each thousand. An item that cannot be read is a mark still, without a
    text; the next one that is written takes its place."""
    marks: dict[RepositoryUID, str] = {}
    looked: object = None
    for sort, item in walk(tables, PARTITION):
        found = item if not isinstance(item, Exception) else {}
        if sort == _ALL.sort:
            looked = found.get("at")
        else:
            mark = found.get("mark")
            marks[RepositoryUID(sort.decode(errors="backslashreplace"))] = mark if isinstance(mark, str) else ""
    return Waiting(marks, not isinstance(looked, int) or not 0 <= now - looked < ALL_EVERY)


def forget(tables: Tables, uid: RepositoryUID, mark: str) -> None:
    """Take a mark away, unless there is another one by now. One table write."""
    with suppress(ConditionFailedError):
        tables.delete(Key(PARTITION, uid.encode()), Matches({"mark": mark}))


def looked_at_all(tables: Tables, now: float) -> None:
    """Note that every repository with rules was looked at. One table write."""
    tables.put(_ALL, {"at": int(now)})
