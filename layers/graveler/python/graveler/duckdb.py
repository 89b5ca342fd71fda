"""DuckDB over the files of a lake: ``FROM 'graveler://repository/ref/path'``.

Needs ``pip install 'graveler[sql]'``. ::

    import graveler.duckdb

    connection = graveler.duckdb.connect("~/lake")
    connection.sql("SELECT sum(amount) FROM 'graveler://sales/main/orders/*.parquet'").show()
"""

import os
from typing import TYPE_CHECKING, Any

from graveler.errors import GravelerError, UnavailableError
from graveler.system.extras import not_installed

__all__ = ["connect"]

if TYPE_CHECKING:
    import duckdb

    from graveler.files.lake import LakeHandle as Lake


def connect(
    lake: "str | os.PathLike[str] | Lake | None" = None, *, database: str = ":memory:", **storage_options: Any
) -> "duckdb.DuckDBPyConnection":
    """Return a connection of DuckDB that reads and writes ``graveler://repository/ref/path``, where ``ref`` is a branch with its
    uncommitted changes, a tag, a commit or ``main~1``; so one query can join two states of a table.

    ``lake`` and the ``storage_options`` say where the lake is, as for :class:`graveler.filesystem.GravelerFileSystem`;
    ``database`` is DuckDB's own file. What ``COPY … TO`` writes is staged on its branch. No request until a query needs one.
    :class:`UnavailableError` if a library is missing.
    """
    return connect_noting(lake, database=database, **storage_options)[0]


def connect_noting(
    lake: "str | os.PathLike[str] | Lake | None" = None, *, database: str = ":memory:", **storage_options: Any
) -> "tuple[duckdb.DuckDBPyConnection, list[GravelerError]]":
    """Return :func:`connect`, and a list to which each error of the lake is added: DuckDB's own errors have only its text."""
    try:
        import duckdb

        from graveler.filesystem.duckdb_filesystem import FileSystemForDuckDB
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("SQL over a lake", error.name, "sql")) from None
    noted: list[GravelerError] = []
    connection = duckdb.connect(database)
    connection.register_filesystem(
        FileSystemForDuckDB(lake, **storage_options, skip_instance_cache=True, on_error=noted.append)
    )
    return connection, noted
