"""What a query of ``lake.sql`` returns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

from graveler.sdk.frames import Frames, Querying

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
"""The values of ``?`` or ``$1``, or of ``$name``."""

_TOGETHER: Final = 1000


class Session(Querying, Protocol):
    """What a result needs of :class:`graveler.sql.session.Session`, which is above it."""

    def all_but_last(self, query: str) -> "duckdb.Statement": ...
    def prepared(self, statement: "duckdb.Statement") -> "duckdb.Statement": ...
    def relation(
        self, statement: "duckdb.Statement", parameters: Parameters | None = None
    ) -> "duckdb.DuckDBPyRelation | None": ...
    def close(self) -> None: ...


class Result(Frames, Iterator[tuple[Any, ...]]):
    """The rows of a query, which runs when they are read: by a loop, or by one of the methods; by one of these, once. Closing it,
    or the end of its ``with`` block, ends the query. For one thread at a time."""

    _session: Session

    def __init__(self, session: Session, statement: "duckdb.Statement", parameters: Parameters | None = None) -> None:
        """Runs a statement that returns no rows. Errors as those of :meth:`Session.execute`."""
        self._session = session
        self._statement = session.prepared(statement)
        self._parameters = parameters
        self._relation = session.relation(self._statement, parameters)
        self.columns: tuple[str, ...] = () if self._relation is None else tuple(self._relation.columns)
        """The names of the columns; none of a statement that returns no rows."""
        self._rows = self._following()

    def __next__(self) -> tuple[Any, ...]:
        return next(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that have yet to come."""
        return list(self)

    def to_arrow(self) -> "pa.RecordBatchReader":
        """Return the rows as Arrow record batches."""
        import pyarrow as pa

        if self._relation is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        with self._session.explained():
            return self._relation.to_arrow_reader()

    def close(self) -> None:
        """End the query."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Result(columns={self.columns!r})"

    def _following(self) -> Iterator[tuple[Any, ...]]:
        if self._relation is None:
            return
        connection = self._session.connection
        with self._session.explained():
            connection.execute(self._statement, self._parameters)
        while rows := self._fetched():
            yield from rows

    def _fetched(self) -> list[tuple[Any, ...]]:
        with self._session.explained():
            return self._session.connection.fetchmany(_TOGETHER)


def result_of(session: Session, query: str, parameters: Parameters | None = None) -> Result:
    """Return the result of a query's last statement, which takes the parameters; the others run before. An error closes the
    session."""
    try:
        return Result(session, session.all_but_last(query), parameters)
    except BaseException:
        session.close()
        raise
