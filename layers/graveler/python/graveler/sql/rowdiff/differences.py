"""The values of which differences between rows consist."""

from typing import Any, Literal, NamedTuple, TypeAlias

Row: TypeAlias = dict[str, Any]
"""Values by column."""


class RowDifference(NamedTuple):
    """A row that was added, removed or changed. ``key`` are the values of the key columns; None where whole rows are compared.
    ``before`` and ``after`` have all columns of both sides, with None in those that a side lacks."""

    type: Literal["added", "removed", "changed"]
    key: Row | None
    before: Row | None
    after: Row | None


class ColumnDifference(NamedTuple):
    """A column whose type is different: DuckDB's names of the types, None on the side that has no such column."""

    name: str
    before: str | None
    after: str | None
