"""Changed Iceberg tables in a list of changed objects: a line for each, without the files of it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from graveler.cli.terminal import Screen
from graveler.cli.values import change_json, document_of, marked
from graveler.values.reserved_paths import FILES, RESERVED

if TYPE_CHECKING:
    from graveler.model import Change, ObjectEntry, Page
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
        text = ", ".join(_parts(difference)) or "metadata"
        screen.answer(document, f"{marked(screen, change.type.value, f'table {name}')}  {screen.safe(text)}")

    def _table(self, ref: str, entry: "ObjectEntry | None") -> "Table | None":
        from graveler.sdk.iceberg_tables import Table

        return None if entry is None else Table(self._repository, ref, entry)


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
