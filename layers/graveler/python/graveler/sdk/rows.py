"""The differences between two states of a table's rows."""

import json
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Final, Self

from graveler.sdk.frames import Frames
from graveler.system.tracebacks import short_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa

    from graveler.sql.rowdiff.comparison import Comparison
    from graveler.sql.rowdiff.differences import Row, RowDifference
    from graveler.text.markup import Table

_FETCHED_ROWS: Final = 1000


@short_tracebacks()
class RowDiff(Frames):
    """The differences between two states of a table, which DuckDB holds in memory and, beyond the limit, in temporary files until
    this is closed, also by the end of its ``with`` block. They can be read several times. Up to 100,000 come in the order of the
    keys, or of the rows; more in any order. For one thread at a time."""

    _exact = True

    def __init__(self, comparison: "Comparison") -> None:
        self._session = comparison.reading
        self._comparison = comparison
        counts = comparison.counts
        self.added = counts.get("added", 0)
        """The number of rows that only the second side has."""
        self.removed = counts.get("removed", 0)
        """The number of rows that only the first side has."""
        self.changed = counts.get("changed", 0)
        """The number of keys with other values; 0 where whole rows are compared."""
        self.columns = comparison.columns
        """The columns that were added, removed, or have another type."""

    def __iter__(self) -> "Iterator[RowDifference]":
        from graveler.sql.rowdiff.differences import RowDifference  # the layer of functions is without sql

        with self._session.explained():
            cursor = self._session.connection.cursor()
        try:
            with self._session.explained():
                result = cursor.execute(self._comparison.query_for_python)
                has_key = len(result.description) == len(RowDifference._fields)
            while True:
                with self._session.explained():
                    rows = result.fetchmany(_FETCHED_ROWS)
                if not rows:
                    return
                for kind, *values in rows:
                    key, before, after = map(self._row, values if has_key else (None, *values))
                    yield RowDifference(kind, key, before, after)
        finally:
            cursor.close()

    def to_arrow(self) -> "pa.RecordBatchReader":
        """Return the differences as Arrow record batches, with the columns ``type``, ``key`` (only with keys), ``before`` and
        ``after``, of which all but the first are structs. Values of JSON are JSON texts."""
        with self._session.explained():
            return self._session.connection.cursor().sql(self._comparison.query).to_arrow_reader()

    def close(self) -> None:
        """Release memory and temporary files."""
        self._comparison.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return the first 20 differences as a table of text, which is what a terminal shows."""
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> "Table":
        from graveler.sdk.display_tables import row_diff_table  # for notebooks and terminals

        counts = {"added": self.added, "removed": self.removed, "changed": self.changed}
        return row_diff_table(counts, self.columns, self)

    def _row(self, row: "Row | None") -> "Row | None":
        if row is None or not self._comparison.is_json:
            return row
        return {name: None if value is None else json.loads(value, parse_float=_number) for name, value in row.items()}


def _number(text: str) -> float | Decimal:
    """Return a number of JSON as the double that others take it for, or with all digits where it is beyond these."""
    number = float(text)
    return number if isfinite(number) else Decimal(text)
