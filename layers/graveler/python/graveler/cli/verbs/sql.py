"""The verb for queries: sql."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from graveler.cli.locations import open_lake, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import Screen, output
from graveler.cli.values import count
from graveler.errors import GravelerError, InvalidError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    import duckdb

    from graveler.cli.locations import Named

_SHOWN: Final = 200
"""Rows that a table shows at most."""
_TOGETHER: Final = 1000
_NUMBERS: Final = frozenset((int, float, Decimal))
_RECOGNIZED: Final = 60
"""Characters by which an error is recognized in another one's text."""


class Format(str, Enum):
    """The forms in which rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A statement of DuckDB's SQL; - reads it from stdin.")],
    format_: Annotated[
        Format, typer.Option("--format", help="The form of the rows: table, csv, json (a line for each), or parquet.")
    ] = Format.TABLE,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the rows to a file; needed for parquet."),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Query tables in the lake with SQL, at any branch, tag or commit.

    A table is a file, or several that match a pattern: 'graveler://REPOSITORY/REF/PATH', in Parquet, CSV or JSON. REF is as
    everywhere a branch with its uncommitted changes, a tag, a commit, main~1: so one query can compare two states. DuckDB runs
    it, on this machine. What COPY … TO writes is staged on its branch. Needs pip install 'graveler[sql]'.

    \b
    Examples:
      graveler sql "FROM 'graveler://quickstart/main/lakes.parquet' LIMIT 10"
      graveler sql "FROM 'graveler://quickstart/v1/data/*.csv'" --format csv
      graveler sql "COPY (SELECT 1) TO 'graveler://quickstart/dev/one.csv'"

    \b
    JSON: a line {column: value} for each row; as --format json.
    """
    format_ = Format.JSON if as_json else format_
    text = sys.stdin.read() if query == "-" else query
    if format_ is Format.PARQUET and file is None:
        raise InvalidError("Parquet is for files, not for a terminal; name one with --output FILE")
    with _connected(lake) as connection:
        last = _all_but_last(connection, text)
        if file is not None:
            _write(connection, last, format_, file.expanduser())
        elif _has_rows(last):
            _print(sys.stdout, connection.execute(last), format_)
        else:
            connection.execute(last)


@contextmanager
def _connected(named: "Named | None") -> "Iterator[duckdb.DuckDBPyConnection]":
    from graveler.duckdb import connect_noting
    from graveler.sdk.lake import Lake

    with Lake(open_lake(named), user_name()) as lake:
        connection, noted = connect_noting(lake)
        with connection, _explained(noted):
            yield connection


@contextmanager
def _explained(noted: "list[GravelerError]") -> Iterator[None]:
    """Turn DuckDB's errors into ours. Where the lake refused something, DuckDB's error is the text of a traceback: then that one
    of the ``noted`` errors which is in it is raised instead."""
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:
        text = str(error).strip()
        for refused in reversed(noted):
            if str(refused)[:_RECOGNIZED] in text:
                raise refused from None
        if "No files found that match" in text:
            raise NotFoundError(text) from None
        unavailable = isinstance(error, duckdb.IOException | OSError)
        raise (UnavailableError if unavailable else InvalidError)(text) from None


def _all_but_last(connection: "duckdb.DuckDBPyConnection", text: str) -> "duckdb.Statement":
    """Run all statements but the last one, which is returned."""
    statements = connection.extract_statements(text)
    if not statements:
        raise InvalidError("the query is empty; write a statement of SQL, such as SELECT 1")
    for statement in statements[:-1]:
        connection.execute(statement)
    return statements[-1]


def _has_rows(statement: "duckdb.Statement") -> bool:
    """Return whether a statement returns rows, rather than change something and count."""
    import duckdb

    return statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]


def _print(stream: TextIO, result: "duckdb.DuckDBPyConnection", form: Format) -> None:
    """Print the rows of a query that was run."""
    names = [column[0] for column in result.description or ()]
    screen = Screen(stream)
    if form is Format.TABLE:
        _print_table(screen, names, result.fetchmany(_SHOWN + 1))
    elif form is Format.JSON:
        for row in _rows(result):
            screen.json({name: _plain(value) for name, value in zip(names, row, strict=True)})
    else:
        import csv

        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        for row in _rows(result):
            writer.writerow("" if value is None else _plain(value) for value in row)


def _print_table(screen: Screen, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    shown = [["NULL" if value is None else screen.safe(str(value)) for value in row] for row in rows[:_SHOWN]]
    kinds = [{type(row[at]) for row in rows} - {type(None)} for at in range(len(names))]
    is_number = [bool(each) and each <= _NUMBERS for each in kinds]
    heads = [screen.safe(name) for name in names]
    widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)]
    for line, styles in ((heads, ("bold",)), *((row, ()) for row in shown)):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        text = "  ".join(cells).rstrip()
        screen.line(screen.paint(text, *styles) if styles else text)
    if len(rows) > _SHOWN:
        screen.line(screen.paint(f"the first {count(_SHOWN, 'row')}; --format csv prints all", "dim"))


def _rows(result: "duckdb.DuckDBPyConnection") -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(_TOGETHER):
        yield from rows


def _plain(value: Any) -> Any:
    """Return a value that JSON has: numbers, texts, lists and objects; everything else as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)


def _write(connection: "duckdb.DuckDBPyConnection", last: "duckdb.Statement", form: Format, file: Path) -> None:
    """Run a query, and write its rows to a file, which appears as a whole."""
    from graveler.temporary import file_beside

    if not _has_rows(last):
        raise InvalidError("the last statement returns no rows to write; leave --output out")
    with file_beside(file) as (opened, temporary):
        opened.close()
        if form is Format.PARQUET:
            connection.sql(last).write_parquet(str(temporary))
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as text:
                _print(text, connection.execute(last), form)
        temporary.replace(file)
    output().line(f"wrote {output().safe(str(file))}")
