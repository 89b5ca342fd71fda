"""Clock windows: the hour (or day, or five minutes) that an object belongs to, by its key or by its event's time. All in UTC."""

import re
from calendar import timegm
from datetime import UTC, datetime
from functools import lru_cache
from math import floor
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError

_PARTS: Final = {
    "YYYY": r"(?P<Y>\d{4})",
    "MM": r"(?P<M>\d{2})",
    "DD": r"(?P<D>\d{2})",
    "hh": r"(?P<h>\d{2})",
    "mm": r"(?P<m>\d{2})",
}
_PART: Final = re.compile("|".join(_PARTS))


class Window(Struct, frozen=True):
    """Clock windows of ``seconds`` each. ``layout`` is the pattern, made of ``YYYY MM DD hh mm`` and other text, with which keys
    below the source begin, such as ``YYYY/MM/DD/hh:mm/``; an object with another key belongs to the window of its event's time. A
    window is over ``lateness`` seconds after its end."""

    seconds: int
    layout: str = ""
    lateness: int = 0

    def at(self, time: float) -> int:
        """Return the beginning (Unix seconds) of the window that contains ``time``."""
        return floor(time) // self.seconds * self.seconds

    def stated(self, below: str, time: float) -> int:
        """Return the beginning of the window that an object names: ``below`` is its key below the source."""
        stated = self._stated(below)
        return self.at(time if stated is None else stated)

    def is_ahead(self, begin: int, now: float) -> bool:
        """Return whether a window begins so far in the future (more than a window and its lateness) that its objects do not wait
        for it."""
        return begin > now + self.seconds + self.lateness

    def of(self, below: str, time: float, now: float) -> int:
        """Return the beginning of the window that an object counts to: the one it names, or the present one if that is too far
        ahead."""
        stated = self.stated(below, time)
        return self.at(now) if self.is_ahead(stated, now) else stated

    def ends(self, begin: int) -> int:
        """Return the time after which no more objects of a window are expected."""
        return begin + self.seconds + self.lateness

    def check(self) -> None:
        """Refuse invalid windows, with :class:`InvalidError`."""
        if self.seconds < 1 or self.lateness < 0:
            raise InvalidError(
                f"a window of {self.seconds} seconds with {self.lateness} seconds for late objects is not possible; use at "
                "least 1 and 0"
            )
        if not self.layout:
            return
        named = _PART.findall(self.layout)
        if "YYYY" not in named or len(set(named)) != len(named):
            raise InvalidError(
                f"window layout {self.layout!r} must contain YYYY, and each of YYYY MM DD hh mm at most once, as in "
                "YYYY/MM/DD/hh:mm/"
            )

    def _stated(self, below: str) -> int | None:
        match = _pattern(self.layout).match(below) if self.layout else None
        if match is None:
            return None
        parts = {"M": "01", "D": "01", "h": "00", "m": "00", **match.groupdict()}
        try:
            year, month, day, hour, minute = (int(parts[part]) for part in "YMDhm")
            moment = datetime(year, month, day, hour, minute, tzinfo=UTC)
        except ValueError:
            return None
        return timegm(moment.utctimetuple())


def spelled(begin: int) -> str:
    """Return the beginning of a window, for people."""
    try:
        return datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{begin} s"  # out of the calendar's range


@lru_cache(maxsize=64)
def _pattern(layout: str) -> re.Pattern[str]:
    pieces, end = [], 0
    for part in _PART.finditer(layout):
        pieces += [re.escape(layout[end : part.start()]), _PARTS[part[0]]]
        end = part.end()
    return re.compile("".join([*pieces, re.escape(layout[end:])]))
