"""A branch's past positions: ``main@{3}`` before its last three moves, ``main@{2026-06-01T12:00Z}`` at that time,
``main@{1 hour ago}`` that long ago, as in Git.

The reference log has them (:mod:`graveler.history.reflog`), also for a deleted branch. Its rows are in the order of events; their
times are by the clocks of the processes that wrote them. The newest row that is not later than the time counts, so a row with a
wrong time misleads only for times between it and its neighbours.
"""

import time
from typing import Final

from msgspec import Struct

from graveler.errors import RefNotFoundError
from graveler.history.refs import Refs
from graveler.history.relative_times import seconds_ago
from graveler.model import CommitID

_MAX_DIGITS: Final = 9
_DECIMAL: Final = frozenset("0123456789")
_PAGE: Final = 1000


class Past(Struct, frozen=True):
    """The text in braces: ``moves`` back; or, with ``time_ns``, the Unix time in nanoseconds that ``text`` means; or, with
    ``ago``, the seconds between that time and now, which is the time of the lookup."""

    text: str
    moves: int = 0
    time_ns: int | None = None
    ago: int | None = None

    def __str__(self) -> str:
        return f"{{{self.text}}}"


def parse_past(text: str) -> Past | None:
    """Parse the text in braces: a number of at most nine digits; a date, with or without a time, from 1970 to 2262, in UTC
    unless it names another zone; or a duration (:mod:`graveler.history.relative_times`); None for anything else. No request."""
    if text and len(text) <= _MAX_DIGITS and _DECIMAL.issuperset(text):
        return Past(text, moves=int(text))
    if (ago := seconds_ago(text)) is not None:
        return Past(text, ago=ago)
    from datetime import UTC, datetime, timedelta  # rarely needed, and kept off the path of a cold start

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    time_ns = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    return Past(text, time_ns=time_ns) if 0 <= time_ns < 1 << 63 else None


def commit_at(text: str, branch: str, past: Past, refs: Refs) -> CommitID:
    """Return the commit at which ``branch`` was. ``text`` is the whole expression, for errors. :class:`RefNotFoundError` for a
    time at which the branch did not exist, and for one that the log does not reach; :class:`CorruptError` for a damaged row.

    Requests: one for each thousand moves of the branch since, and one for its item if it did not move since.
    """
    if past.ago is not None:
        return _at_time(text, branch, time.time_ns() - past.ago * 1_000_000_000, refs)
    if past.time_ns is not None:
        return _at_time(text, branch, past.time_ns, refs)
    return _before_moves(text, branch, past.moves, refs)


def _before_moves(text: str, branch: str, moves: int, refs: Refs) -> CommitID:
    if moves == 0:
        state = refs.branch(branch)
        if state is None:
            raise RefNotFoundError(text, f"no branch is called {branch!r}")
        return state.commit_id
    row = None
    for count, row in enumerate(refs.reflog.rows("branch", branch, min(moves, _PAGE)), 1):
        if count == moves:
            if row.old is None:
                raise RefNotFoundError(text, f"branch {branch!r} did not exist {moves} moves ago: it was created then")
            return row.old
    if row is None:
        raise RefNotFoundError(text, _no_log(branch, refs))
    raise RefNotFoundError(text, f"the log of branch {branch!r} has only {count} moves")


def _at_time(text: str, branch: str, time_ns: int, refs: Refs) -> CommitID:
    later = None
    for row in refs.reflog.rows("branch", branch, _PAGE):
        if row.event.time_ns <= time_ns:
            if row.new is None:
                raise RefNotFoundError(text, f"branch {branch!r} had been deleted by that time")
            return row.new
        later = row
    # No row is that old. Recent moves have rows, so the branch was then where its oldest row found it.
    if time_ns < time.time_ns() - refs.reflog.keep_seconds * 1_000_000_000:
        days = refs.reflog.keep_seconds // 86_400
        raise RefNotFoundError(
            text, f"the log of branch {branch!r} does not reach back to that time; it is kept for {days} days"
        )
    if later is not None:
        if later.old is None:
            raise RefNotFoundError(text, f"branch {branch!r} did not exist yet: it was created later")
        return later.old
    state = refs.branch(branch)
    if state is None:
        raise RefNotFoundError(text, _no_log(branch, refs))
    return state.commit_id


def _no_log(branch: str, refs: Refs) -> str:
    days = refs.reflog.keep_seconds // 86_400
    return f"no branch is called {branch!r}, or it has not moved for {days} days, so it has no log"
