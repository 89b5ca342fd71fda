"""Running queries on a connection of DuckDB that knows a lake: its files, and its history."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

from graveler.duckdb import connect_noting
from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.extras import not_installed
from graveler.sdk.query import Parameters
from graveler.sql.calls import Call, rewritten

if TYPE_CHECKING:
    import duckdb

    from graveler.sdk.lake import Lake

T = TypeVar("T")

_TOGETHER: Final = 1000
_AGAIN: Final = 0.1
"""Seconds after which a query that goes on is interrupted again."""
_QUOTED: Final = "\n\nLINE "
"""What comes before the line of the query that DuckDB quotes."""
_RECOGNIZED: Final = 60
"""Characters by which an error is recognized in another one's text."""


class Session:
    """A connection of DuckDB to a lake. For one thread at a time. Unless ``narrowed``, table functions read all paths."""

    def __init__(self, lake: "Lake", *, narrowed: bool = True) -> None:
        """:class:`UnavailableError` if a library is missing. No request."""
        self._lake = lake
        self._narrowed = narrowed
        self.connection, self._noted = connect_noting(lake)
        self.connection.execute("SET TimeZone = 'UTC'")
        self._views: tuple[Call, ...] = ()
        self._interrupted = False

    def close(self) -> None:
        """Close the connection. One that was interrupted may refuse; it ends with the process."""
        import duckdb

        with suppress(duckdb.Error) if self._interrupted else nullcontext():
            self.connection.close()

    def statements(self, query: str) -> "list[duckdb.Statement]":
        """Return the statements of a text, at least one. :class:`InvalidError` for text that is no SQL."""
        with self.explained():
            found = self.connection.extract_statements(query)
        if not found:
            raise InvalidError("the query is empty; write a statement of SQL, such as SELECT 1")
        return found

    def prepared(self, statement: "duckdb.Statement") -> "duckdb.Statement":
        """Return a statement with views in the place of table functions, which are there until the next call. Cost: resolving
        their refs. :class:`InvalidError` for wrong arguments, :class:`RefNotFoundError` and other errors of the lake."""
        for call in self._views:
            self.connection.unregister(call.view)
        self._views = ()
        try:
            change = rewritten(statement.query, narrowed=self._narrowed and self._has_no_collation())
            if not change.calls:
                return statement
            from graveler.sql.sources import Sources
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("SQL over history", error.name, "sql")) from None
        sources = Sources(self._lake, self._noted)
        for call in change.calls:
            self.connection.register(call.view, sources.of(call))
        self._views = change.calls
        return self.statements(change.text)[0]

    def all_but_last(self, query: str) -> "duckdb.Statement":
        """Run all statements of a text but the last one, which is returned."""
        *others, last = self.statements(query)
        for statement in others:
            self.execute(statement)
            with self.explained():
                while self.connection.fetchmany(_TOGETHER):
                    """Its rows are nobody's, but the statement has to end."""
        return last

    def relation(
        self, statement: "duckdb.Statement", parameters: Parameters | None = None
    ) -> "duckdb.DuckDBPyRelation | None":
        """Return what a statement of :meth:`prepared` returns, to be computed when it is read; run one that returns no rows, and
        return None. Errors as those of :meth:`execute`."""
        with self.explained():
            if has_rows(statement):
                return self.connection.sql(statement, params=parameters)
            self.connection.execute(statement, parameters)
        return None

    def execute(self, statement: "duckdb.Statement", parameters: Parameters | None = None) -> None:
        """Run a statement; the connection has its result. Errors as :meth:`explained` and :meth:`prepared` say."""
        ready = self.prepared(statement)
        with self.explained():
            self.connection.execute(ready, parameters)

    def interruptibly(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, which uses this session on a thread of its own meanwhile: DuckDB does not notice Ctrl-C.
        ``KeyboardInterrupt`` after Ctrl-C, when the query has ended; the session can only be closed then."""
        import duckdb

        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised below
                future.set_exception(error)

        thread = Thread(target=run, daemon=True)  # which the process does not wait for, if it is interrupted again
        try:
            thread.start()
            return future.result()
        except KeyboardInterrupt:
            self._interrupted = True
            while (
                thread.is_alive()
            ):  # an interrupt between two statements has no effect, and one within a short call fails
                with suppress(duckdb.Error):
                    self.connection.interrupt()
                thread.join(_AGAIN)
            raise

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn DuckDB's errors into ours. Where the lake refused something, DuckDB's error has only the text: then that error of
        the lake is raised instead."""
        import duckdb

        self._noted.clear()
        try:
            yield
        except (duckdb.Error, OSError) as error:
            text = str(error).strip()
            for refused in reversed(self._noted):
                if str(refused)[:_RECOGNIZED] in text:
                    raise refused from None
            for call in self._views:
                text = text.replace(call.view, call.function)
            text = " ".join(text.partition(_QUOTED)[0].split())
            if "No files found that match" in text:
                raise NotFoundError(text) from None
            unavailable = isinstance(error, duckdb.IOException | OSError)
            raise (UnavailableError if unavailable else InvalidError)(text) from None

    def _has_no_collation(self) -> bool:
        """Return whether texts are compared by their bytes."""
        return self.connection.execute("SELECT current_setting('default_collation')").fetchall() == [("",)]


def has_rows(statement: "duckdb.Statement") -> bool:
    """Return whether a statement returns rows, rather than change something and count."""
    import duckdb

    return statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
