"""Random histories of a table on branches, by statements of Spark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from graveler.requests.iceberg import Identifier
from graveler.sdk.iceberg_tables import Tables
from tests.lake.iceberg.histories import Histories
from tests.lake.iceberg.row_reader import Document, Values, names_of, read_rows
from tests.spark.spark_sql import SparkSql, StatementError

P, KEY, VALUE, ORIGIN, NOTE = range(1, 6)
NAMES = {P: "p", KEY: "key", VALUE: "value", ORIGIN: "origin", NOTE: "note"}
PARTITIONS = ("p", "", "p, bucket(2, key)", "p", "key", "truncate(1, value)")
BRANCHES = ("main", "source", "order")
_CREATING = ("append", "overwrite", "merge")
_REMOVING = ("delete", "update", "move", "clear", "truncate")
_ON_ALL_ROWS = "TRUE"
_ON_SOME_ROWS = "Cannot delete file where some, but not all, rows match filter"
FOR_ROWS = {"add_column", "rename_column", "drop_column", "widen", "reorder"}
"""Changes of metadata that show in rows."""


class Operation(NamedTuple):
    """An operation of a history. ``is_undone`` is whether the table is rolled back to the snapshot before it."""

    verb: str
    partition: int = 0
    key: int = 0
    text: str = "a"
    is_undone: bool = False


class Kind(NamedTuple):
    """A kind of tables: the format version, the partition fields, whether rows are only removed where nobody added some, and the
    verbs of SQL that write deletes instead of files without the rows."""

    version: int
    partitions: str
    is_isolated: bool
    on_read: frozenset[str]
    granularity: str

    @property
    def properties(self) -> dict[str, str]:
        """The properties of a table."""
        level = "serializable" if self.is_isolated else "snapshot"
        properties = {"format-version": str(self.version), "write.delete.granularity": self.granularity}
        for verb in ("delete", "update", "merge"):
            properties[f"write.{verb}.mode"] = "merge-on-read" if verb in self.on_read else "copy-on-write"
            properties[f"write.{verb}.isolation-level"] = level
        return properties


def random_kind(random: Random) -> Kind:
    """Return a kind: more often one below serializable isolation, where more merges have no conflict. That level compares
    partitions, and is that of the work in order only where each condition names one: so tables of that level are partitioned by
    p, or not at all."""
    modes = random.choice([(), ("delete",), ("update", "merge"), ("delete", "update", "merge")])
    is_isolated = random.random() < 0.25
    return Kind(
        random.choice((2, 3)),
        random.choice(("p", "") if is_isolated else PARTITIONS),
        is_isolated,
        frozenset(modes),
        random.choice(("file", "partition")),
    )


def random_operation(random: Random, kind: Kind) -> Operation:
    """Return an operation: more often one that changes rows."""
    verbs = ["append"] * 4 + ["delete", "update", "merge"] * 3 + ["move", "overwrite", "clear", "compact", "compact"]
    verbs += ["truncate"] if random.random() < 0.1 else []
    if random.random() < 0.4:
        verbs = ["compact_deletes", "manifests", "expire", "property", "mode", "tag", "add_column", "rename_column"]
        verbs += [
            "drop_column",
            "widen",
            "reorder",
            "spec",
            "sort_order",
            *(["upgrade"] * 2 if kind.version == 2 else []),
        ]
    verb = random.choice(verbs)
    is_undone = verb in (*_CREATING, *_REMOVING, "compact") and random.random() < 0.07
    text = random.choice("a" if verb == "spec" and kind.is_isolated else "ab")
    return Operation(verb, random.randrange(2), random.randint(1, 3), text, is_undone)


def with_event(random: Random, operations: list[Operation], share: float) -> list[Operation]:
    """Return operations, in a share of all calls with one more, which renames or drops the table."""
    if random.random() < share:
        event = Operation(random.choice(("rename", "rename", "drop")), text=random.choice("ab"))
        operations.insert(random.randint(0, len(operations)), event)
    return operations


@dataclass
class Side:
    """A branch of a history: the name that its rows have as their origin, and the work, each with whether it matched rows of the
    base, and the rows that it made from nothing. ``table`` is the name that the table has there, or had when it was
    dropped."""

    branch: str
    origin: str
    table: Identifier
    is_dropped: bool = False
    work: list[tuple[Operation, bool, list[Document]]] = field(default_factory=list)

    def on_branch(self, branch: str, origin: str) -> "Side":
        """Return the table as this side has it, on a branch that does other work."""
        return Side(branch, origin, self.table, self.is_dropped)

    @property
    def verbs(self) -> set[str]:
        """The verbs of its work."""
        return {operation.verb for operation, *_ in self.work}


class Worker:
    """Work on one branch's table, by Spark."""

    def __init__(self, histories: Histories, spark: SparkSql, side: Side, kind: Kind, random: Random) -> None:
        self._histories, self._spark, self.side, self._kind, self._random = histories, spark, side, kind, random

    @property
    def table(self) -> str:
        """The table's name for Spark."""
        return f"{self.side.branch}.shop.{self.side.table.name}"

    def document(self) -> Document:
        """Return the table's metadata."""
        return self._histories.load(self.side.branch, self.side.table).document

    def create(self) -> None:
        """Create the table, empty."""
        properties = ", ".join(f"'{name}' = '{text}'" for name, text in self._kind.properties.items())
        partitions = f"PARTITIONED BY ({self._kind.partitions})" if self._kind.partitions else ""
        columns = "p INT, key INT, value STRING, origin STRING, note STRING"
        self._spark.rows(
            f"CREATE TABLE {self.table} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({properties})"
        )

    def act(self, operation: Operation) -> None:
        """Do an operation as the branch's own work, and note it if it was done; nothing on a table that was dropped."""
        if self.side.is_dropped:
            return
        if operation.verb in ("rename", "drop"):
            self._rename(operation.text) if operation.verb == "rename" else self._drop()
            self.side.work.append((operation, False, []))
            return
        document = self.document()
        columns = self._columns_of(operation)
        matched = [row for row in read_rows(document) if all(row[number] == value for number, value in columns.items())]
        created = self._created(operation, document)
        if operation.verb in _REMOVING and not matched:
            return
        if operation.verb == "overwrite":
            done = self._overwrite(operation, document, created)
        else:
            done = self._do(operation, document, self._condition(operation, None), created)
        if operation.is_undone:
            self._undo(document)
        elif done:
            of_base = any(row[ORIGIN] == "base" for row in matched)
            self.side.work.append((operation, of_base, created))

    def _rename(self, suffix: str) -> None:
        table = self.side.table
        renamed = Identifier(table.namespace, f"{table.name.partition('_')[0]}_{suffix}")
        if renamed != table:
            self._spark.rows(f"ALTER TABLE {self.table} RENAME TO {renamed}")
            self.side.table = renamed

    def _drop(self) -> None:
        self._spark.rows(f"DROP TABLE {self.table}")
        self.side.is_dropped = True

    def repeat(self, side: Side, of: str) -> None:
        """Do the work of another side on this branch, whose own work has origin ``of``: what matched rows of the base is done on
        all rows, anything else on that side's own rows. Below serializable isolation, nothing sees the other's."""
        for operation, of_base, created in side.work:
            if operation.verb not in {*FOR_ROWS, *_CREATING, *_REMOVING}:
                continue
            origins = {side.origin} | ({"base"} | ({of} if self._kind.is_isolated else set()) if of_base else set())
            document = self.document()
            condition = self._condition(operation, origins)
            if operation.verb == "overwrite":
                self._spark.rows(f"DELETE FROM {self.table} WHERE {condition}")
                self._insert(document, created)
            else:
                self._do(operation, document, condition, created)

    def _columns_of(self, operation: Operation) -> Values:
        if operation.verb in ("clear", "overwrite") and (operation.verb == "clear" or self._kind.partitions):
            return {P: operation.partition}
        if operation.verb in ("truncate", "overwrite"):
            return {}
        return {P: operation.partition, KEY: operation.key}

    def _condition(self, operation: Operation, origins: Iterable[str] | None) -> str:
        parts = [f"{NAMES[number]} = {value}" for number, value in self._columns_of(operation).items()]
        if origins is not None:
            parts.append(f"origin IN ({', '.join(map(_literal, sorted(origins)))})")
        return " AND ".join(parts) or _ON_ALL_ROWS

    def _created(self, operation: Operation, document: Document) -> list[Document]:
        if operation.verb not in _CREATING:
            return []
        label = f"{self.side.origin}{len(self.side.work)}"
        rows = []
        for key in sorted({operation.key, 1}) if operation.verb == "append" else [operation.key]:
            row = {"p": operation.partition, "key": key, "value": label, "origin": self.side.origin}
            later = [_logical_name(number, name) for number, name in names_of(document).items() if number >= NOTE]
            rows.append(row | {name: f"{name[0]}-{label}" for name in later})
        return rows

    def _do(self, operation: Operation, document: Document, condition: str, created: list[Document]) -> bool:
        if operation.verb == "append":
            self._insert(document, created)
        elif operation.verb == "merge":
            self._merge(document, condition, created[0])
        elif operation.verb in ("delete", "clear", "truncate"):
            self._spark.rows(f"DELETE FROM {self.table} WHERE {condition}")
        elif operation.verb in ("update", "move"):
            moved = ", p = 1 - p" if operation.verb == "move" else ""
            self._spark.rows(f"UPDATE {self.table} SET {self._changed()}{moved} WHERE {condition}")
        else:
            statements = self._upkeep(operation, document) or self._metadata(operation, document)
            for statement in statements:
                self._spark.rows(statement)
            return bool(statements)
        return True

    def _changed(self, alias: str = "") -> str:
        origin = self.side.origin
        return f"value = concat({alias}value, '+{origin[0]}'), origin = '{origin}'"

    def _insert(self, document: Document, rows: Sequence[Document]) -> None:
        values = ", ".join(f"({', '.join(self._values(document, row))})" for row in rows)
        self._spark.rows(f"INSERT INTO {self.table} VALUES {values}")

    def _values(self, document: Document, row: Document) -> list[str]:
        return [_literal(row.get(_logical_name(number, name))) for number, name in names_of(document).items()]

    def _merge(self, document: Document, condition: str, row: Document) -> None:
        names, values = list(names_of(document).values()), self._values(document, row)
        source = ", ".join(f"{value} AS {name}" for name, value in zip(names, values, strict=True))
        # The condition names columns of the target only: those of the new row have other names.
        renamed = ", ".join(f"{name} AS new_{name}" for name in names)
        inserted = ", ".join(f"s.new_{name}" for name in names)
        self._spark.rows(
            f"MERGE INTO {self.table} t USING (SELECT {renamed} FROM (SELECT {source})) s ON {condition} "
            f"WHEN MATCHED THEN UPDATE SET {self._changed('t.')} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({inserted})"
        )

    def _overwrite(self, operation: Operation, document: Document, created: list[Document]) -> bool:
        """Overwrite a partition, or a table without partitions. Return whether the files' partitions allow it."""
        fields = [part for spec in document["partition-specs"] for part in spec["fields"]]
        if not self._kind.partitions:
            if fields:
                return False
            row = ", ".join(self._values(document, created[0]))
            self._spark.rows(f"INSERT OVERWRITE {self.table} VALUES ({row})")
            return True
        present = next(spec for spec in document["partition-specs"] if spec["spec-id"] == document["default-spec-id"])
        if not any(part["name"] == "p" and part["transform"] == "identity" for part in present["fields"]):
            return False
        is_dynamic = [part["name"] for part in fields] == ["p"] and self._random.random() < 0.5
        names = names_of(document).items()
        values = [
            _literal(created[0].get(_logical_name(number, name))) for number, name in names if is_dynamic or number != P
        ]
        partition = "" if is_dynamic else f"PARTITION (p = {operation.partition})"
        mode = "dynamic" if is_dynamic else "static"
        self._spark.rows(f"SET spark.sql.sources.partitionOverwriteMode = {mode}")
        try:
            self._spark.rows(f"INSERT OVERWRITE {self.table} {partition} SELECT {', '.join(values)}")
        except StatementError as error:
            if _ON_SOME_ROWS not in str(error):
                raise
            return False
        finally:
            self._spark.rows("SET spark.sql.sources.partitionOverwriteMode = static")
        return True

    def _undo(self, before: Document) -> None:
        number = before.get("current-snapshot-id")
        if number not in (None, self.document().get("current-snapshot-id")):
            self._call("rollback_to_snapshot", f"table => '{self._name}', snapshot_id => {number}")

    @property
    def _name(self) -> str:
        return f"shop.{self.side.table.name}"

    def _call(self, procedure: str, arguments: str) -> None:
        self._spark.rows(self._procedure(procedure, arguments))

    def _procedure(self, procedure: str, arguments: str) -> str:
        return f"CALL {self.side.branch}.system.{procedure}({arguments})"

    def _upkeep(self, operation: Operation, document: Document) -> list[str]:
        """Return the statements of an operation that changes neither rows nor what their columns are."""
        table = f"table => '{self._name}'"
        every_file = "options => map('rewrite-all', 'true')"
        match operation.verb:
            case "compact":
                where = f"where => 'p = {operation.partition}'" if self._random.random() < 0.7 else ""
                order = "strategy => 'sort', sort_order => 'key DESC'" if operation.text == "b" else ""
                return [
                    self._procedure("rewrite_data_files", ", ".join(filter(None, (table, where, order, every_file))))
                ]
            case "compact_deletes":
                return [self._procedure("rewrite_position_delete_files", f"{table}, {every_file}")]
            case "manifests":
                return [self._procedure("rewrite_manifests", f"{table}, use_caching => false")]
            case "expire":  # Spark's procedure does not work in a folder
                tables = Tables(self._histories.repository, self.side.branch)
                tables.expire(self._name, older_than=float(1 << 40), keep_last=1)
                return []
            case "property":
                return [f"ALTER TABLE {self.table} SET TBLPROPERTIES ('{operation.text}' = '{operation.key}')"]
            case "mode":
                verb = self._random.choice(("delete", "update", "merge"))
                mode = {"a": "merge-on-read", "b": "copy-on-write"}[operation.text]
                return [f"ALTER TABLE {self.table} SET TBLPROPERTIES ('write.{verb}.mode' = '{mode}')"]
            case "tag":
                if document.get("current-snapshot-id") is None:
                    return []
                return [f"ALTER TABLE {self.table} CREATE OR REPLACE TAG `{self.side.origin}-{operation.text}`"]
            case "sort_order":
                column = {"a": "key", "b": "value"}[operation.text]
                return [f"ALTER TABLE {self.table} WRITE LOCALLY ORDERED BY {column}"]
            case "upgrade":
                return [f"ALTER TABLE {self.table} SET TBLPROPERTIES ('format-version' = '3')"]
            case "spec":
                return [f"ALTER TABLE {self.table} {self._changed_spec(operation, document)}"]
        return []

    def _changed_spec(self, operation: Operation, document: Document) -> str:
        field, transform = {"a": ((P, "identity"), "p"), "b": ((KEY, "bucket[2]"), "bucket(2, key)")}[operation.text]
        present = next(spec for spec in document["partition-specs"] if spec["spec-id"] == document["default-spec-id"])
        is_present = any((part["source-id"], part["transform"]) == field for part in present["fields"])
        return f"DROP PARTITION FIELD {transform}" if is_present else f"ADD PARTITION FIELD {transform}"

    def _metadata(self, operation: Operation, document: Document) -> list[str]:
        """Return the statements of an operation that changes columns."""
        names, text = names_of(document), operation.text
        note = names.get(NOTE)
        match operation.verb:
            case "add_column" if f"extra_{text}" not in names.values():
                return [f"ALTER TABLE {self.table} ADD COLUMN extra_{text} STRING"]
            case "rename_column" if note not in (None, f"note_{text}"):
                return [f"ALTER TABLE {self.table} RENAME COLUMN {note} TO note_{text}"]
            case "drop_column" if note is not None:
                return [f"ALTER TABLE {self.table} DROP COLUMN {note}"]
            case "widen":
                return [f"ALTER TABLE {self.table} ALTER COLUMN key TYPE BIGINT"]
            case "reorder":
                place = {"a": "FIRST", "b": "AFTER p"}[text]
                return [f"ALTER TABLE {self.table} ALTER COLUMN origin {place}"]
        return []


def _logical_name(number: int, name: str) -> str:
    return NAMES.get(number, name)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)
