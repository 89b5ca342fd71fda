"""Comparing rows in DuckDB.

Only files that differ are read for their rows: equal ones contribute the same rows to both sides (:meth:`Sides.differing`). With
keys, this holds as long as each key stands once on each side, which is checked over all files: then a row of an equal file has no
other row with its key. One scan reads both sides, so that both have the same columns and types.
"""

from collections.abc import Callable, Mapping, Sequence
from shutil import rmtree
from typing import Any, Final

from graveler.anywhere import AnyLake
from graveler.errors import InvalidError
from graveler.model import CommitID, ObjectEntry
from graveler.rowdiff.tables import Format, Sides, sides_of
from graveler.sdk.lake import Lake
from graveler.sdk.rows import SORTED, ColumnDifference, RowDiff
from graveler.sql.session import Session
from graveler.temporary import own_path

_FILE: Final = "file of this row, for graveler"
_THREADS: Final = "greatest(1, parse_formatted_bytes(current_setting('memory_limit')) // 128_000_000)"
"""The number of threads for which memory is enough: each pins blocks while it sorts, and fails if there is no room for them."""
_SCHEMES: Final = "graveler://"
_OPTIONS: Final = {
    # Each file's dialect is recognized from itself, but nothing that could leave lines out.
    Format.CSV: """, all_varchar=true, header=true, skip=0, quote='"', escape='"', comment=''""",
    # Each column's values as JSON: what type they would have depends on all other values.
    Format.JSON: ", maximum_depth=1, sample_size=-1",
    Format.PARQUET: "",
}
_READERS: Final = {Format.CSV: "read_csv", Format.JSON: "read_json", Format.PARQUET: "read_parquet"}

Columns = dict[str, str]
"""Names and DuckDB's types."""


def row_diff(
    lake: AnyLake, repository: str, left: CommitID, right: CommitID, path: str, keys: Sequence[str], memory_limit: str
) -> RowDiff:
    """Compare the table at ``path`` of two commits; :meth:`Reference.diff_rows` says how, and which errors there are."""
    sides = sides_of(lake.repository(repository), left, right, path)
    session = Session(Lake(lake))
    folder = own_path()

    def close() -> None:
        session.close()
        rmtree(folder, ignore_errors=True)

    try:
        with session.explained():
            session.connection.execute("SET temp_directory = $1", [str(folder)])
            session.connection.execute("SET preserve_insertion_order = false")
            session.connection.execute("SET memory_limit = $1", [memory_limit])
            session.connection.execute(f"SET threads = least(current_setting('threads'), {_THREADS})")
        comparison = _Comparison(session, repository, left, right, sides, tuple(keys))
        return comparison.run(close)
    except BaseException:
        close()
        raise


class _Comparison:
    def __init__(
        self, session: Session, repository: str, left: CommitID, right: CommitID, sides: Sides, keys: tuple[str, ...]
    ) -> None:
        self._session = session
        self._repository = repository
        self._left = left
        self._right = right
        self._sides = sides
        self._keys = keys
        self._options = _OPTIONS[sides.format]

    def run(self, close: Callable[[], None]) -> RowDiff:
        if len(set(self._keys)) < len(self._keys):
            raise InvalidError(f"a key column is named twice: {', '.join(map(repr, self._keys))}")
        differing = self._sides.differing()
        changes: tuple[ColumnDifference, ...] = ()
        columns: Columns = {}
        if differing.left or differing.right:
            changes = self._column_differences(differing)
            if self._keys:
                differing = self._pruned_for_keys(differing)
            columns = self._columns(differing.left, differing.right)
            self._execute(self._compared(differing, columns))
        else:
            self._check_named_keys()
            self._execute(
                f"CREATE TABLE differences AS SELECT '' AS type, {self._no_key()}NULL AS before, NULL AS after LIMIT 0"
            )
        counts: dict[str, int] = dict(self._rows("SELECT type, count(*) FROM differences GROUP BY type"))
        order = f" ORDER BY {'key' if self._keys else 'coalesce(before, after)'}, type"
        return RowDiff(
            self._session,
            f"SELECT * FROM differences{order if sum(counts.values()) <= SORTED else ''}",
            counts,
            changes,
            is_json=self._sides.format is Format.JSON,
            close=close,
        )

    def _check_named_keys(self) -> None:
        """Check that a table without differences has the key columns. Reads one file's schema; all of them, if that lacks one."""
        files = self._sides.left
        if not self._keys or not files:
            return
        first = min(files)
        if _missing(self._keys, self._columns({first: files[first]}, {})):
            self._check_keys("left", self._columns(files, {}))

    def _check_keys(self, side: str, columns: Columns) -> None:
        if missing := _missing(self._keys, columns):
            raise InvalidError(
                f"the {side} side has no column {missing[0]!r}; its columns are {', '.join(map(repr, columns))}"
            )

    def _no_key(self) -> str:
        return "NULL AS key, " if self._keys else ""

    def _compared(self, files: Sides, columns: Columns) -> str:
        """Return the statement that makes the table of differences."""
        short = {name: f"c{at}" for at, name in enumerate(columns)}
        values = ", ".join(f"{_name(name)}{self._cast()} AS {alias}" for name, alias in short.items())
        scan = self._scan(files.left, files.right)
        if not self._keys:
            row = _struct(short)
            names = ", ".join(short.values())
            return f"""
                CREATE TABLE differences AS
                WITH counted AS (
                    SELECT {names}, sum(CASE WHEN on_left THEN -1 ELSE 1 END)::BIGINT AS surplus
                    FROM (SELECT {values}, {self._on_left()} AS on_left FROM {scan})
                    GROUP BY {names} HAVING surplus <> 0
                ), repeated AS (SELECT *, unnest(range(abs(surplus))) AS nth FROM counted)
                SELECT CASE WHEN surplus > 0 THEN 'added' ELSE 'removed' END AS type,
                    CASE WHEN surplus < 0 THEN {row} END AS before,
                    CASE WHEN surplus > 0 THEN {row} END AS after
                FROM repeated"""
        keys = [short[key] for key in self._keys]
        joined = " AND ".join(f"l.{key} IS NOT DISTINCT FROM r.{key}" for key in keys)
        unequal = "".join(f" OR l.{alias} IS DISTINCT FROM r.{alias}" for alias in short.values() if alias not in keys)
        key = ", ".join(
            f"{_name(name)} := CASE WHEN l.here THEN l.{short[name]} ELSE r.{short[name]} END" for name in self._keys
        )
        return f"""
            CREATE TABLE differences AS
            WITH l AS (SELECT {values}, true AS here FROM {scan} WHERE {self._on_left()}),
                r AS (SELECT {values}, true AS here FROM {scan} WHERE NOT {self._on_left()})
            SELECT CASE WHEN l.here IS NULL THEN 'added' WHEN r.here IS NULL THEN 'removed' ELSE 'changed' END AS type,
                struct_pack({key}) AS key,
                CASE WHEN l.here THEN {_struct(short, "l.")} END AS before,
                CASE WHEN r.here THEN {_struct(short, "r.")} END AS after
            FROM l FULL JOIN r ON {joined}
            WHERE l.here IS NULL OR r.here IS NULL{unequal}"""

    def _column_differences(self, differing: Sides) -> tuple[ColumnDifference, ...]:
        """Return how the columns differ, if there is a table on both sides. Files that are equal have a part in it only if those
        that differ have other columns."""
        if not self._sides.left or not self._sides.right:
            return ()
        before, after = (self._columns(differing.left, {}), self._columns({}, differing.right))
        if before == after:
            return ()
        before, after = (self._columns(self._sides.left, {}), self._columns({}, self._sides.right))
        return tuple(
            ColumnDifference(name, before.get(name), after.get(name))
            for name in before | after
            if before.get(name) != after.get(name)
        )

    def _pruned_for_keys(self, differing: Sides) -> Sides:
        """Check the keys over all files, and return the files to compare: all, if the keys' types depend on equal ones."""
        for side, files in (("left", (self._sides.left, {})), ("right", ({}, self._sides.right))):
            columns = self._columns(*files)
            if columns:
                self._check_keys(side, columns)
        everything = (self._sides.left, self._sides.right)
        keys = ", ".join(f"{_name(key)}{self._cast()} AS k{at}" for at, key in enumerate(self._keys))
        names = ", ".join(f"k{at}" for at in range(len(self._keys)))
        for on_left, *values in self._rows(
            f"SELECT on_left, {names} FROM (SELECT {keys}, {self._on_left()} AS on_left FROM {self._scan(*everything)})"
            f" GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        ):
            found = ", ".join(f"{key} = {value}" for key, value in zip(self._keys, values, strict=True))
            raise InvalidError(
                f"several rows of the {'left' if on_left else 'right'} side have the key {found}; "
                "name more columns, or compare whole rows"
            )
        of_all, of_some = (self._columns(*everything), self._columns(differing.left, differing.right))
        same_types = all(of_all[key] == of_some.get(key) for key in self._keys)
        return differing if same_types else self._sides

    def _columns(self, left: Mapping[str, ObjectEntry], right: Mapping[str, ObjectEntry]) -> Columns:
        if not left and not right:
            return {}
        described = self._rows(f"DESCRIBE SELECT * FROM {self._scan(left, right)}")
        return {name: kind for name, kind, *_ in described if name != _FILE}

    def _scan(self, left: Mapping[str, ObjectEntry], right: Mapping[str, ObjectEntry]) -> str:
        """Return the call of a table function that reads these files, with a column of their addresses."""
        addresses = [
            _quoted(f"{_SCHEMES}{self._repository}/{commit}/{_literally(path)}")
            for commit, paths in ((self._left, left), (self._right, right))
            for path in sorted(paths)
        ]
        partitioned = "true, hive_types_autocast=false" if self._sides.partitions else "false"
        return (
            f"{_READERS[self._sides.format]}([{', '.join(addresses)}], union_by_name=true, filename={_quoted(_FILE)}, "
            f"hive_partitioning={partitioned}{self._options})"
        )

    def _on_left(self) -> str:
        """Return the condition that a row is of the left side."""
        address = f"replace({_name(_FILE)}, '{_SCHEMES}', '')"
        return f"starts_with({address}, {_quoted(f'{self._repository}/{self._left}/')})"

    def _cast(self) -> str:
        return "::VARCHAR" if self._sides.format is Format.JSON else ""

    def _execute(self, statement: str) -> None:
        with self._session.explained():
            self._session.connection.execute(statement)

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._session.explained():
            return self._session.connection.execute(statement).fetchall()


def _missing(keys: Sequence[str], columns: Columns) -> list[str]:
    return [key for key in keys if key not in columns]


def _struct(short: Mapping[str, str], of: str = "") -> str:
    return f"struct_pack({', '.join(f'{_name(name)} := {of}{alias}' for name, alias in short.items())})"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literally(path: str) -> str:
    """Return a pattern that only this path matches."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in path)
