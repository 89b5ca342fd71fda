"""A connection of DuckDB that knows a lake: its files, and its history."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from graveler.duckdb import connect_noting
from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.lake.text import utf8
from graveler.sql.calls import Call, rewritten
from graveler.system.extras import not_installed

if TYPE_CHECKING:
    import duckdb

    from graveler.errors import GravelerError
    from graveler.files.lake import LakeHandle

T = TypeVar("T")

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
"""The values of ``?`` or ``$1``, or of ``$name``."""

_FETCHED_ROWS: Final = 4096
"""Rows that are fetched at once."""
_INTERRUPT_PAUSE: Final = 0.1
"""Seconds after which a query that goes on is interrupted again."""
_END_OF_REASON: Final = re.compile("\n\n(LINE |Stack Trace:)")
"""The text before the line of the query that DuckDB quotes, and before the stack of DuckDB where it fails itself."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_COUNT: Final = "Count"
"""The column of a statement that changes rows: how many."""
_RECOGNIZED: Final = 60
"""Characters by which an error is recognized in another one's text."""


class Session:
    """A connection of DuckDB to a lake. For one thread at a time. Unless ``narrowed``, table functions read all paths."""

    def __init__(self, lake: "LakeHandle", *, narrowed: bool = True) -> None:
        """:class:`UnavailableError` if a library is missing. No request."""
        self._lake = lake
        self._narrowed = narrowed
        self.connection, self._noted = connect_noting(lake)
        self.connection.execute("SET TimeZone = 'UTC'")
        # Or a name in the query could mean a variable of this module.
        self.connection.execute("SET python_enable_replacements = false")
        self._views: list[Call] = []
        self._interrupted = False

    @property
    def lake(self) -> "LakeHandle":
        """The lake that the session reads."""
        return self._lake

    def close(self) -> None:
        """Close the connection. One that was interrupted may refuse; it ends with the process."""
        import duckdb

        with suppress(duckdb.Error) if self._interrupted else nullcontext():
            self.connection.close()

    def statements(self, query: str) -> "list[duckdb.Statement]":
        """Return the statements of a text, at least one. :class:`InvalidError` for text that is no SQL."""
        utf8("the query", query)
        with self.explained():
            statements = self.connection.extract_statements(query)
            if not statements:
                raise InvalidError("the query is empty; write a statement of SQL, such as SELECT 1")
            return [*statements[:-1], *self.connection.extract_statements(_without_end(statements[-1].query))]

    def prepared(self, statement: "duckdb.Statement") -> "duckdb.Statement":
        """Return a statement with views in the place of table functions; they stay, as it may have created what reads them. Cost:
        resolving their refs. :class:`InvalidError` for wrong arguments, :class:`RefNotFoundError` and other errors of the
        lake."""
        try:
            change = rewritten(
                statement.query,
                self._parses,
                narrowed=self._narrowed and self._has_no_collation(),
                number=len(self._views),
            )
            if not change.calls:
                return statement
            from graveler.sql.sources import Sources
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("SQL over history", error.name, "sql")) from None
        sources = Sources(self._lake, self._noted)
        for call in change.calls:
            self.connection.register(call.view, sources.of(call))
            self._views.append(call)
        return self.statements(change.text)[0]

    def all_but_last(self, query: str) -> "duckdb.Statement":
        """Run all statements of a text but the last one, which is returned."""
        *earlier, last = self.statements(query)
        for statement in earlier:
            self.execute(statement)
            while self.fetched():
                """Its rows are nobody's, but the statement has to end."""
        return last

    def relation(
        self, statement: "duckdb.Statement", parameters: Parameters | None = None
    ) -> "duckdb.DuckDBPyRelation | None":
        """Return what a statement of :meth:`prepared` returns: of SELECT to be computed whenever it is read, of any
        other statement, which runs once, its rows. None if it returns no rows. Errors as those of :meth:`execute`."""
        with self.explained():
            relation: duckdb.DuckDBPyRelation | None = self.interruptibly(
                lambda: self.connection.sql(statement, params=parameters)
            )
        return relation if relation is not None and has_rows(statement, relation.columns) else None

    def execute(self, statement: "duckdb.Statement", parameters: Parameters | None = None) -> None:
        """Run a statement; the connection has its result. Errors as :meth:`explained` and :meth:`prepared` say."""
        self.run(self.prepared(statement), parameters)

    def run(self, prepared: "duckdb.Statement", parameters: Parameters | None = None) -> None:
        """Run a statement of :meth:`prepared` as :meth:`execute` does."""
        with self.explained():
            self.interruptibly(lambda: self.connection.execute(prepared, parameters))

    def fetched(self) -> list[tuple[Any, ...]]:
        """Return some of the rows of what was executed, none after the last. Errors as those of :meth:`execute`."""
        with self.explained():
            return self.interruptibly(lambda: self.connection.fetchmany(_FETCHED_ROWS))

    def interruptibly(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, which uses this session on a thread of its own meanwhile: DuckDB does not notice Ctrl-C.
        ``KeyboardInterrupt`` after Ctrl-C, when the query has ended; the session can only be closed then. On any other thread
        than the main one, where Ctrl-C never comes, it works on that thread."""
        if current_thread() is not main_thread():
            return work()
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
                thread.join(_INTERRUPT_PAUSE)
            raise

    @contextmanager
    def explained(self, meaning: "Callable[[Exception, str], GravelerError | None] | None" = None) -> Iterator[None]:
        """Turn DuckDB's errors into ours. Where the lake refused something, DuckDB's error has only the text: then that error of
        the lake is raised instead. ``meaning`` may know what an error and its text are to the caller."""
        import duckdb

        self._noted.clear()
        try:
            yield
        except (duckdb.Error, OSError) as error:
            text = str(error).strip()
            for refused in reversed(self._noted):
                if str(refused)[:_RECOGNIZED] in text:
                    raise refused from None
            for call in reversed(self._views):  # the longer numbers first
                text = text.replace(call.view, call.function)
            if _TRACEBACK in text:
                text = text.splitlines()[-1].partition(": ")[2]  # an exception that DuckDB met in Python
            text = " ".join(_END_OF_REASON.split(text, maxsplit=1)[0].split())
            if meaning is not None and (meant := meaning(error, text)) is not None:
                raise meant from None
            if "No files found that match" in text:
                raise NotFoundError(text) from None
            # A stream of Arrow has only one class of errors, and DuckDB's own in the text.
            name = text.partition(" Error: ")[0].replace(" ", "")
            kind = getattr(duckdb, f"{name}Exception", type(error))
            raise (UnavailableError if issubclass(kind, duckdb.IOException | OSError) else InvalidError)(text) from None

    def _parses(self, text: str) -> bool:
        """Return whether DuckDB takes a text for SQL."""
        import duckdb

        try:
            self.connection.extract_statements(text)
        except duckdb.ParserException:
            return False
        return True

    def _has_no_collation(self) -> bool:
        """Return whether texts are compared by their bytes."""
        return self.connection.execute("SELECT current_setting('default_collation')").fetchall() == [("",)]


def _without_end(query: str) -> str:
    """Return a text of SQL without semicolons and comments at its end: DuckDB keeps those behind the last statement, and fails
    where that becomes part of another one."""
    import duckdb

    text = query.encode()
    end = len(text)
    for start, kind in reversed(duckdb.tokenize(query)):
        if kind.name != "comment" and text[start:end].strip() != b";":
            break
        end = start
    return text[:end].decode()


def is_query(statement: "duckdb.Statement") -> bool:
    """Return whether a statement returns rows, rather than change something and count."""
    kinds = [kind.name for kind in statement.expected_result_type]
    return kinds == ["QUERY_RESULT"] or statement.type.name == "MULTI"  # such as PIVOT


def has_rows(statement: "duckdb.Statement", columns: Sequence[str]) -> bool:
    """Return whether a statement that returned these columns returns rows. If DuckDB does not know before, since it may have
    RETURNING, a count is none."""
    if is_query(statement):
        return True
    kinds = [kind.name for kind in statement.expected_result_type]
    return "QUERY_RESULT" in kinds and list(columns) != [_COUNT]
