"""CSV files as texts: their separators, and the first error in one that is no CSV.

DuckDB's recognition of dialects takes whatever fits, so one broken line would turn a table into one of a single column.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from graveler.errors import InvalidError
from graveler.files.reader import buffered
from graveler.text.readable import count

if TYPE_CHECKING:
    from graveler.lake.objects.verification import OpenedObject

_SEPARATORS: Final = ",\t;|"
_MOST: Final = 2_000_000
"""Characters of a line that DuckDB reads at most."""
_BLOCK: Final = 16_384
_BYTE_ORDER_MARK: Final = "\ufeff"

_limit: Final = Lock()
"""Held while the limit of all of Python's readers of CSV is another one."""


def separator_of(opened: "OpenedObject") -> str:
    """Return what separates a file's values: of comma, tab, semicolon and vertical bar the most frequent one in the first line,
    which names the columns, outside of quotes. Cost: a stat and a read of the file's beginning.
    :class:`InvalidError` for a file that is no text, or whose first line is empty."""
    try:
        with buffered(opened, _BLOCK) as reader, _text(opened.entry.path, reader) as text:
            line = _first_line(text)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidError(_reason(error)) from None
    if not line.strip():
        raise InvalidError("its first line, which names the columns, is empty")
    outside = "".join(line.split('"')[::2])
    expected = "\t" if opened.entry.path.lower().removesuffix(".gz").endswith(".tsv") else ","
    return max(expected + _SEPARATORS, key=outside.count)


def first_error(opened: "OpenedObject", separator: str) -> str | None:
    """Return what is wrong with a file, by reading it up to there; None if Python finds nothing."""
    try:
        with buffered(opened) as reader, _text(opened.entry.path, reader) as text, _long_values():
            rows = csv.reader(text, delimiter=separator, strict=True)
            amount = len(next(rows, []))
            for row in rows:
                if row and len(row) != amount:
                    values, columns = count(len(row), "value"), count(amount, "column")
                    return f"line {rows.line_num} has {values}, and the first one names {columns}"
            if isinstance(text.newlines, tuple):
                return f"its lines end in several ways: {', '.join(map(repr, text.newlines))}"
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        return _reason(error)
    except csv.Error as error:
        return f"line {rows.line_num}: {error}"
    return None


@contextmanager
def _long_values() -> Iterator[None]:
    """Let Python read values as long as DuckDB reads them."""
    with _limit:
        before = csv.field_size_limit(_MOST)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _text(path: str, reader: BinaryIO) -> TextIOWrapper:
    is_compressed = path.lower().endswith(".gz")
    plain = cast("BinaryIO", gzip.GzipFile(fileobj=reader)) if is_compressed else reader
    return TextIOWrapper(plain, encoding="utf-8", newline="")


def _first_line(text: TextIOWrapper) -> str:
    """Return the first line; a line break within quotes is none."""
    beginning = ""
    while len(beginning) < _MOST and (block := text.read(_BLOCK)):
        beginning += block
        for end in _line_ends(beginning):
            return beginning[:end].removeprefix(_BYTE_ORDER_MARK)
    return beginning.removeprefix(_BYTE_ORDER_MARK)


def _line_ends(text: str) -> Iterator[int]:
    is_quoted = False
    for position, character in enumerate(text):
        if character == '"':
            is_quoted = not is_quoted
        elif character in "\r\n" and not is_quoted:
            yield position


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, EOFError):
        return "its gzip stream ends early"
    return "it is not compressed with gzip, as its name says"
