"""Values as HTML for notebooks: tables of escaped text, without scripts and without anything from elsewhere; and as text for
terminals, in columns.

Colours are chosen for light and for dark pages, and no background is set.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Final, NamedTuple, TypeAlias

from graveler.text.readable import count, human_size, printable

GREEN: Final = "#22863a"
RED: Final = "#da3633"
YELLOW: Final = "#9a6b00"
GREY: Final = "#767676"
"""Colours with a contrast of 4 or more to white and to nearly black."""

_SHORT: Final = 12
_COMMIT_ADDRESS: Final = re.compile(
    f"((?:lakefs://[^/]+/|changes of | and )[0-9a-f]{{{_SHORT}}})[0-9a-f]{{{64 - _SHORT}}}(?![0-9a-f])"
)
"""In a caption, the ID of a commit where a ref can stand."""
_LONGEST: Final = 72
_LONGEST_TITLE: Final = 2000
_LINES: Final = 20
_LINE: Final = "1px solid rgba(128,128,128,.35)"
_TABLE: Final = "border-collapse:collapse;overflow-wrap:anywhere;font-size:13px;margin:4px 0"
_CAPTION: Final = "caption-side:top;text-align:left;padding:2px 8px;font-weight:bold;color:inherit"
_ROW: Final = f'<tr style="border-bottom:{_LINE}">'
_BOX: Final = (
    "vertical-align:top;white-space:pre-wrap;padding:2px 8px"  # for each box, since notebooks have styles for them
)
_NOTE: Final = f"margin:2px 8px;font-size:12px;color:{GREY}"


class Cell(NamedTuple):
    """A line of text. ``title`` is shown when the mouse is above it; numbers stand at the ``right``; ``code`` has letters of one
    width."""

    text: str
    title: str = ""
    right: bool = False
    code: bool = False
    colour: str = ""


Cells: TypeAlias = Cell | Sequence[Cell]
"""The contents of one box of a table: a line, or several."""


class Table(NamedTuple):
    """A table with a caption, and notes below it."""

    caption: str
    headings: Sequence[Cell]
    rows: Sequence[Sequence[Cells]]
    notes: Sequence[str] = ()

    def html(self) -> str:
        """Return it for a notebook."""
        return table(self.caption, self.headings, self.rows, self.notes)

    def text(self) -> str:
        """Return it for a terminal, without colours."""
        lines = [[_line(cells) for cells in row] for row in (self.headings, *self.rows)] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = (
            "  ".join(
                text.rjust(width) if heading.right else text.ljust(width)
                for text, width, heading in zip(line, widths, self.headings, strict=True)
            ).rstrip()
            for line in lines
        )
        return "\n".join(filter(None, (printable(self.caption), *shown, *map(printable, self.notes))))


def value_cell(value: object, colour: str = "") -> Cell:
    """Return a value of a row of data: NULL for None, and the beginning of a long one, with more of it as its title: at most
    2,000 letters, since a value may have millions, and a notebook keeps them all."""
    text = "NULL" if value is None else str(value)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    title = text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 1]}…"
    return Cell(shown, "" if shown == text else title, is_number, colour=colour or (GREY if value is None else ""))


def table(caption: str, headings: Sequence[Cell], rows: Iterable[Sequence[Cells]], notes: Sequence[str] = ()) -> str:
    """Return a table, with notes below it."""
    head = "".join(f'<th scope="col" style="{_box(cell)}">{_text(cell)}</th>' for cell in headings)
    body = [f"{_ROW}{''.join(map(_data, row))}</tr>" for row in rows]
    parts = [f"<thead>{_ROW}{head}</tr></thead>", "<tbody>", *body, "</tbody>"] if body else []
    return _whole(caption, parts, notes)


def fields(caption: str, values: Mapping[str, Cells], notes: Sequence[str] = ()) -> str:
    """Return a table of names and values, with notes below it."""
    rows = [
        f'{_ROW}<th scope="row" style="{_box(Cell(name))}">{_text(Cell(name))}</th>{_data(value)}</tr>'
        for name, value in values.items()
    ]
    return _whole(caption, ["<tbody>", *rows, "</tbody>"] if rows else [], notes)


def commit_fields(
    commit_id: str, parents: Sequence[str], message: str, committer: str, created: int, metadata: Mapping[str, str]
) -> dict[str, Cells]:
    """Return the fields of a commit. ``created`` in Unix seconds."""
    return {
        "ID": short(commit_id),
        "message": _first([Cell(line) for line in message.splitlines()], "line"),
        "author": Cell(committer),
        "date": Cell(f"{moment(created)} UTC"),
        "parents": [short(parent) for parent in parents],
        **({"metadata": entries(metadata)} if metadata else {}),
    }


def object_fields(
    path: str, address: str, number: int, checksum: str, mtime: int, content_type: str, metadata: Mapping[str, str]
) -> str:
    """Return the table of an object's fields. ``mtime`` in Unix seconds, ``number`` of bytes."""
    values: dict[str, Cells] = {
        "size": size(number)._replace(right=False),
        "modified": Cell(f"{moment(mtime)} UTC"),
        "content type": Cell(content_type),
        "checksum": Cell(checksum, code=True),
        "address": Cell(address, code=True),
        **({"metadata": entries(metadata)} if metadata else {}),
    }
    return fields(f"object {path}", values)


def entries(metadata: Mapping[str, str]) -> Sequence[Cell]:
    """Return the first entries of metadata."""
    return _first([Cell(f"{key} = {value}") for key, value in metadata.items()], "entry")


def short(commit_id: str) -> Cell:
    """Return the beginning of a commit ID, with the whole one as its title."""
    return Cell(commit_id[:_SHORT], title=commit_id, code=True)


def subject(message: str) -> Cell:
    """Return the first line of a message, with all of it as the title of one that has more."""
    line = next(iter(message.splitlines()), "")
    shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return Cell(shown, title="" if shown == message else message)


def size(number: int | None) -> Cell:
    """Return a number of bytes, with all its digits as the title. None is nothing."""
    if number is None:
        return Cell("", right=True)
    return Cell(human_size(number), title=f"{number:,} bytes", right=True)


def moment(seconds: int) -> str:
    """Return Unix seconds as UTC; seconds that no calendar has as ``@seconds``."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return f"@{seconds}"


def _first(lines: Sequence[Cell], noun: str) -> Sequence[Cell]:
    excess = len(lines) - _LINES
    return lines if excess <= 0 else [*lines[:_LINES], Cell(f"and {count(excess, noun)} more", colour=GREY)]


def _whole(caption: str, parts: Sequence[str], notes: Sequence[str]) -> str:
    wide = "" if parts else ";width:100%"  # without rows, a table is as narrow as a letter of its caption
    brief = _COMMIT_ADDRESS.sub(r"\1", caption)
    title = f' title="{_escaped(caption)}"' if brief != caption else ""
    below = "".join(f'<div style="{_NOTE}">{_escaped(note)}</div>' for note in notes)
    return "\n".join(
        [
            f'<div><table style="{_TABLE}{wide}"><caption style="{_CAPTION}"{title}>{_escaped(brief)}</caption>',
            *parts,
            f"</table>{below}</div>",
        ]
    )


def _data(cells: Cells) -> str:
    lines = [cells] if isinstance(cells, Cell) else cells
    return f'<td style="{_box(*lines)}">' + "\n".join(map(_text, lines)) + "</td>"


def _box(*lines: Cell) -> str:
    side = "right" if lines and lines[0].right else "left"
    return f"text-align:{side};{_BOX}"


def _text(cell: Cell) -> str:
    style = ("font-family:monospace;" if cell.code else "") + (f"color:{cell.colour};" if cell.colour else "")
    attributes = (f' style="{style}"' if style else "") + (f' title="{_escaped(cell.title)}"' if cell.title else "")
    return f"<span{attributes}>{_escaped(cell.text)}</span>" if attributes else _escaped(cell.text)


def _line(cells: Cells) -> str:
    return printable(cells.text if isinstance(cells, Cell) else " ".join(cell.text for cell in cells))


def _escaped(text: str) -> str:
    return escape(printable(text))
