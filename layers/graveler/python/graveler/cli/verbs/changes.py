"""The verbs for uncommitted changes and commits: status, commit, diff."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli import completion
from graveler.cli.interrupts import moving
from graveler.cli.locations import open_lake, open_repository, user_name
from graveler.cli.options import OF_USE, AsJson, LakeOption, Message, Metadata, Quiet, parse_metadata
from graveler.cli.pager import NoPager, paged
from graveler.cli.progress import MANY, counting
from graveler.cli.sums import show_summary
from graveler.cli.terminal import Screen, output, warn
from graveler.cli.uris import SCHEME, parse_branch, parse_two_refs
from graveler.cli.values import (
    SHORT,
    change_json,
    change_line,
    change_summary,
    commit_json,
    commit_line,
    count,
    marked,
    plain,
)
from graveler.errors import GravelerError, InvalidError
from graveler.paging import items

if TYPE_CHECKING:
    from graveler.lake.reading.outside_files import OutsideFiles
    from graveler.model import Change
    from graveler.sdk.rows import RowDiff, RowDifference

_PAGE = 1000
_SHOWN_FILES = 5

PathPrefix = Annotated[str, typer.Option("--prefix", metavar="PATH", help="Only paths that start with this.")]
Folders = Annotated[bool, typer.Option("--folders", help="Show one line per folder, for all that is in it.")]
DefaultBranch = Annotated[
    str | None,
    typer.Argument(
        metavar="BRANCH",
        help=f"lakefs://REPOSITORY/BRANCH {OF_USE}",
        autocompletion=completion.branches,
    ),
]
Summarize = Annotated[bool, typer.Option("--summary", help="Only count objects and bytes; with --folders, per folder.")]


def status(
    branch: DefaultBranch = None,
    prefix: PathPrefix = "",
    folders: Folders = False,
    summary: Summarize = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a branch's uncommitted changes.

    In a lake in a folder, also compare size and time of imported and linked files on this machine with the branch's commit. Of a
    large commit only a part is looked at, and the last line says how much; `graveler fsck` looks at everything.

    \b
    Examples:
      graveler status lakefs://quickstart/main
      graveler status lakefs://quickstart/main --folders
      graveler status                      (after `graveler use`)
      graveler status lakefs://quickstart/main --summary

    \b
    JSON: a line {type, path, before, after} for each, in path order;
      type is added, removed, changed or prefix_changed;
      before and after are objects as in `stat`, or null.
      With --summary, lines as in `diff --summary`.
      A warning on stderr says that imported files have changed.
    """
    uri = parse_branch(branch)
    repository = open_repository(lake, uri.repository)
    head = repository.branch(uri.ref).commit_id
    cut = "/" if folders else ""
    screen = output()
    if not as_json:
        screen.line(f"on branch {screen.paint(uri.ref, 'bold')} at {screen.paint(head[:SHORT], 'yellow')}")
    if summary:
        totals = repository.uncommitted_summary(uri.ref, prefix=prefix, delimiter=cut)
        show_summary(screen, totals, prefix, "no uncommitted changes", as_json=as_json)
    else:
        changes = items(
            lambda after: repository.uncommitted(uri.ref, prefix=prefix, after=after, delimiter=cut, amount=_PAGE)
        )
        _show_changes(screen, changes, "no uncommitted changes", as_json=as_json)
    try:
        look = repository.look_at_outside_files(head, prefix)
    except GravelerError as error:
        warn(f"imported files could not be looked at: {error}")
        return
    if look is not None and look.files:
        _show_outside_files(screen, look, uri.repository, as_json=as_json)


def commit(
    branch: DefaultBranch = None,
    *,
    message: Message,
    meta: Metadata = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Commit even if nothing changed.")] = False,
    quiet: Quiet = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Commit a branch's uncommitted changes.

    Commits either all of them or none. Changes that are staged meanwhile go into the next commit.

    \b
    Examples:
      graveler commit lakefs://quickstart/main -m "June's numbers"
      graveler commit lakefs://quickstart/main -m "Nightly" --meta job=etl-7

    JSON: one document {id, parents, message, committer, created, metadata, generation, metarange_id}.
    """
    if not message.strip():
        raise InvalidError("the commit message is empty; say what changed, as in -m 'Add June'")
    uri = parse_branch(branch)
    metadata = parse_metadata(meta)
    repository = open_repository(lake, uri.repository)
    doing = f"committing {uri.ref}"
    with moving(repository, uri.ref), counting(doing, noun="changes", moves=False, least=MANY, quiet=quiet) as progress:
        made = repository.commit(
            uri.ref, message, committer=user_name(), metadata=metadata, allow_empty=allow_empty, progress=progress
        )
    screen = output()
    if as_json:
        screen.json(commit_json(made))
        return
    screen.line(commit_line(screen, f"committed {uri.ref}", made))


def diff(
    left: Annotated[
        str,
        typer.Argument(
            metavar="A..B|A", help="lakefs://REPOSITORY/A..B, or A's URI.", autocompletion=completion.branches
        ),
    ],
    right: Annotated[str | None, typer.Argument(metavar="B", help="A ref in the same repository, or its URI.")] = None,
    three_dot: Annotated[
        bool, typer.Option("--three-dot", help="Show what B changed since its common base with A, like A...B.")
    ] = False,
    prefix: PathPrefix = "",
    folders: Folders = False,
    summary: Summarize = False,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="PATH", help="Compare the rows of a table: a file, a folder, or a pattern."),
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
    """Show what changed from one commit to another.

    Uncommitted changes are not included; see `graveler status`.

    With --rows, compare the rows of a table in Parquet, CSV or JSON: whole rows, which are added or removed; with --key, rows
    with equal keys are one row, which may have changed. Needs pip install 'graveler[sql]'.

    \b
    Examples:
      graveler diff lakefs://quickstart/main..experiment
      graveler diff lakefs://quickstart/main...experiment    (what a merge brings)
      graveler diff lakefs://quickstart/v1 main --prefix data/ --folders
      graveler diff lakefs://quickstart/v1 main --summary --folders
      graveler diff lakefs://quickstart/v1 main --rows lakes.parquet
      graveler diff lakefs://quickstart/v1 main --rows 'data/*.csv' --key id
      graveler diff lakefs://quickstart/v1 main --rows data/ --memory-limit 8GB

    \b
    JSON: a line {type, path, before, after} for each, in path order;
      type is added, removed, changed or prefix_changed;
      before and after are objects as in `stat`, or null.
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
    if rows is not None and (folders or summary or prefix):
        raise InvalidError("--rows compares one table; leave out --prefix, --folders and --summary")
    if key and rows is None:
        raise InvalidError("--key is for --rows PATH, the table whose rows are compared")
    if memory_limit is not None and rows is None:
        raise InvalidError("--memory-limit is for --rows PATH, the table whose rows are compared")
    two = parse_two_refs(left, right, from_base=three_dot)
    repository = open_repository(lake, two.repository)
    # Both are pinned, so that a branch that moves meanwhile does not mix two diffs.
    one, other = (repository.commit_of(ref).id for ref in (two.left, two.right))
    if rows is not None:
        from graveler.sdk.lake import Lake

        if two.from_base:
            base = repository.merge_base(one, other)
            if base is None:
                raise InvalidError(f"{two.left!r} and {two.right!r} have no common history; compare them with two dots")
            one = base.id
        with Lake(open_lake(lake), user_name()) as opened:
            limit = {} if memory_limit is None else {"memory_limit": memory_limit}
            found = opened.repository(two.repository).ref(one).diff_rows(other, rows, keys=key or (), **limit)
            with found, paged(wanted=not (no_pager or as_json)) as screen:
                _show_rows(screen, found, as_json=as_json)
        return
    cut = "/" if folders else ""
    if summary:
        summarize = repository.compare_summary if two.from_base else repository.diff_summary
        totals = summarize(one, other, prefix=prefix, delimiter=cut)
        show_summary(output(), totals, prefix, "no differences", as_json=as_json)
        return
    page_of = repository.compare if two.from_base else repository.diff
    changes = items(lambda after: page_of(one, other, prefix=prefix, after=after, delimiter=cut, amount=_PAGE))
    with paged(wanted=not (no_pager or as_json)) as screen:
        _show_changes(screen, changes, "no differences", as_json=as_json)


def _show_outside_files(screen: Screen, look: "OutsideFiles", repository: str, *, as_json: bool) -> None:
    """Report how many imported files were looked at, and on stderr those that are not as the commit has them."""
    if not as_json:
        files = f"{look.looked_at:,}" + (f" of {look.files:,}" if look.looked_at < look.files else "")
        among = "" if look.objects == look.all_objects else f" among {look.objects:,} of {look.all_objects:,} objects"
        rest = "" if look.complete else f"; `graveler fsck {SCHEME}{repository}` looks at all"
        screen.line(screen.paint(f"imported files: {files}{among} looked at, by size and time, not bytes{rest}", "dim"))
    if look.changed:
        shown = "; ".join(f"{one.path} ({one.deviation})" for one in look.examples[:_SHOWN_FILES])
        more = f"; and {look.changed - _SHOWN_FILES:,} more" if look.changed > _SHOWN_FILES else ""
        files = count(look.changed, "imported file")
        warn(f"{files} may have been changed or removed: {shown}{more}")


def _show_changes(screen: Screen, changes: "Iterable[Change]", if_none: str, *, as_json: bool) -> None:
    counts: Counter[str] = Counter()
    for change in changes:
        counts[change.type.value] += 1
        if as_json:
            screen.json(change_json(change))
        else:
            screen.line(change_line(screen, change))
    if not as_json:
        screen.line(screen.paint(change_summary(counts) or if_none, "dim"))


def _show_rows(screen: Screen, found: "RowDiff", *, as_json: bool) -> None:
    for column in found.columns:
        kind = "added" if column.before is None else "removed" if column.after is None else "changed"
        if as_json:
            types = {"before": column.before, "after": column.after}
            screen.json({"type": f"column_{kind}", "column": column.name, **types})
        else:
            screen.line(marked(screen, kind, f"column {column.name} {_turned(column.before, column.after)}"))
    for row in found:
        if as_json:
            screen.json({name: plain(value) for name, value in row._asdict().items()})
        else:
            screen.line(marked(screen, row.type, _row_text(row)))
    if not as_json:
        counts = {"added": found.added, "removed": found.removed, "changed": found.changed}
        total = change_summary(counts)
        screen.line(screen.paint(f"rows: {total}" if total else "no differences between rows", "dim"))


def _row_text(row: "RowDifference") -> str:
    """Return ``id=1  sum: 2 -> 3``: the key, and what is different; of an added or removed row, all."""
    key, before, after = (each or {} for each in (row.key, row.before, row.after))
    cells = [f"{name}={_shown(value)}" for name, value in key.items()]
    for name in before or after:
        if name in key:
            continue
        if row.type != "changed":
            cells.append(f"{name}={_shown((before or after)[name])}")
        elif not _is_same(before[name], after[name]):
            cells.append(f"{name}: {_turned(_shown(before[name]), _shown(after[name]))}")
    return "  ".join(cells) or "{}"  # a row of JSON without columns


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in a table: NaN is equal to itself, and of JSON's values 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(each, other[name]) for name, each in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other or (one != one and other != other))


def _turned(before: str | None, after: str | None) -> str:
    return " -> ".join(each for each in (before, after) if each is not None)


def _shown(value: object) -> str:
    return "NULL" if value is None else str(value)
