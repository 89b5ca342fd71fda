"""Tables for notebooks and terminals: the next rows of listings and results, and the fields of a ref or a repository."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graveler.errors import GravelerError
from graveler.files.repository import RepositoryAccess
from graveler.model import (
    Branch,
    Change,
    ChangeType,
    Commit,
    CommonPrefix,
    ObjectEntry,
    Repository,
    Tag,
    Totals,
)
from graveler.text.markup import (
    GREEN,
    GREY,
    RED,
    YELLOW,
    Cell,
    Cells,
    Table,
    commit_fields,
    entries,
    fields,
    moment,
    short,
    size,
    subject,
    table,
    value_cell,
)
from graveler.text.readable import count, human_size
from graveler.values.paging import Pages

if TYPE_CHECKING:
    from graveler.sql.rowdiff.differences import ColumnDifference, RowDifference

Row: TypeAlias = ObjectEntry | CommonPrefix | Change | Commit | Branch | Tag | Repository
"""The values that are listed."""

ROWS: Final = 20
"""The number of rows that a table has at most."""

_MARKS: Final = {
    ChangeType.ADDED: ("+", GREEN),
    ChangeType.REMOVED: ("-", RED),
    ChangeType.CHANGED: ("~", YELLOW),
    ChangeType.PREFIX_CHANGED: ("*", GREY),
}


def listing_table(name: str, pages: Pages[Row], if_none: str = "nothing") -> str:
    """Return the table of the next rows of a listing, which it leaves there; ``if_none`` is the note of one that has none. Cost:
    the next page, unless it was requested already. An error takes the place of the rows."""
    try:
        following = pages.following(ROWS + 1)
    except GravelerError as error:
        return fields(name, {}, [str(error)])
    rows, begun = following[:ROWS], pages.begun
    if not rows:
        return fields(name, {}, ["nothing more" if begun else if_none])
    whole = len(following) == len(rows)
    if whole:
        notes = [f"the last {len(rows)}" if begun else f"{len(rows)} in all"]
    else:
        notes = [f"{'next' if begun else 'first'} {len(rows)}; more follow"]
    if sums := totals_text(_totals([row for row in rows if isinstance(row, Change)])):
        notes.append(sums if whole and not begun else f"in these rows: {sums}")
    return table(name, _headings(rows[0]), map(_cells, rows), notes)


def lake_card(name: str, user: str, first_page: "Callable[[int], Sequence[Repository]]") -> str:
    """Return the table of a lake's repositories. Cost: one page of them. An error takes the place of the rows."""
    try:
        repositories = first_page(ROWS + 1)
    except GravelerError as error:
        return fields(name, {}, [str(error)])
    rows = repositories[:ROWS]
    notes = [
        count(len(rows), "repository") if len(repositories) == len(rows) else f"first {ROWS} repositories; more follow"
    ]
    if user:
        notes.append(f"changes are made by {user}")
    return table(name, _headings(rows[0]) if rows else (), map(_cells, rows), notes)


def result_table(columns: Sequence[str], following: "Callable[[int], Sequence[Sequence[Any]]]") -> Table:
    """Return the table of the next rows of a query, which it leaves there. An error takes the place of the rows."""
    if not columns:
        return Table("result", (), (), ["the statement returns no rows"])
    try:
        fetched_rows = following(ROWS + 1)
    except GravelerError as error:
        return Table("result", (), (), [str(error)])
    rows = [[value_cell(value) for value in row] for row in fetched_rows[:ROWS]]
    notes = [
        f"first {ROWS}; more follow" if len(fetched_rows) > ROWS else "no rows" if not rows else count(len(rows), "row")
    ]
    return Table("result", _columns(columns, rows), rows, notes)


def row_diff_table(
    counts: Mapping[str, int], columns: "Sequence[ColumnDifference]", differences: "Iterable[RowDifference]"
) -> Table:
    """Return the table of the first differences between rows; ``counts`` are those of all, by type. Of rows with keys, columns
    that differ stand there twice, as they were before and after; others are left out. An error takes the place of the rows."""
    marks = {type_: _MARKS[ChangeType(type_)][0] for type_ in counts}
    sums = ", ".join(f"{marks[type_]} {number:,} {type_}" for type_, number in counts.items() if number)
    caption = f"rows: {sums or 'equal'}"
    notes = [f"column {column.name}: {column.before or 'none'} → {column.after or 'none'}" for column in columns]
    try:
        rows = list(islice(differences, ROWS))
    except GravelerError as error:
        return Table(caption, (), (), [str(error)])
    if sum(counts.values()) > ROWS:
        notes.insert(0, f"first {ROWS}; more follow")
    if not rows:
        return Table(caption, (), (), notes)
    keys, all_columns = [*(rows[0].key or ())], [*(rows[0].after or rows[0].before or ())]
    differing = [name for name in all_columns if name not in keys and any(_differs(row, name) for row in rows)]
    if equal := len(all_columns) - len(keys) - len(differing):
        notes.append(f"{count(equal, 'column')} without a difference {'is' if equal == 1 else 'are'} left out")
    sides = ("before", "after") if keys else ("",)
    names = [Cell(""), *map(Cell, keys), *(Cell(f"{name} {side}".strip()) for name in differing for side in sides)]
    cells = [_row_cells(row, keys, differing) for row in rows]
    return Table(caption, _columns([name.text for name in names], cells), cells, notes)


def _row_cells(row: "RowDifference", keys: Sequence[str], differing: Sequence[str]) -> list[Cell]:
    mark, colour = _MARKS[ChangeType(row.type)]
    cells = [Cell(mark, title=row.type, code=True, colour=colour)]
    if row.key is None:
        values = row.after if row.before is None else row.before
        return cells + [value_cell((values or {})[name]) for name in differing]
    cells += [value_cell(row.key[name]) for name in keys]
    for name in differing:
        is_changed = _differs(row, name)
        for side, colour in ((row.before, RED), (row.after, GREEN)):
            cells.append(Cell("") if side is None else value_cell(side[name], colour if is_changed else ""))
    return cells


def _differs(row: "RowDifference", name: str) -> bool:
    return row.before is None or row.after is None or row.before[name] != row.after[name]


def _columns(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Cell]:
    """Return headings, at the right of columns of numbers."""
    numeric = [
        any(cell.right for cell in column) and all(cell.right or cell.text in ("", "NULL") for cell in column)
        for column in zip(*rows, strict=True)
    ]
    return [Cell(name, right=right) for name, right in zip(names, numeric or [False] * len(names), strict=True)]


def repository_card(access: RepositoryAccess) -> str:
    """Return the fields of a repository, and the head of its default branch. Cost: of the properties, and of one commit."""

    def read() -> Mapping[str, Cells]:
        stored = access.repository.repository
        head = access.repository.commit_of(stored.default_branch)
        metadata = access.repository.metadata()
        return {
            "storage namespace": Cell(stored.namespace),
            "default branch": Cell(stored.default_branch),
            "head": [short(head.id), subject(head.message)],
            "created": Cell(f"{moment(stored.created)} UTC"),
            **({"metadata": entries(metadata)} if metadata else {}),
        }

    return _card(f"repository {access.id}", read)


def commit_card(access: RepositoryAccess, name: str, ref: str) -> str:
    """Return the fields of the commit that a ref points at. Cost: :meth:`OpenRepository.commit_of`."""
    return _card(name, lambda: _fields_of(access.repository.commit_of(ref)))


def branch_card(access: RepositoryAccess, name: str, branch: str) -> str:
    """Return the fields of a branch's last commit, and how many changes are uncommitted, if they are few. Cost:
    :meth:`OpenRepository.commit_of`, and a page of :meth:`OpenRepository.uncommitted`."""

    def read() -> Mapping[str, Cells]:
        head = _fields_of(access.repository.commit_of(branch))
        staged = len(access.repository.uncommitted(branch, amount=ROWS + 1).results)
        shown = "none" if not staged else count(staged, "change") if staged <= ROWS else f"more than {ROWS} changes"
        return {"head": head.pop("ID"), **head, "uncommitted": Cell(shown)}

    return _card(name, read)


def totals_text(totals: Totals) -> str:
    """Return ``+ 2 objects, 3.4 MiB; ~ 1 object, 5 B → 7 B``. Empty if nothing differs."""
    before, after = human_size(totals.changed_bytes_before), human_size(totals.changed_bytes_after)
    parts = (
        ("+", totals.added, human_size(totals.added_bytes)),
        ("-", totals.removed, human_size(totals.removed_bytes)),
        ("~", totals.changed, f"{before} → {after}"),
    )
    return "; ".join(f"{mark} {count(number, 'object')}, {sizes}" for mark, number, sizes in parts if number)


def _card(name: str, read: Callable[[], Mapping[str, Cells]]) -> str:
    """Return a table of fields; of an error's sentence, if they cannot be read: a handle may name what does not exist."""
    try:
        return fields(name, read())
    except GravelerError as error:
        return fields(name, {}, [str(error)])


def _fields_of(commit: Commit) -> dict[str, Cells]:
    return commit_fields(commit.id, commit.parents, commit.message, commit.committer, commit.created, commit.metadata)


def _headings(row: Row) -> Sequence[Cell]:
    if isinstance(row, ObjectEntry | CommonPrefix):
        return Cell("path"), Cell("size", right=True), Cell("modified (UTC)"), Cell("content type")
    if isinstance(row, Change):
        return Cell(""), Cell("path"), Cell("before", right=True), Cell("after", right=True)
    if isinstance(row, Commit):
        return Cell("commit"), Cell("date (UTC)"), Cell("author"), Cell("message")
    if isinstance(row, Repository):
        return Cell("name"), Cell("storage namespace"), Cell("default branch"), Cell("created (UTC)")
    return Cell("name"), Cell("commit")


def _cells(row: Row) -> Sequence[Cells]:
    if isinstance(row, ObjectEntry):
        return Cell(row.path, code=True), size(row.size), Cell(moment(row.mtime)), Cell(row.content_type)
    if isinstance(row, CommonPrefix):
        return Cell(row.path, code=True), Cell("", right=True), Cell(""), Cell("")
    if isinstance(row, Change):
        mark, colour = _MARKS[row.type]
        path = Cell(row.path, code=True, colour=colour)
        return (
            Cell(mark, title=row.type.value, code=True, colour=colour),
            path,
            _size_of(row.before),
            _size_of(row.after),
        )
    if isinstance(row, Commit):
        return short(row.id), Cell(moment(row.created)), Cell(row.committer), subject(row.message)
    if isinstance(row, Repository):
        return Cell(row.name), Cell(row.namespace), Cell(row.default_branch), Cell(moment(row.created))
    return Cell(row.name), short(row.commit_id)


def _size_of(entry: ObjectEntry | None) -> Cell:
    return size(None if entry is None else entry.size)


def _totals(changes: Sequence[Change]) -> Totals:
    """Return the sums of changes; of a prefix that stands for many, none are known."""
    total = Totals()
    for change in changes:
        before = 0 if change.before is None else change.before.size
        after = 0 if change.after is None else change.after.size
        if change.type is ChangeType.ADDED:
            total += Totals(added=1, added_bytes=after)
        elif change.type is ChangeType.REMOVED:
            total += Totals(removed=1, removed_bytes=before)
        elif change.type is ChangeType.CHANGED:
            total += Totals(changed=1, changed_bytes_before=before, changed_bytes_after=after)
    return total
