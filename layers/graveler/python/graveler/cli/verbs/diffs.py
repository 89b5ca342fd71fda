"""The verb that compares: two commits, or a branch and what is not committed on it; objects, lines of text, rows of tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli import completion
from graveler.cli.changed_objects import Patch, Stat, patches_of, show_changes
from graveler.cli.locations import open_lake, open_repository, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.pager import NoPager, paged
from graveler.cli.sums import show_summary
from graveler.cli.table_changes import TableChanges, changes_without_files
from graveler.cli.terminal import Screen, output, warn
from graveler.cli.uris import RefURI, Sides, parse_sides
from graveler.cli.values import change_summary, marked, plain
from graveler.cli.verbs.changes import Folders, PathPrefix, Summarize
from graveler.errors import InvalidError
from graveler.values.paging import items
from graveler.values.reserved_paths import FILES

if TYPE_CHECKING:
    from graveler.lake.reading.summary import Summary
    from graveler.model import Change, Page
    from graveler.remote.any_repository import AnyRepository
    from graveler.sdk.rows import RowDiff
    from graveler.sql.rowdiff.differences import RowDifference

_PAGE = 1000


def diff(
    old: Annotated[
        str | None,
        typer.Argument(
            metavar="A..B|A|PATH",
            help="lakefs://REPOSITORY/A..B, or A's URI; or a path with uncommitted changes. [default: all of the default branch]",
            autocompletion=completion.branches,
        ),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="B|PATH",
            help="A ref in the same repository, or its URI; behind A..B, the path.",
            autocompletion=completion.other_refs,
        ),
    ] = None,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Only this object, or what is in this folder.")
    ] = None,
    three_dot: Annotated[
        bool, typer.Option("--three-dot", help="Show what B changed since its common base with A, like A...B.")
    ] = False,
    prefix: PathPrefix = "",
    folders: Folders = False,
    summary: Summarize = False,
    stat: Stat = False,
    patch: Patch = False,
    files: Annotated[
        bool, typer.Option("--files", help="Show the files of Iceberg tables one by one, not the tables.")
    ] = False,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="PATH",
            help="Compare the rows of a table: a file, a folder, a pattern, or Iceberg's.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="With --rows: a column that tells rows apart; repeatable."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="With --rows: the most memory to use, 1GB by default; the rest goes to files."
        ),
    ] = None,
    no_pager: NoPager = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed from one commit to another, or what is not committed yet.

    Between two refs, uncommitted changes are not included. With a PATH alone, or with nothing, it shows the uncommitted changes
    of a branch, as `graveler status` does.

    An Iceberg table is one line: rows and files that were added and removed, and the columns that changed. With --files, --stat,
    --patch or --folders its files are objects like others.

    With --rows, compare the rows of a table in Parquet, CSV or JSON, or of an Iceberg table: whole rows, which are added or
    removed; with --key, rows with equal keys are one row, which may have changed. Needs pip install 'graveler[sql]'.

    \b
    Examples:
      graveler diff lakefs://quickstart/main..experiment
      graveler diff lakefs://quickstart/main...experiment    (what a merge brings)
      graveler diff lakefs://quickstart/v1 main data/ --folders
      graveler diff lakefs://quickstart/v1 main --summary --folders
      graveler diff lakefs://quickstart/v1 main -p notes.md
      graveler diff lakefs://quickstart/main/notes.md -p     (not committed)
      graveler diff lakefs://quickstart/v1 main --rows lakes.parquet
      graveler diff lakefs://quickstart/v1 main --rows 'data/*.csv' --key id
      graveler diff lakefs://quickstart/v1 main --rows data/ --memory-limit 8GB
      graveler diff lakefs://quickstart/v1 main --rows shop.orders --key id

    \b
    JSON: a line {type, path, before, after} for each, in path order;
      type is added, removed, changed or prefix_changed;
      before and after are objects as in `stat`, or null. With --patch, also
      patch: a text, or null if an object is binary or larger than 256 KiB,
      or too many lines differ. An Iceberg table also has table: {name, files,
      columns, properties}; files is {added_files, added_rows, removed_files,
      removed_rows, added_delete_files, added_deletes, removed_delete_files,
      removed_deletes}, or null if manifests are gone; columns are {before,
      after}, properties names.
      With --summary, a line {type, path, added, added_bytes, removed,
      removed_bytes, changed, changed_bytes_before, changed_bytes_after} for
      each folder (type prefix), objects in none (direct), and all (total).
      With --rows, a line {type, key, before, after} for each row, whose
      values are objects {column: value} or null; before these, a line
      {type, column, before, after} for each column of another type
      (column_added, column_removed, column_changed). Decimals, dates and
      times are texts, bytes hexadecimal digits; "NaN", "Infinity" and
      "-Infinity" are texts too. Integers have all their digits.
    """
    sides = parse_sides(old, new, path, from_base=three_dot)
    if sides.path and prefix:
        raise InvalidError(f"the path {sides.path!r} and --prefix {prefix!r} both choose objects; give one of them")
    if rows is not None and (folders or summary or prefix or sides.path or stat or patch):
        raise InvalidError(
            "--rows compares one table; leave out PATH, --prefix, --folders, --summary, --stat and --patch"
        )
    if (stat or patch) and (folders or summary):
        raise InvalidError("--stat and --patch show single objects; leave out --folders and --summary")
    if summary and sides.path and not sides.path.endswith("/"):
        raise InvalidError(
            f"--summary sums up a folder; write the path with a slash at its end, {sides.path!r} as {sides.path + '/'!r}"
        )
    if key and rows is None:
        raise InvalidError("--key is for --rows PATH, the table whose rows are compared")
    if memory_limit is not None and rows is None:
        raise InvalidError("--memory-limit is for --rows PATH, the table whose rows are compared")
    if rows is not None and sides.new is None:
        raise InvalidError(
            f"--rows compares two commits; name them, as in {RefURI(sides.repository, sides.old)}..OTHER"
        )
    repository = open_repository(lake, sides.repository)
    comparison = _comparison(repository, sides)
    if rows is not None:
        from graveler.sdk.lake import Lake  # rows need DuckDB

        limit = {} if memory_limit is None else {"memory_limit": memory_limit}
        with Lake(open_lake(lake), user_name()) as opened:
            base = opened.repository(sides.repository).ref(comparison.base())
            differences = base.diff_rows(comparison.after, rows, keys=key or (), **limit)
            with differences, paged(direct=no_pager, as_json=as_json) as screen:
                _show_rows(screen, differences)
        return
    cut = "/" if folders else ""
    if summary:
        folder = sides.path or prefix
        totals = comparison.summary(prefix=folder, delimiter=cut)
        show_summary(output(as_json=as_json), totals, folder, comparison.nothing)
        return
    folds = not (files or folders or stat or patch or sides.path or prefix.startswith(FILES.decode()))
    if folds:
        changes = changes_without_files(comparison.page, prefix)
    elif sides.path:
        changes = _changes_at(comparison.page, sides.path, cut)
    else:
        changes = _changes_below(comparison.page, prefix, cut)
    start = next(changes, None)
    patches = patches_of(repository, comparison.base(), comparison.after) if patch and start is not None else None
    with paged(direct=no_pager, as_json=as_json) as screen:
        whole = () if start is None else chain((start,), changes)
        tables = TableChanges(repository, comparison.base, comparison.after) if folds else None
        show_changes(screen, whole, comparison.nothing, stat=stat, patches=patches, tables=tables)
    if start is None and sides.may_be_ref:
        _warn_of_ref(repository, sides)


@dataclass(frozen=True)
class _Comparison:
    """Two states of a repository. ``base`` returns the ref of the earlier one, ``after`` is that of the later one; ``nothing``
    says that they do not differ."""

    page: "Callable[..., Page[Change]]"
    summary: "Callable[..., Summary]"
    base: Callable[[], str]
    after: str
    nothing: str


def _comparison(repository: "AnyRepository", sides: Sides) -> _Comparison:
    if sides.new is None:
        branch = sides.old
        page, summary = partial(repository.uncommitted, branch), partial(repository.uncommitted_summary, branch)
        return _Comparison(page, summary, lambda: repository.branch(branch).commit_id, branch, "no uncommitted changes")
    # Both are pinned, so that a branch that moves meanwhile does not mix two diffs.
    start, end = (repository.commit_of(ref).id for ref in (sides.old, sides.new))
    nothing = "no differences"
    if not sides.from_base:
        page, summary = partial(repository.diff, start, end), partial(repository.diff_summary, start, end)
        return _Comparison(page, summary, lambda: start, end, nothing)

    def base() -> str:
        common = repository.merge_base(start, end)
        if common is None:
            raise InvalidError(f"{sides.old!r} and {sides.new!r} have no common history; compare them with two dots")
        return common.id

    page, summary = partial(repository.compare, start, end), partial(repository.compare_summary, start, end)
    return _Comparison(page, summary, base, end, nothing)


def _changes_below(page: "Callable[..., Page[Change]]", prefix: str, delimiter: str) -> "Iterator[Change]":
    return items(lambda after: page(prefix=prefix, after=after, delimiter=delimiter, amount=_PAGE))


def _changes_at(page: "Callable[..., Page[Change]]", path: str, delimiter: str) -> "Iterator[Change]":
    """Yield the change of the object with this path, and those below it as a folder."""
    if not path.endswith("/"):
        for change in page(prefix=path, amount=1).results:  # the first path that starts so
            if change.path == path:
                yield change
        path += "/"
    yield from _changes_below(page, path, delimiter)


def _warn_of_ref(repository: "AnyRepository", sides: Sides) -> None:
    """Warn if a path without a change is the name of a ref, which the user may have meant, or nothing has this path."""
    from graveler.cli.hints import path_taken_for

    branch = RefURI(sides.repository, sides.old)
    remedy = f"`graveler diff {branch}..{sides.path}` compares with that ref"
    if warning := path_taken_for(repository, branch, sides.path, remedy):
        warn(warning)


def _show_rows(screen: Screen, differences: "RowDiff") -> None:
    for column in differences.columns:
        kind = "added" if column.before is None else "removed" if column.after is None else "changed"
        screen.answer(
            {"type": f"column_{kind}", "column": column.name, "before": column.before, "after": column.after},
            marked(screen, kind, f"column {column.name} {_turned(column.before, column.after)}"),
        )
    for row in differences:
        if screen.as_json:
            screen.json({name: plain(value) for name, value in row._asdict().items()})
        else:
            screen.line(marked(screen, row.type, _row_text(row)))
    total = change_summary({kind: getattr(differences, kind) for kind in ("added", "removed", "changed")})
    screen.note(screen.paint(f"rows: {total}" if total else "no differences between rows", "dim"))


def _row_text(row: "RowDifference") -> str:
    """Return ``id=1  sum: 2 -> 3``: the key, and what is different; of an added or removed row, all."""
    key, before, after = row.key or {}, row.before or {}, row.after or {}
    cells = [f"{name}={_shown(value)}" for name, value in key.items()]
    for name in before or after:
        if name in key:
            continue
        if row.type != "changed":
            cells.append(f"{name}={_shown((before or after)[name])}")
        elif not _is_same(before[name], after[name]):
            cells.append(f"{name}: {_turned(_shown(before[name]), _shown(after[name]))}")
    return "  ".join(cells) or "{}"  # a row of JSON without columns


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are the same in a table: NaN is equal to itself, and of JSON's values 1 is not 1.0."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(_is_same(item, other[name]) for name, item in value.items())
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return bool(value == other or (value != value and other != other))


def _turned(before: str | None, after: str | None) -> str:
    return " -> ".join(type_name for type_name in (before, after) if type_name is not None)


def _shown(value: object) -> str:
    return "NULL" if value is None else str(value)
