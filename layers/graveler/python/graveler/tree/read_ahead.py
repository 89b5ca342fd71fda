"""Fetching ranges before they are opened: behind a network, a dozen concurrent reads take as long as one.

A walk over a tree mostly knows from its metarange which ranges come next, and announces them. Other threads fetch them meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from graveler.system.forks import new_lock

if TYPE_CHECKING:
    from graveler.tree.range_info import RangeInfo


class ReadAhead:
    """The ranges that one walk expects to open, in about this order. ``fetch`` begins to fetch one, unless it is at hand; up to
    ``at_once`` are fetched ahead of the one that was opened last. Filled by one thread; ranges are opened by any."""

    def __init__(self, fetch: Callable[["RangeInfo"], None], at_once: int) -> None:
        self._fetch = fetch
        self._at_once = at_once
        self._lock = new_lock()
        self._positions: dict[str, int] = {}
        """Position of each expected range, by name."""
        self._waiting: deque[RangeInfo] = deque()
        self._opened = -1

    def wants_more(self) -> bool:
        """Return whether it is worth announcing the next ranges now."""
        return len(self._positions) <= self._opened + self._at_once

    def expect(self, ranges: Iterable["RangeInfo"]) -> None:
        """Announce the next ranges. The very first one is not fetched ahead, since the caller opens it now."""
        with self._lock:
            for info in ranges:
                if info.name not in self._positions:
                    self._positions[info.name] = len(self._positions)
                    self._waiting.append(info)
            self._begin()

    def opening(self, name: str) -> None:
        """Note that this range is being opened: more of those behind it are fetched from now on."""
        with self._lock:
            position = self._positions.get(name)
            if position is not None and position > self._opened:
                self._opened = position
                self._begin()

    def _begin(self) -> None:
        while self._waiting and (position := self._positions[self._waiting[0].name]) <= self._opened + self._at_once:
            info = self._waiting.popleft()
            if position and position > self._opened:
                self._fetch(info)
