"""The messages between a check and the process in which its query runs."""

from msgspec import Struct


class Table(Struct, frozen=True):
    """A table: the files of the candidate and of the base, in a format. Without ``base`` the query has no such table of the base.
    ``partitioned``: folders have the values of columns."""

    name: str
    format: str
    candidate: tuple[str, ...]
    base: tuple[str, ...] | None
    partitioned: bool = False


class Request(Struct, frozen=True, kw_only=True):
    """A query over tables with files in ``folder``. ``memory`` in bytes, ``seconds`` of the processor; at most ``rows`` are
    returned, with at most ``characters`` a value. ``parse_only``: the query is only looked at."""

    query: str
    parse_only: bool = False
    tables: tuple[Table, ...] = ()
    folder: str = ""
    memory: int = 64 << 20
    seconds: int = 10
    threads: int = 1
    rows: int = 0
    characters: int = 0


class Answer(Struct, frozen=True):
    """Rows of a query as texts, or an ``error``: DuckDB's words, or why it is not run."""

    error: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
