"""Changed Iceberg tables in a list of changed objects: a line for each, without the files of it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from graveler.cli.terminal import Json, Screen
from graveler.cli.values import change_json, document_of, marked
from graveler.values.reserved_paths import FILES, RESERVED, is_table

if TYPE_CHECKING:
    from graveler.model import Change, MergePreview, ObjectEntry, Page, TableMerge
    from graveler.remote.any_repository import AnyRepository
    from graveler.sdk.iceberg_tables import Table
    from graveler.table_format.table_differences import TableDifference

_PAGE: Final = 1000
_FILES: Final = FILES.decode()
_BEHIND_FILES: Final = f"{_FILES[:-1]}0"
"""A path behind those of the files of tables, and before all entries."""


def changes_without_files(page: "Callable[..., Page[Change]]", prefix: str) -> "Iterator[Change]":
    """Yield the changes below a prefix, without those of the files of tables, whose pages are passed over."""
    after: str | None = ""
    while after is not None:
        changes = page(prefix=prefix, after=after, amount=_PAGE)
        after = changes.next_after
        for change in changes.results:
            if change.path.startswith(_FILES):
                after = _BEHIND_FILES
                break
            yield change


class TableChanges:
    """The changes of tables from one ref to another. ``before`` returns the first one when a table has changed."""

    def __init__(self, repository: "AnyRepository", before: Callable[[], str], after: str) -> None:
        self._repository = repository
        self._before = before
        self._after = after

    def show(self, screen: Screen, change: "Change") -> bool:
        """Show the change of a table, a view or a namespace; False for any other change."""
        if not change.path.startswith(RESERVED.decode()):
            return False
        from graveler.lake.iceberg.catalog_paths import namespace_of, relation_of  # few lakes have tables

        key, kind = change.path.encode(), change.type.value
        relation, namespace = relation_of(key), namespace_of(key)
        if relation is None:
            name = f"namespace {'.'.join(namespace)}" if namespace else change.path
            screen.answer(change_json(change), marked(screen, kind, name))
        elif relation[1] == "view":
            screen.answer(change_json(change), marked(screen, kind, f"view {relation[0]}"))
        else:
            self._show_table(screen, change, str(relation[0]))
        return True

    def _show_table(self, screen: Screen, change: "Change", name: str) -> None:
        from graveler.sdk.iceberg_tables import compare_tables

        difference = compare_tables(self._table(self._before(), change.before), self._table(self._after, change.after))
        document = {**change_json(change), "table": {"name": name, **document_of(difference)}}
        line = marked(screen, change.type.value, f"table {name}")
        screen.answer(document, f"{line}  {screen.safe(_text(difference))}")

    def _table(self, ref: str, entry: "ObjectEntry | None") -> "Table | None":
        from graveler.sdk.iceberg_tables import Table

        return None if entry is None else Table(self._repository, ref, entry)


class MergedTables:
    """The Iceberg tables that both sides of a merge changed, and what each side did to them since the base."""

    def __init__(self, repository: "AnyRepository", preview: "MergePreview") -> None:
        self._repository = repository
        self._preview = preview

    def documents(self) -> list[Json]:
        """Return them for programs."""
        return [
            {**document_of(table), **{side: document_of(self._difference(table, side)) for side in _SIDES}}
            for table in self._preview.tables
        ]

    def lines(self, screen: Screen, source: str, branch: str) -> Iterator[str]:
        """Yield them for people: what happens to each table, what both sides did to it, and reasons."""
        names = {"source": f"{source} (source)", "destination": f"{branch} (destination)"}
        width = max(map(len, names.values()))
        for table in self._preview.tables:
            outcome = _OUTCOMES[table.outcome]
            colour = "red" if table.outcome == "conflict" else "green"
            yield f"table {screen.paint(screen.safe(table.name), 'bold')}: {screen.paint(outcome, colour)}"
            for side, name in names.items() if is_table(table.path.encode()) else ():
                yield f"  {screen.safe(name):<{width}}  {screen.safe(self._change(table, side))}"
            for sentence in (*(reason.sentence for reason in table.reasons), *table.notes):
                yield f"  {screen.safe(sentence)}"

    def _change(self, table: "TableMerge", side: str) -> str:
        """Return what a side did to a table, for people."""
        before, after = self._states(table, side)
        text = _text(self._difference(table, side))
        if before is None or after is None or before.name == after.name:
            return text
        renaming = f"renamed to {after.name}"
        return renaming if before.entry.address == after.entry.address else f"{renaming}, {text}"

    def _difference(self, table: "TableMerge", side: str) -> "TableDifference | None":
        """Return the changes of a side; None if the table does not exist at the base and there, and for a name that is no
        table's."""
        from graveler.sdk.iceberg_tables import compare_tables

        states = self._states(table, side)
        return compare_tables(*states) if any(states) else None

    def _states(self, table: "TableMerge", side: str) -> "tuple[Table | None, Table | None]":
        """Return a table at the base and at a side, where it may have another name since."""
        from graveler.sdk.iceberg_tables import Table, Tables

        if not is_table(table.path.encode()):
            return None, None
        states: list[Table | None] = []
        for commit_id in (self._preview.base, getattr(self._preview, side)):
            (entry,) = self._repository.stat_many(commit_id, (table.path,))
            states.append(None if entry is None else Table(self._repository, commit_id, entry))
        before, after = states
        if before is not None and (after is None or after.uuid != before.uuid):
            tables = Tables(self._repository, getattr(self._preview, side)).list()
            after = next((state for state in tables if state.uuid == before.uuid), after)
        return before, after


_SIDES: Final = ("source", "destination")
_OUTCOMES: Final = {
    "merged": "both, in one new snapshot",
    "source": "the source's, as it is",
    "destination": "the destination's, as it is",
    "conflict": "conflict",
}


def _text(difference: "TableDifference | None") -> str:
    return "not there" if difference is None else ", ".join(_parts(difference)) or "metadata"


def _parts(difference: "TableDifference") -> Iterator[str]:
    """Yield what differs between two states of a table, for people."""
    files = difference.files
    if files is None:
        yield "rows unknown, as manifests do not exist any more"
    else:
        for number, noun in (
            (files.added_rows, "+{} row"),
            (files.removed_rows, "-{} row"),
            (files.added_files, "+{} file"),
            (files.removed_files, "-{} file"),
            (files.added_deletes, "+{} deleted row"),
            (files.removed_deletes, "-{} deleted row"),
        ):
            if number:
                yield noun.format(f"{number:,}") + "s" * (number != 1)
    for column in difference.columns:
        if not column.before:
            yield f"column {column.after} added"
        elif not column.after:
            yield f"column {column.before} removed"
        else:
            yield f"column {column.before} -> {column.after}"
    if difference.properties:
        yield f"properties {', '.join(difference.properties)}"
