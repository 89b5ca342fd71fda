"""Result of ``lake.sql``: rows, or an Arrow, pandas or Polars table."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from graveler.errors import GravelerError, InvalidError, UnavailableError
from graveler.sdk.frames import Frames
from graveler.system.extras import not_installed
from graveler.system.tracebacks import are_short, short_tracebacks, shortened

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from graveler.sql.session import Parameters, Session


@short_tracebacks("following")
class Result(Frames, Iterator[tuple[Any, ...]]):
    """Rows of a query, read lazily. Iterate, or call one ``to_…`` method once. Statements that return no rows have already run.
    Closing it, or the end of its ``with`` block, ends the query; so does Ctrl-C, after which there is nothing to read. For one
    thread at a time."""

    _session: "Session"

    def __init__(
        self, session: "Session", statement: "duckdb.Statement", parameters: "Parameters | None" = None
    ) -> None:
        """Errors as those of :meth:`Session.execute`."""
        self._session = session
        self._statement = session.prepared(statement)
        self._parameters = parameters
        self._relation = session.relation(self._statement, parameters)
        self.columns: tuple[str, ...] = () if self._relation is None else tuple(self._relation.columns)
        """The names of the columns; none of a statement that returns no rows."""
        self._rows = self._following()
        self._ahead: deque[tuple[Any, ...]] = deque()
        """Rows that were shown, and not taken."""
        self._begun = self._failed = False

    def __next__(self) -> tuple[Any, ...]:
        if self._failed:
            raise InvalidError("reading the rows of this query failed before; run the query again")
        self._begun = True
        if self._ahead:
            return self._ahead.popleft()
        try:
            return next(self._rows)
        except StopIteration:
            raise
        except GravelerError as error:
            self._failed = True  # and is not at the end of its rows
            __tracebackhide__ = are_short()
            raise shortened(error)  # noqa: B904 - the same error
        except BaseException:
            self._failed = True
            raise

    def following(self, amount: int) -> list[tuple[Any, ...]]:
        """Return the next rows, ``amount`` of them or all, which are still to come afterwards. It runs the query, unless it runs
        already. Errors as :meth:`fetchall`."""
        if not self._failed:
            try:
                self._ahead.extend(islice(self._rows, max(0, amount - len(self._ahead))))
            except BaseException:
                self._failed = True
                raise
        return list(islice(self._ahead, amount))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that have yet to come."""
        return list(self)

    def to_arrow(self) -> "pa.RecordBatchReader":
        """Return the rows as Arrow record batches. Errors may come as batches are read. :class:`UnavailableError` without
        pyarrow, :class:`InvalidError` if some rows were taken one by one."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("an Arrow table", error.name, "sql")) from None
        if self._begun:
            raise InvalidError("rows of this query were taken one by one; run the query again for all of them together")
        if self._relation is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        with self._session.explained():
            reader = self._session.interruptibly(self._relation.to_arrow_reader)
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def close(self) -> None:
        """End the query."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return the next 20 rows as a table of text, which is what a terminal shows. Cost: the query, unless it runs already."""
        from graveler.sdk.display_tables import result_table  # for terminals

        return result_table(self.columns, self.following).text()

    def _repr_html_(self) -> str:
        from graveler.sdk.display_tables import result_table  # for notebooks

        return result_table(self.columns, self.following).html()

    def _following(self) -> Iterator[tuple[Any, ...]]:
        if self._relation is None:
            return
        if self._statement.type.name == "SELECT":
            self._session.run(self._statement, self._parameters)
            while rows := self._session.fetched():
                yield from rows
        else:
            yield from self._relation.iter_rows()  # which it has already, and running it again would do all again

    def _batches(self, reader: "pa.RecordBatchReader") -> "Iterator[pa.RecordBatch]":
        while True:
            with self._session.explained():
                batch = self._session.interruptibly(lambda: next(reader, None))
            if batch is None:
                return
            yield batch


def result_of(session: "Session", query: str, parameters: "Parameters | None" = None) -> Result:
    """Return the result of a query's last statement, which takes the parameters; the others run before. An error closes the
    session."""
    try:
        return Result(session, session.all_but_last(query), parameters)
    except BaseException:
        session.close()
        raise
