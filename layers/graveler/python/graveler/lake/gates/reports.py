"""Reports of rules with ``observe``: the changes that they would have refused.

A report is an item in the partition ``<repository uid>/rule-reports``, under the time (8 bytes, nanoseconds) and 8 random bytes;
its attributes are ``report`` (JSON) and ``expires``.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal

import msgspec

from graveler.errors import UNREADABLE, CorruptError, InvalidError
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, Lack, Page, RuleReport
from graveler.storage.tables.port import Item, Key, Put
from graveler.system.random_bytes import random_bytes

KEEP_SECONDS: Final = 30 * 86_400
"""Seconds for which a report stays."""

_POSITION_DIGITS: Final = 32

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RuleReport).decode


def report(
    repository: RepositoryParts,
    name: str,
    commit: Commit,
    lacks: Sequence[Lack],
    kind: Literal["branch", "tag"] = "branch",
) -> None:
    """Report what rules with ``observe`` would have refused of a change that was made: a branch or tag now points at the commit.
    One table write."""
    now = repository.clock.now()
    time = int(now * 1e9).to_bytes(8, "big")
    writes = []
    for rule, some in groupby(sorted(lacks, key=attrgetter("rule")), attrgetter("rule")):
        document = _encode(RuleReport(int(now), rule, kind, name, commit.id, tuple(some)))
        item: Item = {"report": document.decode(), "expires": int(now) + KEEP_SECONDS}
        writes.append(Put(Key(_partition(repository), time + random_bytes(8)), item))
    repository.tables.write_many(writes)


def reports(repository: RepositoryParts, after: str = "", amount: int = 100) -> Page[RuleReport]:
    """Return reports, the newest first; ``after`` is the position that the previous page ended with. One table read.
    :class:`InvalidError` for another position, :class:`CorruptError`."""
    page = repository.tables.query(_partition(repository), end=_position(after), limit=amount, descending=True)
    results = []
    for sort, item in page.items:
        document = item.get("report")
        try:
            results.append(_decode(document if isinstance(document, str) else b""))
        except UNREADABLE as error:
            raise CorruptError(f"report {sort.hex()} of the rules cannot be read: {error}") from None
    return Page(tuple(results), page.items[-1][0].hex() if page.more and page.items else None)


def _position(after: str) -> bytes | None:
    """Return the sort key before which a page ends; None for the first page."""
    if not after:
        return None
    try:
        if len(after) == _POSITION_DIGITS:
            return bytes.fromhex(after)
    except ValueError:
        pass
    raise InvalidError(f"{after[:80]!r} is no position in the reports of rules; use the one that a page ended with")


def _partition(repository: RepositoryParts) -> str:
    return f"{repository.uid}/rule-reports"
