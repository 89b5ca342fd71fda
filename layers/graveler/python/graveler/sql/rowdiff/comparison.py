"""Comparison of rows in DuckDB.

Only files that differ are read for their rows: equal ones contribute the same rows to both sides (:meth:`Sides.differing`). With
keys, this holds as long as each key stands once on each side, which is checked over all files: then a row of an equal file has no
other row with its key. Both sides are cast to the same columns and types before anything is compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from shutil import rmtree
from typing import Final, TypeAlias

from graveler.errors import InvalidError
from graveler.files.lake import LakeHandle
from graveler.model import CommitID
from graveler.remote.any_repository import AnyLake
from graveler.sql.rowdiff.differences import ColumnDifference
from graveler.sql.rowdiff.iceberg_files import IcebergSides, IcebergTable, iceberg_sides
from graveler.sql.rowdiff.iceberg_reader import IcebergReader
from graveler.sql.rowdiff.table_reader import Columns, Part, Side, TableReader, columns_of, compared, select
from graveler.sql.rowdiff.tables import AnySides, Format, sides_of
from graveler.sql.rowdiff.types import Kind, Struct, cast, quoted_name, sql, with_all_digits
from graveler.sql.session import Session
from graveler.system.temporary_files import own_path

_OF_A_THREAD: Final = 128_000_000
"""Bytes of memory that a thread needs: it pins blocks while it sorts, and fails if there is no room for them."""
_OF_A_COLUMN: Final = 200_000
"""Bytes that a thread needs for each column, of which it holds 2,048 values in several places."""

SORTED: Final = 100_000
"""The differences that are sorted at most: DuckDB's sort of large rows needs memory that a limit may not leave it."""

_PASSES: Final = (1, 4, 16)
"""The numbers of passes to try, one after the other."""
_MOST_PASSES: Final = 64
"""Those to make if memory is not enough for any of these."""

Aliases = dict[str, tuple[str, Kind]]
"""Columns by name: a short name that needs no quotes, and the type to compare in."""


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison: a table of differences in DuckDB, which ``query`` reads, and ``query_for_python`` with types
    that Python has. ``counts`` are the rows by type of difference, ``columns`` those that differ. ``close`` releases memory and
    temporary files."""

    reading: TableReader
    query: str
    query_for_python: str
    counts: Mapping[str, int]
    columns: tuple[ColumnDifference, ...]
    is_json: bool
    close: Callable[[], None]


Tables: TypeAlias = tuple[IcebergTable | None, IcebergTable | None]
"""An Iceberg table at two commits; None where it does not exist."""


def compare_rows(
    lake: AnyLake,
    repository: str,
    base: CommitID,
    changed: CommitID,
    table: str | Tables,
    keys: Sequence[str],
    memory_limit: str,
) -> Comparison:
    """Compare the table of files at a path of two commits, or an Iceberg table; :meth:`Reference.diff_rows` says how, and which
    errors there are."""
    if len({key.lower() for key in keys}) < len(keys):
        raise InvalidError(f"a key column is named twice: {', '.join(map(repr, keys))}")
    opened = lake.repository(repository)
    sides = sides_of(opened, base, changed, table) if isinstance(table, str) else iceberg_sides(*table)
    session = Session(LakeHandle(lake))
    folder = own_path()

    def close() -> None:
        session.close()
        rmtree(folder, ignore_errors=True)

    try:
        with session.explained():
            session.connection.execute("SET temp_directory = $1", [str(folder)])
            session.connection.execute("SET preserve_insertion_order = false")
        with session.explained(lambda _, text: InvalidError(f"memory_limit {memory_limit!r} is no size: {text}")):
            session.connection.execute("SET memory_limit = $1", [memory_limit])
            session.connection.execute(_fewer_threads(_OF_A_THREAD))
        reading: TableReader
        if isinstance(sides, IcebergSides):
            reading = IcebergReader(session, opened, repository, sides, memory_limit, str(folder))
        else:
            reading = TableReader(session, opened, repository, sides, memory_limit, str(folder))
        comparer = _Comparer(reading, Side("left", base), Side("right", changed), sides, tuple(keys))
        return session.interruptibly(partial(comparer.run, close))
    except BaseException:
        close()
        raise


class _Comparer:
    def __init__(self, reading: TableReader, base: Side, changed: Side, sides: AnySides, keys: tuple[str, ...]) -> None:
        self._reading = reading
        self._base = base
        self._changed = changed
        self._sides = sides
        self._keys = keys

    def run(self, close: Callable[[], None]) -> Comparison:
        differing = self._sides.differing()
        changes: tuple[ColumnDifference, ...] = ()
        kinds: Columns = {}
        base: tuple[Part, ...] = ()
        changed: tuple[Part, ...] = ()
        if differing.base or differing.changed:
            changes = self._column_differences(differing)
            if self._keys:
                differing = self._pruned_for_keys(differing)
            base, changed = self._parts(differing)
            kinds = compared(columns_of((*base, *changed)))
        else:
            self._check_named_keys()
        if kinds:
            self._reading.execute(_fewer_threads(_OF_A_COLUMN * len(kinds)))
            self._make_differences(base, changed, _aliases(kinds))
        elif self._has_rows(base) or self._has_rows(changed):
            self._reading.execute(f"CREATE TABLE differences AS {_without_columns(base, changed)}")
        else:
            no_key = "NULL AS key, " if self._keys else ""
            self._reading.execute(
                f"CREATE TABLE differences AS SELECT '' AS type, {no_key}NULL AS before, NULL AS after LIMIT 0"
            )
        counts: dict[str, int] = dict(self._reading.rows("SELECT type, count(*) FROM differences GROUP BY type"))
        order = f" ORDER BY {'d.key' if self._keys else 'coalesce(d.before, d.after)'}, d.type"
        source = f"differences AS d{order if sum(counts.values()) <= SORTED else ''}"
        return Comparison(
            self._reading,
            f"SELECT * FROM {source}",
            f"SELECT {self._for_python(kinds)} FROM {source}",
            counts,
            changes,
            self._sides.format is Format.JSON,
            close,
        )

    def _for_python(self, kinds: Columns) -> str:
        """Return the columns of the differences, in types whose values Python has."""
        columns = {"before": kinds, "after": kinds}
        if self._keys:
            named = {name.lower(): (name, kind) for name, kind in kinds.items()}
            columns = {"key": dict(named[key.lower()] for key in self._keys if key.lower() in named), **columns}
        expressions = ["d.type"]
        for name, types in columns.items():
            struct = Struct(tuple(types.items()))
            expressions.append(f"{cast(f'd.{name}', struct, with_all_digits(struct))} AS {name}")
        return ", ".join(expressions)

    def _parts(self, files: AnySides) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        return self._reading.parts(self._base, files.base), self._reading.parts(self._changed, files.changed)

    def _make_differences(self, base: Sequence[Part], changed: Sequence[Part], columns: Aliases) -> None:
        """Make the table of differences. If memory is not enough for all rows at once, in several passes over the files, each of
        which compares those rows whose hashes have the same remainder."""
        for passes in _PASSES:
            self._reading.execute("DROP TABLE IF EXISTS differences")
            if all(self._reading.fits(statement) for statement in self._statements(base, changed, columns, passes)):
                return
        self._reading.execute("DROP TABLE IF EXISTS differences")
        for statement in self._statements(base, changed, columns, _MOST_PASSES):
            self._reading.execute(statement)

    def _statements(
        self, base: Sequence[Part], changed: Sequence[Part], columns: Aliases, passes: int
    ) -> Iterator[str]:
        for number in range(passes):
            into = "INSERT INTO differences" if number else "CREATE TABLE differences AS"
            yield f"{into} {self._compared(base, changed, columns, passes, number)}"

    def _compared(
        self, base: Sequence[Part], changed: Sequence[Part], columns: Aliases, passes: int, number: int
    ) -> str:
        """Return the query of one of several passes."""
        names = ", ".join(alias for alias, _ in columns.values())
        hashed = ", ".join(alias for alias, _ in self._named_keys(columns).values()) or names
        some = "" if passes == 1 else f" WHERE hash({hashed}) % {passes} = {number}"
        if not self._keys:
            row = _struct(columns)
            return f"""
                WITH counted AS (
                    SELECT {names}, sum(one)::BIGINT AS surplus
                    FROM ({select(base, columns, "-1 AS one")} UNION ALL {select(changed, columns, "1 AS one")}){some}
                    GROUP BY {names} HAVING surplus <> 0
                ), repeated AS (SELECT *, unnest(range(abs(surplus))) AS nth FROM counted)
                SELECT CASE WHEN surplus > 0 THEN 'added' ELSE 'removed' END AS type,
                    CASE WHEN surplus < 0 THEN {row} END AS before,
                    CASE WHEN surplus > 0 THEN {row} END AS after
                FROM repeated"""
        keys = self._named_keys(columns)
        values = [alias for name, (alias, _) in columns.items() if name not in keys]
        joined = " AND ".join(f"l.{alias} IS NOT DISTINCT FROM r.{alias}" for alias, _ in keys.values())
        unequal = "".join(f" OR l.{alias} IS DISTINCT FROM r.{alias}" for alias in values)
        key = ", ".join(
            f"{quoted_name(name)} := CASE WHEN l.here THEN l.{alias} ELSE r.{alias} END"
            for name, (alias, _) in keys.items()
        )
        return f"""
            WITH l AS (FROM ({select(base, columns, "true AS here")}){some}),
                r AS (FROM ({select(changed, columns, "true AS here")}){some})
            SELECT CASE WHEN l.here IS NULL THEN 'added' WHEN r.here IS NULL THEN 'removed' ELSE 'changed' END AS type,
                struct_pack({key}) AS key,
                CASE WHEN l.here THEN {_struct(columns, "l.")} END AS before,
                CASE WHEN r.here THEN {_struct(columns, "r.")} END AS after
            FROM l FULL JOIN r ON {joined}
            WHERE l.here IS NULL OR r.here IS NULL{unequal}"""

    def _column_differences(self, differing: AnySides) -> tuple[ColumnDifference, ...]:
        """Return how the columns differ, if there is a table on both sides. Files that are equal have a part in it only if those
        that differ have other columns."""
        if isinstance(self._sides, IcebergSides):
            return self._sides.columns
        if not self._sides.base or not self._sides.changed:
            return ()
        before, after = (_by_name(parts) for parts in self._parts(differing))
        if _types(before) == _types(after):
            return ()
        before, after = (_by_name(parts) for parts in self._parts(self._sides))
        names = {key: name for key, (name, _) in (after | before).items()}
        types, later_types = _types(before), _types(after)
        return tuple(
            ColumnDifference(names[key], types.get(key), later_types.get(key))
            for key in before | after
            if types.get(key) != later_types.get(key)
        )

    def _check_named_keys(self) -> None:
        """Check that a table without differences has the key columns. Reads one file's schema; all of them, if that lacks one."""
        files = self._sides.base
        if not self._keys or not files:
            return
        path = min(files)
        if self._missing(columns_of(self._reading.parts(self._base, {path: files[path]}))):
            self._check_keys(self._base, self._reading.parts(self._base, files))

    def _check_keys(self, side: Side, parts: Sequence[Part]) -> None:
        """Check that a side has the key columns. JSON without a record has no columns, and needs none."""
        columns = columns_of(parts)
        missing = self._missing(columns)
        if missing and (columns or self._has_rows(parts)):
            names = f"; its columns are {', '.join(map(repr, columns))}" if columns else ", and no other one"
            raise InvalidError(f"the {side.name} side has no column {missing[0]!r}{names}")

    def _has_rows(self, parts: Sequence[Part]) -> bool:
        """Return whether any of these files has a row."""
        return bool(self._reading.rows(f"FROM ({select(parts, {}, '1 AS one')}) LIMIT 1"))

    def _missing(self, columns: Columns) -> list[str]:
        names = {name.lower() for name in columns}
        return [key for key in self._keys if key.lower() not in names]

    def _named_keys(self, columns: Aliases) -> Aliases:
        """Return the key columns, in the order of the keys."""
        by_name = {name.lower(): name for name in columns}
        return {by_name[key.lower()]: columns[by_name[key.lower()]] for key in self._keys}

    def _pruned_for_keys(self, differing: AnySides) -> AnySides:
        """Check the keys over all files, and return the files to compare: all, if the keys' types depend on equal ones."""
        base, changed = self._parts(self._sides)
        for side, parts in ((self._base, base), (self._changed, changed)):
            self._check_keys(side, parts)
        columns = compared(columns_of((*base, *changed)))
        if not columns:
            return differing
        keys = self._named_keys(_aliases(columns))
        for on_left, *values in self._reading.rows(
            f"FROM ({select(base, keys, 'true AS on_left')} UNION ALL {select(changed, keys, 'false AS on_left')})"
            f" SELECT on_left, {', '.join(alias for alias, _ in keys.values())} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        ):
            repeated = ", ".join(f"{key} = {value}" for key, value in zip(self._keys, values, strict=True))
            raise InvalidError(
                f"several rows of the {'left' if on_left else 'right'} side have the key {repeated}; "
                "name more columns, or compare whole rows"
            )
        of_some = {name.lower(): kind for name, kind in _kinds(self._parts(differing)).items()}
        same_types = all(of_some.get(name.lower()) == kind for name, (_, kind) in keys.items())
        return differing if same_types else self._sides


def _without_columns(base: Sequence[Part], changed: Sequence[Part]) -> str:
    """Return the query of the differences between rows without columns, as JSON's ``{}``: which side has how many more. As DuckDB
    has no struct without fields, a row is a map without entries."""
    row = "map([]::VARCHAR[], []::JSON[])"
    return f"""
        WITH counted AS (
            SELECT coalesce(sum(one), 0)::BIGINT AS surplus
            FROM ({select(base, {}, "-1 AS one")} UNION ALL {select(changed, {}, "1 AS one")})
        ), repeated AS (SELECT surplus, unnest(range(abs(surplus))) AS nth FROM counted)
        SELECT CASE WHEN surplus > 0 THEN 'added' ELSE 'removed' END AS type,
            CASE WHEN surplus < 0 THEN {row} END AS before,
            CASE WHEN surplus > 0 THEN {row} END AS after
        FROM repeated"""


def _fewer_threads(size: int) -> str:
    """Return a statement that leaves as many threads as memory is enough for, if each needs ``size`` bytes."""
    enough = f"parse_formatted_bytes(current_setting('memory_limit')) // {size}"
    return f"SET threads = least(current_setting('threads'), greatest(1, {enough}))"


def _kinds(sides: Iterable[Sequence[Part]]) -> Columns:
    return compared(columns_of(part for parts in sides for part in parts))


def _aliases(columns: Columns) -> Aliases:
    return {name: (f"c{number}", kind) for number, (name, kind) in enumerate(columns.items())}


def _by_name(parts: Iterable[Part]) -> dict[str, tuple[str, Kind]]:
    return {name.lower(): (name, kind) for name, kind in columns_of(parts).items()}


def _types(columns: Mapping[str, tuple[str, Kind]]) -> dict[str, str]:
    return {key: sql(kind) for key, (_, kind) in columns.items()}


def _struct(columns: Aliases, of: str = "") -> str:
    return f"struct_pack({', '.join(f'{quoted_name(name)} := {of}{alias}' for name, (alias, _) in columns.items())})"
