"""The drawing of a commit graph, a commit at a time, in the manner of ``git log --graph``.

Each commit is in a *lane*, a column that has waited for it since its first child was drawn. Its first parent stays in the lane;
each further parent opens a lane to the right, or joins the one that already waits for it. Two lanes that wait for the same commit
become one, the left one, in the row after the commit that made them so. ::

    ○    merge                 a lane forks off          ├─╮
    ├─╮                        a lane joins              ├─╯
    │ ○  on the branch         a parent waits elsewhere  ├─┤
    ○ │  on main               lanes cross, untouched    ├─│─╮
    ├─╯
    ○  where both began

Memory: the lanes, and the ID of each drawn commit (clocks that disagree can put a parent before its child; such a lane ends with
``~``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

UP: Final = 1
DOWN: Final = 2
LEFT: Final = 4
RIGHT: Final = 8
_BOXES: Final = {
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}
NODE: Final = "○"
WAYS: Final = {box: ways for ways, box in _BOXES.items()}
"""By box-drawing character, the sides that its lines lead to, as a sum."""
_ASCII: Final = str.maketrans("│─╰╯╭╮├┤┬┴┼○", "|-`'..||.'+*")


@dataclass(frozen=True, slots=True)
class Stroke:
    """Some characters of a row, in one lane's colour (a number that counts up from 0)."""

    text: str
    colour: int


Row = tuple[Stroke, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One commit: the row with its node, the rows that lead to its parents, and a row to pad further text."""

    node: Row
    links: tuple[Row, ...]
    padding: Row


@dataclass(slots=True)
class _Lane:
    waits_for: str
    colour: int


class Lanes:
    """The state between two commits. ``boxes``: draw with box-drawing characters, not with ASCII."""

    def __init__(self, *, boxes: bool = True) -> None:
        self._boxes = boxes
        self._lanes: list[_Lane | None] = []
        self._drawn: set[str] = set()
        self._colours = 0

    def add(self, commit: str, parents: Iterable[str]) -> Drawn:
        """Draw the next commit; every child of it that will be drawn should have come before."""
        column = self._column_of(commit)
        if column is None:
            column = self._open(commit, 0)
        node = self._row(self._lanes, column, (), node=True)
        self._drawn.add(commit)
        named = list(dict.fromkeys(parents))
        waiting = [parent for parent in named if parent not in self._drawn]
        links = [*self._fork(column, waiting[1:]), *self._follow(column, waiting[:1], ended=not named)]
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return Drawn(node, tuple(links), self._row(self._lanes, None, ()))

    def _fork(self, column: int, parents: Sequence[str]) -> list[Row]:
        """Return the row that leads to all parents but the first."""
        before = list(self._lanes)
        columns = []
        for parent in parents:
            target = self._column_of(parent)
            columns.append(self._open(parent, column + 1) if target is None else target)
        return [self._row(before, column, columns)] if columns else []

    def _follow(self, column: int, parents: Sequence[str], *, ended: bool) -> list[Row]:
        """Return the rows that lead to the first parent, in this lane or, of two that wait for it, in the left one."""
        if not parents:
            row = () if ended else (self._row(self._lanes, column, (), node=True, mark="~"),)
            self._lanes[column] = None
            return list(row)
        (parent,) = parents
        other = self._column_of(parent)
        lane = self._lanes[column]
        assert lane is not None
        lane.waits_for = parent
        if other is None:
            return []
        leftmost, rightmost = sorted((column, other))
        before = list(self._lanes)
        self._lanes[rightmost] = None
        return [self._row(before, leftmost, (rightmost,))]

    def _column_of(self, commit: str) -> int | None:
        return next((column for column, lane in enumerate(self._lanes) if lane and lane.waits_for == commit), None)

    def _open(self, commit: str, start: int) -> int:
        """Open a lane for ``commit`` in the first free column from ``start``."""
        lane = _Lane(commit, self._colours)
        self._colours += 1
        for column in range(start, len(self._lanes)):
            if self._lanes[column] is None:
                self._lanes[column] = lane
                return column
        self._lanes.append(lane)
        return len(self._lanes) - 1

    def _row(
        self,
        above: Sequence[_Lane | None],
        hub: int | None,
        targets: Sequence[int],
        *,
        node: bool = False,
        mark: str = NODE,
    ) -> Row:
        """Return one row: the lanes that come from ``above`` and continue below, and lines from the hub's column to the
        others."""
        below = self._lanes
        width = max(len(above), len(below))
        strokes: list[Stroke] = []
        for column in range(width):
            up = above[column] if column < len(above) else None
            down = below[column] if column < len(below) else None
            lane = up or down
            reach = _reach(hub, targets, column)
            touched = column == hub or column in targets
            ways = UP * bool(up) | DOWN * bool(down)
            if touched or not ways:
                ways |= reach
            colour = lane.colour if lane else self._line_colour(above, below, hub, targets, column)
            glyph = mark if node and column == hub else _BOXES.get(ways, " ")
            strokes.append(Stroke(self._drawable(glyph), colour))
            if column + 1 < width:
                line = reach & RIGHT
                strokes.append(
                    Stroke(
                        self._drawable("─" if line else " "),
                        self._line_colour(above, below, hub, targets, column + 1) if line else colour,
                    )
                )
        return tuple(strokes)

    @staticmethod
    def _line_colour(
        above: Sequence[_Lane | None],
        below: Sequence[_Lane | None],
        hub: int | None,
        targets: Sequence[int],
        column: int,
    ) -> int:
        """Return the colour of a horizontal line through ``column``: that of the nearest lane that it leads to."""
        if hub is None or not targets:
            return 0
        beyond = [other for other in targets if (hub < column <= other) or (other < column <= hub) or other == column]
        end = min(beyond or targets, key=lambda other: abs(other - column))
        lane = (above[end] if end < len(above) else None) or (below[end] if end < len(below) else None)
        return lane.colour if lane else 0

    def _drawable(self, text: str) -> str:
        return text if self._boxes else text.translate(_ASCII)


def _reach(hub: int | None, targets: Sequence[int], column: int) -> int:
    """Return the sides to which horizontal lines leave ``column``."""
    if hub is None or not targets:
        return 0
    leftmost, rightmost = min(hub, *targets), max(hub, *targets)
    return (LEFT if leftmost < column <= rightmost else 0) | (RIGHT if leftmost <= column < rightmost else 0)
