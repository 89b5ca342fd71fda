"""The process in which the query of a check runs: ``python -m graveler.lake.gates.checks.sql_process``.

It reads a request from standard input and writes one answer to standard output, both as JSON. It knows no lake: the tables are
files in a folder, the only one that DuckDB may open. Neither a SELECT nor the kernel lets it write there.
"""

import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import msgspec

from graveler.lake.gates.checks.sql_protocol import Answer, Request, Table

READERS: Final = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json"}
"""DuckDB's functions by format."""
OVERHEAD: Final = 1 << 30
"""Bytes of address space beyond DuckDB's memory: code, stacks, and what is reserved and not used."""
_SIDES: Final = ("candidate", "base")


def main() -> None:
    """Answer the request."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    _limit(request)
    try:
        answer = _answer(request)
    except duckdb.Error as error:
        answer = Answer(error=str(error).partition("\n\nStack Trace:")[0])
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


def _limit(request: Request) -> None:
    """Let the kernel refuse more memory and time, any file that grows, and a picture of the memory."""
    address_space = request.memory + OVERHEAD
    for kind, bound in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, request.seconds * request.threads + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (bound, bound))


def _answer(request: Request) -> Answer:
    """Run the query."""
    connection = duckdb.connect(":memory:")
    for setting in (
        f"threads = {request.threads}",
        f"memory_limit = '{request.memory // 1024} KiB'",
        "temp_directory = ''",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "allow_community_extensions = false",
        "python_enable_replacements = false",
        "TimeZone = 'UTC'",
        *((f"allowed_directories = [{_literal(request.folder)}]",) if request.folder else ()),
        "enable_external_access = false",
    ):
        connection.execute(f"SET {setting}")
    statements = connection.extract_statements(request.query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        return Answer(error=f"the query must be one SELECT, and is {kinds}")
    if request.parse_only:
        return Answer()
    for side in _SIDES:
        connection.execute(f"CREATE SCHEMA {side}")
    for table in request.tables:
        _create(connection, table, Path(request.folder))
    connection.execute("SET lock_configuration = true")
    relation = connection.sql(statements[0]).limit(request.rows)
    columns = tuple(relation.columns)
    texts = relation.project(
        ", ".join(f"left(CAST(#{number} AS VARCHAR), {request.characters})" for number in range(1, len(columns) + 1))
    )
    return Answer(columns=columns, rows=tuple(texts.fetchall()))


def _create(connection: duckdb.DuckDBPyConnection, table: Table, folder: Path) -> None:
    """Create the views of a table. One side without files is empty, and has the columns of the other."""
    name = '"' + table.name.replace('"', '""') + '"'
    sides = zip(_SIDES, (table.candidate, table.base), strict=True)
    files = {side: names for side, names in sides if names is not None}
    for side in sorted(files, key=lambda side: not files[side]):
        if files[side]:
            source = _reader(table, [str(folder / file) for file in files[side]])
        else:
            [other] = set(_SIDES) - {side}
            source = f"{other}.{name} LIMIT 0"
        connection.execute(f"CREATE VIEW {side}.{name} AS FROM {source}")


def _reader(table: Table, paths: Sequence[str]) -> str:
    partitions = "true" if table.partitioned else "false"
    literals = ", ".join(map(_literal, paths))
    return f"{READERS[table.format]}([{literals}], union_by_name = true, hive_partitioning = {partitions})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


if __name__ == "__main__":
    main()
