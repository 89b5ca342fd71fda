"""Reads of an Iceberg table's live rows with DuckDB: files with the same columns and the same deletes at once."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.iceberg.position_deletes import position_reader
from graveler.sql.rowdiff.iceberg_files import DataFile, DeleteFile, IcebergSides, IcebergTable, mapped_names
from graveler.sql.rowdiff.table_reader import SCHEME, Part, Side, TableReader, address_list
from graveler.sql.rowdiff.types import NULL, Kind, List, Map, cast, common, quoted, quoted_name
from graveler.sql.rowdiff.types import Struct as StructKind
from graveler.table_format.deletion_vectors import read_vector
from graveler.table_format.file_locations import normal_location
from graveler.table_format.plain_documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graveler.remote.any_repository import AnyRepository
    from graveler.sql.session import Session

_FILE: Final = "graveler file"
_ROW: Final = "file_row_number"
_POSITIONS: Final = "graveler_positions"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - literals without a zone, since the session's is UTC
_BATCH: Final = 100_000
_DUCKDB_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
}
"""Types of Iceberg whose values in manifests and defaults are read."""


class _Value(Struct, frozen=True):
    """An expression of a column's value, and its type."""

    expression: str
    kind: Kind


Columns = Mapping[int, _Value]
"""Columns of files with the same schema by ID: their names in DuckDB, and their types."""


class IcebergReader(TableReader):
    """A session that reads one table's live rows. Its errors name the file, and the side."""

    def __init__(
        self,
        session: "Session",
        repository: "AnyRepository",
        name: str,
        sides: IcebergSides,
        memory_limit: str,
        folder: str,
    ) -> None:
        super().__init__(session, repository, name, sides, memory_limit, folder)
        self._sides = sides
        self._fields: list[Document] = sides.schema["fields"]
        self._with_positions: set[str] = set()
        self.execute(f"CREATE TABLE {_POSITIONS} (file VARCHAR, pos BIGINT)")

    def parts(self, side: Side, files: Mapping[str, Any]) -> tuple[Part, ...]:
        """Return the calls that read the live rows of these files. Cost, once: reading the files' schemas, and the files of
        deletes by position."""
        addresses: dict[str, DataFile] = {self._address(side, path): files[path] for path in sorted(files)}
        key = tuple(addresses)
        if not key:
            return ()
        if key not in self._parts:
            table = self._sides.tables[0 if side.name == "left" else 1]
            assert table is not None
            self._read_positions(table, addresses)
            self._parts[key] = tuple(self._parts_of(side, table, addresses))
        return self._parts[key]

    def _parts_of(self, side: Side, table: IcebergTable, addresses: Mapping[str, DataFile]) -> Iterator[Part]:
        for group, columns in self._groups_with_columns(table, sorted(addresses)):
            missing = {field["id"] for field in self._fields} - columns.keys()
            alike: dict[Any, list[str]] = {}
            for address in group:
                file = addresses[address]
                values = tuple((number, value) for number, value in file.values if number in missing)
                deletes = frozenset(delete for delete in file.deletes if delete.column_ids)
                alike.setdefault((values, deletes, address in self._with_positions), []).append(address)
            for (values, deletes, has_positions), chosen in alike.items():
                source, live = self._projected(chosen, self._with_values(table, columns, dict(values)), has_positions)
                for ids in sorted({delete.column_ids for delete in deletes}):
                    source = self._without(
                        side, table, source, live, ids, [file for file in deletes if file.column_ids == ids]
                    )
                yield self._named(source, live)

    def _address(self, side: Side, path: str) -> str:
        address = f"{self._name}/{side.commit}/{path}"
        self._known[address] = side, path
        return address

    def _named(self, source: str, live: Columns) -> Part:
        """Return the part that reads a source's columns by their names in the table."""
        fields = [field for field in self._fields if field["id"] in live]
        if not fields:
            return Part(f"(SELECT 1 AS graveler_nothing FROM {source})", {})
        names = ", ".join(f"{live[field['id']].expression} AS {quoted_name(field['name'])}" for field in fields)
        return Part(f"(SELECT {names} FROM {source})", {field["name"]: live[field["id"]].kind for field in fields})

    def _projected(self, addresses: Sequence[str], columns: Columns, has_positions: bool) -> tuple[str, Columns]:
        """Return what reads files' rows that are not deleted by position, and its columns, which are called by their IDs."""
        options = f"hive_partitioning=false, union_by_name=false, filename={quoted(_FILE)}"
        source = (
            f"read_parquet({address_list(addresses)}, {options}{', file_row_number=true' if has_positions else ''})"
        )
        selected = ", ".join(f"{value.expression} AS v{number}" for number, value in columns.items()) or "1 AS nothing"
        if has_positions:
            where = f"p.file = f.{quoted_name(_FILE)} AND p.pos = f.{_ROW}"
            source = f"{source} AS f ANTI JOIN {_POSITIONS} AS p ON {where}"
        live = {number: _Value(f"v{number}", value.kind) for number, value in columns.items()}
        return f"(SELECT {selected} FROM {source})", live

    def _without(
        self,
        side: Side,
        table: IcebergTable,
        source: str,
        live: Columns,
        ids: tuple[int, ...],
        deletes: "Iterable[DeleteFile]",
    ) -> str:
        """Return what reads a source without the rows whose values in some columns stand in files of deletes."""
        for delete in deletes:
            if delete.format != "PARQUET":
                raise InvalidError(
                    f"{delete.path!r} has deletes by value in {delete.format}; those in Parquet are read"
                )
        conditions = []
        addresses = sorted(self._address(side, delete.path) for delete in deletes)
        for number, (group, columns) in enumerate(self._groups_with_columns(table, addresses)):
            missing = [column_id for column_id in ids if column_id not in columns]
            if missing:
                raise InvalidError(
                    f"{self._known[group[0]][1]!r} lacks the column {missing[0]} by which it deletes rows; restore the file"
                )
            texts, equal = [], []
            for column_id in ids:
                key, value = columns[column_id], live.get(column_id, _Value("NULL", NULL))
                kind = common((key.kind, value.kind))
                texts.append(f"{cast(key.expression, key.kind, kind)} AS k{column_id}")
                row = cast(value.expression, value.kind, kind)
                equal.append(f"d{number}.k{column_id} IS NOT DISTINCT FROM {row}")
            keys = f"SELECT {', '.join(texts)} FROM read_parquet({address_list(group)}, hive_partitioning=false)"
            conditions.append(f"ANTI JOIN ({keys}) AS d{number} ON {' AND '.join(equal)}")
        return f"(FROM {source} {' '.join(conditions)})"

    def _with_values(self, table: IcebergTable, columns: Columns, values: Mapping[int, Any]) -> Columns:
        """Return the columns of files with those that they lack: of a partition's value or the column's default. Nested ones have
        the fields that the compared schema has."""
        fields = {field["id"]: field for schema in table.state.metadata["schemas"] for field in schema["fields"]}
        fields |= {field["id"]: field for field in self._fields}
        live = {
            number: _nested(value, fields[number]["type"]) if number in fields else value
            for number, value in columns.items()
        }
        for number, field in fields.items():
            if number in live:
                continue
            if number in values:
                text = _value_text(field, values[number])
            elif "initial-default" in field:
                text = _default_text(field)
            else:
                continue
            if text is not None:
                type_name = _duckdb_type(field)
                live[number] = _Value(
                    f"({quoted(text)})::{type_name}", self._columns(f"(SELECT NULL::{type_name} AS x)")["x"]
                )
        return live

    def _groups_with_columns(
        self, table: IcebergTable, addresses: Sequence[str]
    ) -> Iterator[tuple[list[str], Columns]]:
        """Yield files that have the same schema, with their columns by ID."""
        for group in self._of_one_schema(addresses):
            names = self._columns(f"read_parquet({address_list(group)}, hive_partitioning=false, union_by_name=false)")
            yield group, self._by_id(table, group[0], names)

    def _by_id(self, table: IcebergTable, address: str, names: Mapping[str, Kind]) -> Columns:
        rows = self.rows(
            f"SELECT name, num_children, field_id FROM parquet_schema({address_list([address])}) ORDER BY column_id"
        )
        ids = [(name, field_id) for name, field_id in _top_level(rows)]
        if len(ids) != len(names):
            raise self._unreadable(address, "its schema is not that of its columns")
        if any(field_id is not None for _, field_id in ids):
            numbers = [field_id for _, field_id in ids]
        else:
            mapping = mapped_names(table.state.metadata)
            if not mapping:
                raise self._unreadable(
                    address,
                    "its columns have no IDs, and the table has no schema.name-mapping.default that gives them some",
                )
            numbers = [mapping.get(name) for name, _ in ids]
        columns = zip(numbers, names.items(), strict=True)
        return {number: _Value(quoted_name(name), kind) for number, (name, kind) in columns if number is not None}

    def _read_positions(self, table: IcebergTable, addresses: Mapping[str, DataFile]) -> None:
        """Note the positions that are deleted in these files."""
        by_delete: dict[DeleteFile, dict[str, str]] = {}
        for address, file in addresses.items():
            if address in self._with_positions:
                continue
            for delete in file.deletes:
                if not delete.column_ids:
                    by_delete.setdefault(delete, {})[normal_location(file.location)] = address
                    self._with_positions.add(address)
        read = position_reader(table.read_file)
        for delete, data_files in by_delete.items():
            if delete.offset >= 0:
                (address,) = data_files.values()
                vector = read_vector(table.read_file(delete.location), delete.offset, delete.size, delete.location)
                self._note_positions(address, vector)
                continue
            positions = read(delete.record)
            if positions is None:
                raise InvalidError(
                    f"{delete.path!r} has deletes by position in {delete.format}, or too many, to be read here"
                )
            for location, numbers in positions.items():
                if (data_address := data_files.get(normal_location(location))) is not None:
                    self._note_positions(data_address, numbers)

    def _note_positions(self, address: str, positions: "Iterable[int]") -> None:
        import pyarrow as pa

        numbers = sorted(positions)
        for start in range(0, len(numbers), _BATCH):
            batch = pa.table({"pos": pa.array(numbers[start : start + _BATCH], pa.int64())})
            with self.explained():
                self.connection.register("graveler_batch", batch)
                file = quoted(f"{SCHEME}{address}")
                self.connection.execute(f"INSERT INTO {_POSITIONS} SELECT {file}, pos FROM graveler_batch")
                self.connection.unregister("graveler_batch")


def _top_level(rows: Sequence[tuple[str, int | None, int | None]]) -> Iterator[tuple[str, int | None]]:
    """Yield name and ID of the columns below the root of a Parquet schema, whose elements come in depth-first order."""
    position = 1
    for _ in range(rows[0][1] or 0):
        name, _, field_id = rows[position]
        yield name, field_id
        position = _behind(rows, position)


def _behind(rows: Sequence[tuple[str, int | None, int | None]], position: int) -> int:
    """Return the position behind an element and all below it."""
    open_elements = 1
    while open_elements:
        open_elements += (rows[position][1] or 0) - 1
        position += 1
    return position


def _nested(value: _Value, column_type: Any) -> _Value:
    """Return a value of a nested type with the fields only that the type has in the table."""
    kind = _nested_kind(value.kind, column_type)
    return value if kind == value.kind else _Value(cast(value.expression, value.kind, kind), kind)


def _nested_kind(kind: Kind, column_type: Any) -> Kind:
    if isinstance(column_type, str):
        return kind
    match kind, column_type["type"]:
        case StructKind(), "struct":
            types = {field["name"].lower(): field["type"] for field in column_type["fields"]}
            fields = ((name, inner) for name, inner in kind.fields if name.lower() in types)
            return StructKind(tuple((name, _nested_kind(inner, types[name.lower()])) for name, inner in fields))
        case List(), "list":
            return List(_nested_kind(kind.of, column_type["element"]))
        case Map(), "map":
            return Map(_nested_kind(kind.key, column_type["key"]), _nested_kind(kind.value, column_type["value"]))
    return kind


def _duckdb_type(field: Document) -> str:
    column_type = field["type"]
    if isinstance(column_type, str):
        if column_type.lower() in _DUCKDB_TYPES:
            return _DUCKDB_TYPES[column_type.lower()]
        if column_type.lower().startswith("decimal"):
            return column_type.upper()
    raise InvalidError(
        f"column {field['name']!r} has a value that its files do not have, of type {column_type!r}, which is not read here"
    )


def _default_text(field: Document) -> str | None:
    """Return the text of a column's default; None for null."""
    value = field["initial-default"]
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _value_text(field: Document, value: Any) -> str | None:
    """Return the text of a value as manifests have it; None for null."""
    column_type = field["type"]
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if column_type == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if column_type in ("timestamp", "timestamptz"):
        return (_EPOCH + timedelta(microseconds=value)).isoformat(" ")
    if column_type == "time":
        return (_EPOCH + timedelta(microseconds=value)).time().isoformat()
    if isinstance(column_type, str) and column_type.lower().startswith("decimal"):
        scale = int(column_type.rpartition(",")[2].strip(" )"))
        return str(Decimal(value).scaleb(-scale))
    if isinstance(value, bytes) and column_type == "uuid":
        return value.hex()
    return str(value)
