"""Metadata of a table or a view while a commit changes them: a copy of what changes, and notes about what was added."""

from typing import Any

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document


class Draft:
    """Metadata under change. ``fields`` is a copy of the base's top level; a list or a map in it is copied at its first change,
    and its items are replaced, never changed. So the base stays as it is, and a commit costs only what it changes.

    ``time_ms`` is the time of the commit, ``last_added`` the ID of the part that was last added to a list of the top level.
    """

    def __init__(self, base: Document, time_ms: int) -> None:
        self.fields = dict(base)
        self.time_ms = time_ms
        self.changed = False
        self.last_added: dict[str, int] = {}
        self._copied: set[str] = set()

    def put(self, name: str, value: object) -> None:
        """Set a field of the top level, and note the change if it had another value."""
        if self.fields.get(name) != value:
            self.fields[name] = value
            self.changed = True

    def change_list(self, name: str) -> list[Any]:
        """Return a list of the top level for a change: a copy, the same one each time."""
        if name not in self._copied:
            self.replace_list(name, list(self.fields.get(name) or ()))
        self.changed = True
        items: list[Any] = self.fields[name]
        return items

    def change_map(self, name: str) -> dict[str, Any]:
        """Return a map of the top level for a change: a copy, the same one each time."""
        if name not in self._copied:
            self.fields[name] = dict(self.fields.get(name) or {})
            self._copied.add(name)
        self.changed = True
        items: dict[str, Any] = self.fields[name]
        return items

    def replace_list(self, name: str, items: list[Any]) -> None:
        """Set a list of the top level, which nobody else holds."""
        self.fields[name] = items
        self._copied.add(name)
        self.changed = True

    def resolve_id(self, name: str, part_id: int, words: str) -> int:
        """Return the ID that an update names: -1 stands for the part that this commit added last, or for the equal part that the
        list already had. :class:`InvalidError` for -1 if the commit has added none."""
        if part_id != -1:
            return part_id
        last = self.last_added.get(name)
        if last is None:
            raise InvalidError(f"Cannot set last added {words}: no {words} has been added; name its ID, or add one")
        return last


class TableDraft(Draft):
    """A table's metadata under change. ``is_new`` says that the base is an empty table, ``updated_ms`` is the latest time of the
    commit's snapshots, which takes precedence over ``time_ms``."""

    def __init__(self, base: Document, time_ms: int, is_new: bool) -> None:
        super().__init__(base, time_ms)
        self.is_new = is_new
        self.base_time_ms: int = base["last-updated-ms"] or 0
        self.updated_ms: int | None = None
        self.defaults_changed = False
        """Whether the commit changed which schema is current, or which spec or sort order is the default."""
        self.added_snapshots: dict[int, Document] = {}
        self.main_snapshots: list[int] = []
        """The snapshots that were current in this commit, in their order."""
        self.removed_snapshots: list[Document] = []
        self._indexes: dict[str, dict[int, Document]] = {}
        self._changed_indexes: set[str] = set()

    @property
    def version(self) -> int:
        """The format version."""
        version: int = self.fields["format-version"]
        return version

    def by_snapshot(self, name: str) -> dict[int, Document]:
        """Return the parts of a list, which are snapshots or belong to one, by its ID, in their order. So each of many updates
        costs its own change only."""
        if name not in self._indexes:
            self._indexes[name] = {part["snapshot-id"]: part for part in self.fields.get(name) or ()}
        return self._indexes[name]

    def change_by_snapshot(self, name: str) -> dict[int, Document]:
        """Return the same for a change, which :meth:`write_indexes` puts into ``fields``."""
        self.changed = True
        self._changed_indexes.add(name)
        return self.by_snapshot(name)

    def write_indexes(self) -> None:
        """Put lists that changed by snapshot into ``fields``."""
        for name in self._changed_indexes:
            self.fields[name] = list(self._indexes[name].values())

    def note_time(self, time_ms: int) -> None:
        """Note the time of a snapshot that is added or set in this commit."""
        self.updated_ms = time_ms if self.updated_ms is None else max(self.updated_ms, time_ms)

    def commit_time_ms(self) -> int:
        """Return ``last-updated-ms`` of the result: never before the base's, since readers refuse logs that go back in time."""
        return max(self.base_time_ms, self.time_ms if self.updated_ms is None else self.updated_ms)


class ViewDraft(Draft):
    """A view's metadata under change. ``added_versions`` are those of this commit by ID, ``log_entry`` is what its last change of
    the current version adds to the log."""

    def __init__(self, base: Document, time_ms: int) -> None:
        super().__init__(base, time_ms)
        self.added_versions: dict[int, Document] = {}
        self.log_entry: Document | None = None
