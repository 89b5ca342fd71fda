"""The drawing of a history as SVG, for notebooks and pages: the rows of ``graveler log --graph``, in lines."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError
from graveler.history.lanes import DOWN, LEFT, NODE, RIGHT, UP, WAYS, Lanes, Row
from graveler.model import Commit

_CELL: Final = 9
_ROW: Final = 22
_LETTER: Final = 7.3
_MARGIN: Final = 10
_SHORT: Final = 12
_LONGEST: Final = 72
_COLOURS: Final = ("#1f6feb", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e")
_ENDS: Final = ((UP, 0, -_ROW // 2), (DOWN, 0, _ROW // 2), (LEFT, -_CELL / 2, 0), (RIGHT, _CELL / 2, 0))


@dataclass(frozen=True, slots=True)
class _Line:
    """A row, the text beside it, and what is drawn above and below its commit, whose circle has no lines of its own."""

    row: Row
    text: str = ""
    above: str = ""
    below: str = ""


class LogGraph:
    """A drawing of commits, newest first; ``more`` says that there are older ones. Notebooks show it; :meth:`save` writes it to a
    file. The same commits make the same drawing."""

    def __init__(self, commits: Sequence[Commit], *, more: bool = False) -> None:
        lanes, rows, above = Lanes(), list[_Line](), ""
        for commit in commits:
            drawn = lanes.add(commit.id, commit.parents)
            below = _text_in(drawn.links[0] if drawn.links else drawn.padding)
            rows.append(_Line(drawn.node, _text_of(commit), above, below))
            rows += [_Line(link) for link in drawn.links]
            above = _text_in(drawn.padding)
        if more:
            rows.append(_Line((), f"older commits are left out; log_graph(amount={2 * len(commits)}) shows more"))
        self.svg = _drawing(rows)
        """The SVG, a text."""

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> None:
        """Write the SVG to a file. :class:`InvalidError` for a name that ends with a slash, which means a folder."""
        if isinstance(file, str) and file.endswith("/"):
            raise InvalidError(f"{file!r} is the name of a folder; name a file")
        Path(file).expanduser().write_text(self.svg, encoding="utf-8")


def _text_in(row: Row) -> str:
    return "".join(stroke.text for stroke in row)


def _text_of(commit: Commit) -> str:
    line = next(iter(commit.message.splitlines()), "")
    shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    day = time.strftime("%Y-%m-%d", time.gmtime(commit.created))
    return f"{commit.id[:_SHORT]}  {day}  {commit.committer}  {shown}"


def _drawing(lines: Sequence[_Line]) -> str:
    graph = max((len(_text_in(line.row)) for line in lines), default=0) * _CELL
    width = round(2 * _MARGIN + graph + _CELL + max((len(line.text) for line in lines), default=0) * _LETTER)
    height = 2 * _MARGIN + len(lines) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        'font-family="monospace" font-size="12" role="img" aria-label="history of commits">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, line in enumerate(lines):
        middle = _MARGIN + number * _ROW + _ROW // 2
        parts += _marks(line, middle)
        if line.text:
            parts.append(
                f'<text x="{_MARGIN + graph + _CELL}" y="{middle + 4}" fill="#24292f" xml:space="preserve">'
                f"{escape(_printable(line.text))}</text>"
            )
    return "\n".join([*parts, "</svg>"])


def _marks(line: _Line, middle: int) -> list[str]:
    """Return the lines of a row, and the circle of its commit on top of them."""
    strokes, nodes = [], []
    cells = [(letter, stroke.colour) for stroke in line.row for letter in stroke.text]
    for column, (letter, colour) in enumerate(cells):
        x, paint = _MARGIN + column * _CELL + _CELL / 2, _COLOURS[colour % len(_COLOURS)]
        ways = WAYS.get(letter, 0)
        if letter == NODE:
            up = UP if _ways_at(line.above, column) & DOWN else 0
            ways = up | (DOWN if _ways_at(line.below, column) & UP else 0)
            nodes.append(f'<circle cx="{x:g}" cy="{middle}" r="4.5" fill="{paint}"/>')
        elif letter == "~":
            nodes.append(f'<text x="{x - 4:g}" y="{middle + 4}" fill="{paint}">~</text>')
        strokes += [
            f'<path d="M{x:g} {middle}L{x + right:g} {middle + down}" stroke="{paint}" stroke-width="2"/>'
            for way, right, down in _ENDS
            if ways & way
        ]
    return strokes + nodes


def _ways_at(text: str, column: int) -> int:
    return WAYS.get(text[column], 0) if column < len(text) else 0


def _printable(text: str) -> str:
    """Replace the characters that XML cannot contain."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
