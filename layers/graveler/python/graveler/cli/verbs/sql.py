"""The verb for queries: sql."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from functools import partial
from glob import iglob
from itertools import chain, islice
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from graveler.cli.defaults import default, default_branch
from graveler.cli.local_files import file_named
from graveler.cli.locations import open_lake, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import Screen, output
from graveler.cli.values import count, plain
from graveler.errors import InvalidError, NotFoundError
from graveler.values.addresses import Address, without_scheme

if TYPE_CHECKING:
    import duckdb
    from duckdb.sqltypes import DuckDBPyType

    from graveler.cli.locations import Named
    from graveler.sql.session import Session

_SHOWN: Final = 200
"""Rows that a table shows at most."""
_NUMBERS: Final = frozenset((int, float, Decimal))

_TIMESTAMPS: Final = ("timestamp", "timestamp with time zone", "timestamp_ms", "timestamp_ns", "timestamp_s")
_INEXACT: Final = frozenset(("date", "interval", "time_ns", *_TIMESTAMPS))
"""Types of DuckDB whose values Python rounds or changes: it has no infinite dates, no months and no nanoseconds."""
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)\"""")
_LOCAL: Final = ("/", "./", "../", "~")
"""The beginnings of paths that can be no path of an object."""
_NESTED: Final = frozenset(("array", "list", "map", "struct", "tuple", "union"))


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
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the rows to a file; needed for parquet.", parser=file_named
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Query tables in the lake, and its history, with SQL.

    A table is a file, or several that match a pattern: 'graveler://REPOSITORY/REF/PATH', in Parquet, CSV or JSON; lakefs:// means
    the same. REF is as everywhere a branch with its uncommitted changes, a tag, a commit, main~1: so one query can compare two
    states. A path alone is a file of this machine: 'PATH' is refused if the default branch (`graveler use`) has it, too, and
    './PATH' is not. Functions return history as tables:

    \b
      objects('REPOSITORY/REF')          objects, by path
      diff('REPOSITORY', 'REF', 'REF')   what turns one commit into another
      staged('REPOSITORY/BRANCH')        uncommitted changes
      blame('REPOSITORY/REF')            the commit that last changed each object
      commits('REPOSITORY/REF')          the log, newest first
      reflog('REPOSITORY/BRANCH')        moves of a branch
      branches('REPOSITORY'), tags('REPOSITORY'), repositories()

    Conditions on a path, such as path LIKE 'data/%', limit what is read. DuckDB runs the query on this machine. What COPY … TO
    writes is staged on its branch. Needs pip install 'graveler[sql]'.

    \b
    Examples:
      graveler sql "FROM 'graveler://quickstart/main/lakes.parquet' LIMIT 10"
      graveler sql "FROM 'graveler://quickstart/v1/data/*.csv'" --format csv
      graveler sql "SELECT path, size FROM objects('quickstart/main')"
      graveler sql "FROM diff('quickstart', 'main~1', 'main')" --format json
      graveler sql "COPY (SELECT 1) TO 'graveler://quickstart/dev/one.csv'"

    \b
    JSON: a line {column: value} for each row; as --format json.
    """
    format_ = Format.JSON if as_json else format_
    text = sys.stdin.read() if query == "-" else query
    if format_ is Format.PARQUET and file is None:
        raise InvalidError("Parquet is for files, not for a terminal; name one with --output FILE")
    with _session(lake) as session:
        _expect_unambiguous(session, text)
        try:
            session.interruptibly(partial(_run, session, text, format_, None if file is None else file.expanduser()))
        except NotFoundError as error:
            raise _with_lake_path(session, text, error) from None


def _run(session: "Session", text: str, form: Format, file: Path | None) -> None:
    from graveler.sql.session import has_rows

    last = session.all_but_last(text)
    if file is not None:
        _write(session, last, form, file)
        return
    _execute(session, last, form)
    if has_rows(last, _names(session)):
        _print(sys.stdout, session, form)


def _expect_unambiguous(session: "Session", text: str) -> None:
    """Refuse a query of a file of this machine that has the relative path of an object of the default branch: after `graveler
    use`, it may be meant. No request unless such a file exists. :class:`InvalidError`."""
    quoted = {"".join(groups) for groups in _QUOTED.findall(text)}
    if not any(_is_local(name) for name in quoted if _is_relative(name)) or default() is None:
        return
    from graveler.sql.file_names import files_read  # sqlglot, only for what is a file here

    for name in files_read(text):
        if _is_relative(name) and _is_local(name) and (address := _in_default(session, name)):
            raise InvalidError(
                f"{name!r} is ambiguous: a file of this machine, and a path on the default branch; write {f'./{name}'!r} or "
                f"{address!r}"
            )


def _with_lake_path(session: "Session", text: str, error: NotFoundError) -> NotFoundError:
    """Return the error of a query without files, with the address of a path that the default branch has."""
    if type(error) is not NotFoundError or default() is None:
        return error
    from graveler.sql.file_names import files_read

    for name in files_read(text):
        if _is_relative(name) and not _is_local(name) and (address := _in_default(session, name)):
            return NotFoundError(
                f"no file of this machine is called {name!r}; the one on the default branch is {address!r}"
            )
    return error


def _is_relative(name: str) -> bool:
    return "://" not in name and not name.startswith(_LOCAL) and name != ""


def _is_local(name: str) -> bool:
    """Return whether a file of this machine has this name, or matches this pattern."""
    return any(Path(match).is_file() for match in iglob(name, recursive=True))  # noqa: PTH207 - ``..`` and all else stay


def _in_default(session: "Session", name: str) -> str:
    """Return the address of a path or a pattern on the default branch; "" if nothing is there. Cost: a lookup or a listing."""
    from graveler.filesystem.filesystem import GravelerFileSystem

    repository = default()
    if repository is None:
        return ""
    try:
        address = Address(repository.repository, default_branch(repository), name)
        exists = GravelerFileSystem(session.lake, skip_instance_cache=True).glob(without_scheme(str(address)))
    except (NotFoundError, OSError):  # the default repository or branch is gone
        return ""
    return str(address) if exists else ""


@contextmanager
def _session(named: "Named | None") -> "Iterator[Session]":
    from graveler.sdk.lake import Lake
    from graveler.sql.session import Session

    with Lake(open_lake(named), user_name()) as lake:
        session = Session(lake)
        try:
            yield session
        finally:
            session.close()


def _execute(session: "Session", last: "duckdb.Statement", form: Format) -> None:
    """Run a statement. A query's values that Python has not exactly come as DuckDB's own text."""
    ready = session.prepared(last)
    relation = session.relation(ready) if ready.type.name == "SELECT" else None
    if relation is not None:
        exact = _exact if form is Format.JSON else _flat
        kinds = [exact(kind) for kind in relation.types]
        if any(kinds):
            columns = [f"CAST(#{number} AS {kind})" if kind else f"#{number}" for number, kind in enumerate(kinds, 1)]
            names = [column.replace('"', '""') for column in relation.columns]
            shown = relation.project(
                ", ".join(f'{value} AS "{name}"' for value, name in zip(columns, names, strict=True))
            )
            [ready] = session.statements(shown.sql_query())
    session.run(ready)


def _flat(kind: "DuckDBPyType") -> str | None:
    """Return the type of text for what would be inexact or nested, else None."""
    return "VARCHAR" if kind.id in _INEXACT | _NESTED else None


def _exact(kind: "DuckDBPyType") -> str | None:
    """Return a type with texts in the place of what Python has not exactly, at any depth; None if there is nothing such."""
    if kind.id in _INEXACT:
        return "VARCHAR"
    if kind.id not in _NESTED:
        return None
    # An array also has its size.
    inner = [(name, child) for name, child in kind.children if not isinstance(child, int | list)]
    if kind.id == "union":
        inner = inner[1:]  # behind its tag
    changed = [_exact(child) for _, child in inner]
    if not any(changed):
        return None
    kinds = [new or str(child) for new, (_, child) in zip(changed, inner, strict=True)]
    if kind.id == "list":
        return f"{kinds[0]}[]"
    if kind.id == "array":
        return f"{kinds[0]}[{kind.children[1][1]}]"
    if kind.id in ("struct", "union"):
        names = [name.replace('"', '""') for name, _ in inner]
        kinds = [f'"{name}" {child}' for name, child in zip(names, kinds, strict=True)]
    return f"{kind.id}({', '.join(kinds)})"


def _print(stream: TextIO, session: "Session", form: Format) -> None:
    """Print the rows of a query that was run."""
    names, rows = _names(session), _rows(session)
    screen = Screen(stream)
    if form is Format.TABLE:
        _print_table(screen, names, list(islice(rows, _SHOWN + 1)))
    elif form is Format.JSON:
        fields = _distinct(names)
        for row in rows:
            screen.json({name: plain(value) for name, value in zip(fields, row, strict=True)})
    else:
        import csv

        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow("" if value is None else plain(value) for value in row)


def _print_table(screen: Screen, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    shown = [["NULL" if value is None else screen.safe(str(plain(value))) for value in row] for row in rows[:_SHOWN]]
    kinds = [{type(row[index]) for row in rows} - {type(None)} for index in range(len(names))]
    is_number = [bool(types) and types <= _NUMBERS for types in kinds]
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


def _names(session: "Session") -> list[str]:
    """Return the names of the columns of what was run."""
    return [column[0] for column in session.connection.description or ()]


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with ``_1``, ``_2`` and so on behind those that stood before, as DuckDB names columns of files."""
    distinct: dict[str, None] = {}
    for name in names:
        numbered = (candidate for n in numbers(1) if (candidate := f"{name}_{n}") not in names)
        distinct[next(candidate for candidate in chain((name,), numbered) if candidate not in distinct)] = None
    return list(distinct)


def _rows(session: "Session") -> Iterator[tuple[Any, ...]]:
    """Yield the rows of what was run. An error of the database is ours; one in printing them stays what it is."""
    while rows := session.fetched():
        yield from rows


def _write(session: "Session", last: "duckdb.Statement", form: Format, file: Path) -> None:
    """Run a query, and write its rows to a file, which appears as a whole."""
    from graveler.sql.session import is_query
    from graveler.system.temporary_files import file_beside

    if not is_query(last):
        raise InvalidError("the last statement returns no rows to write; leave --output out")
    if file.exists() and not file.is_file():  # it would be replaced, even a device
        raise InvalidError(f"--output {str(file)!r} is not a file, but a folder, a pipe or a device; name a file")
    with file_beside(file) as (opened, temporary):
        opened.close()
        if form is Format.PARQUET:
            ready = session.prepared(last)
            with session.explained():
                session.connection.sql(ready).write_parquet(str(temporary))
        else:
            _execute(session, last, form)
            with temporary.open("w", encoding="utf-8", newline="\n") as text:
                _print(text, session, form)
        temporary.replace(file)
    output().line(f"wrote {output().safe(str(file))}")
