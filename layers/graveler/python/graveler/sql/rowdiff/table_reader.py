"""Reads of a table's files with DuckDB: those with the same columns at once, in types that lose nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graveler.errors import GravelerError, InvalidError, UnavailableError
from graveler.sql.rowdiff.csv_files import first_error, separator_of
from graveler.sql.rowdiff.tables import AnySides, Format
from graveler.sql.rowdiff.types import (
    JSON,
    MACROS,
    VARCHAR,
    Kind,
    cast,
    kind_of,
    listed,
    merged,
    quoted,
    quoted_name,
    sql,
)
from graveler.system.daemon_pool import DaemonPool

if TYPE_CHECKING:
    import duckdb

    from graveler.lake.objects.verification import OpenedObject
    from graveler.model import CommitID
    from graveler.remote.any_repository import AnyRepository
    from graveler.sql.session import Session

SCHEME: Final = "graveler://"
"""The beginning of files' addresses in DuckDB."""
_AT_ONCE: Final = 16
_READERS: Final = {Format.CSV: "read_csv", Format.JSON: "read_json", Format.PARQUET: "read_parquet"}
_OPTIONS: Final = {
    Format.CSV: """union_by_name=true, all_varchar=true, header=true, skip=0, quote='"', escape='"', comment=''""",
    # Each column's values as JSON: what type they would have depends on all other values.
    Format.JSON: "union_by_name=true, maximum_depth=1, sample_size=-1, map_inference_threshold=-1",
    Format.PARQUET: "union_by_name=false",
}
_WHOLE_RECORD: Final = "json"
_FILE: Final = "graveler file"
"""The column of files' addresses, from which those of folders come."""
_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_MOST_DIGITS: Final = 38
_ADVICE: Final = (
    "Possible Solution",
    "Possible fixes",
    "The search space used",
    "Try setting",
    "Try increasing",
    "In file ",
)
"""Where DuckDB's errors begin to name options that nobody can set here."""

Columns = dict[str, Kind]
"""Types by name."""


@dataclass(frozen=True)
class Part:
    """Files of a side that one call of a table function reads, and the columns that they have."""

    call: str
    columns: Columns


@dataclass(frozen=True)
class Side:
    """One of the two states of a table."""

    name: str
    commit: "CommitID"


class TableReader:
    """A session that reads one table's files. Its errors name the file, and the side."""

    def __init__(
        self,
        session: "Session",
        repository: "AnyRepository",
        name: str,
        sides: AnySides,
        memory_limit: str,
        folder: str,
    ) -> None:
        self.connection: duckdb.DuckDBPyConnection = session.connection
        self._session = session
        self._repository = repository
        self._name = name
        self._format = sides.format
        self._partitions = sides.partitions
        self._memory_limit = memory_limit
        self._folder = folder
        self._known: dict[str, tuple[Side, str]] = {}
        self._separators: dict[str, str] = {}
        self._parts: dict[tuple[str, ...], tuple[Part, ...]] = {}
        for macro in MACROS:
            self.execute(macro)

    def explained(self) -> AbstractContextManager[None]:
        """Turn DuckDB's errors into ours, as :meth:`Session.explained`."""
        return self._session.explained(self._meaning)

    def execute(self, statement: str) -> None:
        """Run a statement."""
        with self.explained():
            self.connection.execute(statement)

    def fits(self, statement: str) -> bool:
        """Run a statement, and return whether memory, and the space for temporary files, was enough for it."""
        import duckdb

        with self.explained():
            try:
                self.connection.execute(statement)
            except duckdb.OutOfMemoryException:
                return False
        return True

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return a query's rows."""
        with self.explained():
            return self.connection.execute(statement).fetchall()

    def parts(self, side: Side, files: Mapping[str, Any]) -> tuple[Part, ...]:
        """Return the calls that read these files, with their columns. Cost, once: reading the files' schemas; of JSON, files."""
        addresses = {f"{self._name}/{side.commit}/{path}": path for path in sorted(files)}
        if not addresses:
            return ()
        key = tuple(addresses)
        if key not in self._parts:
            self._known.update((address, (side, path)) for address, path in addresses.items())
            self._parts[key] = tuple(self._part(*group) for group in self._groups(key))
        return self._parts[key]

    def _part(self, addresses: Sequence[str], option: str) -> Part:
        options = f"hive_partitioning=false, {_OPTIONS[self._format]}{option}"
        call = f"{_READERS[self._format]}({address_list(addresses)}, {options})"
        columns = self._columns(call)
        if self._format is Format.JSON and any(name == _WHOLE_RECORD or kind != JSON for name, kind in columns.items()):
            self._check_records(addresses, columns)
        return self._with_partitions(Part(call, columns))

    def _check_records(self, addresses: Sequence[str], columns: Columns) -> None:
        """Check that all records are objects. Remove DuckDB's name of a whole record, which a file without values has, from the
        columns, unless an object has it. Cost: reading the files."""
        records = f"read_json_objects({address_list(addresses)}, filename={quoted(_FILE)})"
        kind = "json_type(json)"
        for (address,) in self.rows(
            f"SELECT {quoted_name(_FILE)} FROM {records} WHERE {kind} <> 'OBJECT' AND {kind} <> 'NULL' LIMIT 1"
        ):
            raise self._unreadable(address.removeprefix(SCHEME), "it has records that are no objects")
        named = f"list_contains(list_transform(json_keys(json), lambda name: lower(name)), {quoted(_WHOLE_RECORD)})"
        if self.rows(f"SELECT count(*) FROM {records} WHERE {named}") == [(0,)]:
            columns.pop(_WHOLE_RECORD, None)

    def _with_partitions(self, part: Part) -> Part:
        """Return what reads the same files, with a column for each of the folders' ones, which come before those of files. DuckDB
        refuses files of which some have more of them."""
        if not self._partitions:
            return part
        folders = {name.lower() for name in self._partitions}
        of_files = {name: kind for name, kind in part.columns.items() if name.lower() not in folders}
        values = ", ".join(f"{self._in_path(name)} AS {quoted_name(name)}" for name in sorted(self._partitions))
        call = f"{part.call.removesuffix(')')}, filename={quoted(_FILE)})"
        kind = JSON if self._format is Format.JSON else VARCHAR
        return Part(
            f"(SELECT {''.join(f'{quoted_name(name)}, ' for name in of_files)}{values} FROM {call})",
            of_files | dict.fromkeys(sorted(self._partitions), kind),
        )

    def _in_path(self, name: str) -> str:
        """Return an expression of a folder's value in a file's address, as Hive writes them."""
        pattern = f"'/' || regexp_escape({quoted(name)}) || '=([^/]*)/'"
        text = f"nullif(regexp_extract({quoted_name(_FILE)}, {pattern}, 1), {quoted(_NO_PARTITION)})"
        value = f"coalesce(try(url_decode({text})), {text})"
        return f"to_json({value})" if self._format is Format.JSON else value

    def _columns(self, call: str) -> Columns:
        with self.explained():
            relation = self.connection.sql(f"SELECT * FROM {call}")
            return dict(zip(relation.columns, map(kind_of, relation.types), strict=True))

    def _groups(self, addresses: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
        """Return files that have something in common to be read at once, with an option for them."""
        if self._format is Format.PARQUET:
            yield from ((group, "") for group in self._of_one_schema(addresses))
        elif self._format is Format.CSV:
            with DaemonPool(_AT_ONCE, "graveler-rows") as pool:
                futures = [pool.submit(self._separator, address) for address in addresses]
                self._separators.update(zip(addresses, (future.result() for future in futures), strict=True))
            for separator in sorted({self._separators[address] for address in addresses}):
                group = [address for address in addresses if self._separators[address] == separator]
                yield group, f", delim={quoted(separator)}"
        else:
            yield addresses, ""

    def _of_one_schema(self, addresses: Sequence[str]) -> Iterator[list[str]]:
        for files, column, width in self.rows(f"""
            SELECT list(file), any_value(wide), any_value(width) FROM (
                SELECT replace(file_name, '{SCHEME}', '') AS file, max(precision) AS width, max_by(name, precision) AS wide,
                    list((name, duckdb_type, num_children, field_id) ORDER BY column_id) AS columns
                FROM parquet_schema({address_list(addresses)}) GROUP BY ALL
            ) GROUP BY columns ORDER BY min(file)"""):
            if width is not None and width > _MOST_DIGITS:
                side, path = self._known[min(files)]
                raise InvalidError(
                    f"column {column!r} in {path!r} of the {side.name} side has decimals of {width} digits; "
                    f"rows are compared with up to {_MOST_DIGITS}"
                )
            yield sorted(files)

    def _separator(self, address: str) -> str:
        try:
            return separator_of(self._opened(address))
        except InvalidError as error:
            raise self._unreadable(address, str(error)) from None

    def _opened(self, address: str) -> "OpenedObject":
        side, path = self._known[address]
        return self._repository.open_object(side.commit, path)

    def _meaning(self, error: Exception, text: str) -> GravelerError | None:
        import duckdb

        if isinstance(error, duckdb.ConnectionException):
            return InvalidError("this diff of rows is closed; read it before")
        if self._folder in text or "max_temp_directory_size" in text:
            return UnavailableError(
                f"there is no room for temporary files in {self._folder}; set TMPDIR to another folder: {text}"
            )
        if isinstance(error, duckdb.OutOfMemoryException):
            return InvalidError(
                f"this comparison takes more memory than the limit of {self._memory_limit}; give a higher "
                "memory_limit, or a path with fewer files"
            )
        address = max((named for named in self._known if named in text), key=len, default=None)
        if address is None and self._format is Format.PARQUET and "Binder" not in text:
            address = next(filter(self._is_broken, self._known), None)
        if address is None:
            return None
        reason = None
        if address in self._separators:
            reason = first_error(self._opened(address), self._separators[address])
        for advice in _ADVICE:
            text = text.partition(advice)[0]
        return self._unreadable(address, reason or text.replace(f"{SCHEME}{address}", self._known[address][1]).strip())

    def _is_broken(self, address: str) -> bool:
        """Return whether a file cannot be read, by reading it: DuckDB does not always say in which file it found what."""
        import duckdb

        try:
            self.connection.execute(
                f"SELECT max(hash(COLUMNS(*))) FROM read_parquet({address_list([address])})"
            ).fetchall()
        except duckdb.Error:
            return True
        return False

    def _unreadable(self, address: str, reason: str) -> InvalidError:
        side, path = self._known[address]
        return InvalidError(f"{path!r} of the {side.name} side cannot be read as {self._format.value}: {reason}")


def columns_of(parts: Iterable[Part]) -> Columns:
    """Return the columns of all, with their common types."""
    return merged(part.columns.items() for part in parts)


def compared(columns: Columns) -> Columns:
    """Return the types in which columns are compared: JSON is so as text."""
    return {name: VARCHAR if kind == JSON else kind for name, kind in columns.items()}


def select(parts: Sequence[Part], columns: Mapping[str, tuple[str, Kind]], also: str) -> str:
    """Return a query of all rows of these files, with ``columns``, which have an alias and a type each, and more."""
    queries = [f"SELECT {''.join(_columns(part.columns, columns))}{also} FROM {part.call}" for part in parts]
    empty = f"SELECT {''.join(_columns({}, columns))}{also} WHERE false"
    return " UNION ALL ".join(queries) if queries else empty


def _columns(of_files: Columns, columns: Mapping[str, tuple[str, Kind]]) -> Iterator[str]:
    names = {name.lower(): name for name in of_files}
    for name, (alias, kind) in columns.items():
        in_files = names.get(name.lower())
        value = f"NULL::{sql(kind)}" if in_files is None else cast(quoted_name(in_files), of_files[in_files], kind)
        yield f"{value} AS {alias}, "


def address_list(addresses: Iterable[str]) -> str:
    """Return the addresses of files as DuckDB's readers take them."""
    return listed([f"{SCHEME}{_literally(address)}" for address in addresses])


def _literally(path: str) -> str:
    """Return a pattern that only this path matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
