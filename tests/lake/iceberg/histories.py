"""Random histories of a table on branches of a lake, by PyIceberg and by a writer of row-level deletes."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.types import StringType

import graveler
from graveler.lake.iceberg.catalog_reader import CatalogReader, LoadedRelation
from graveler.lake.iceberg.linked_files import FOLDER_FIELD
from graveler.lake.repository import OpenRepository
from graveler.requests.iceberg import Identifier, TableChange
from graveler.sdk.iceberg_tables import Tables
from graveler.table_format.reached_files import reached_files
from graveler.table_format.row_id_blocks import with_own_row_ids
from tests.lake.iceberg.row_reader import Document, Rows, Values, names_of, read_rows
from tests.lake.iceberg.row_writer import RowChange, RowWriter

P, KEY, VALUE, ORIGIN, NOTE = range(1, 6)
COLUMNS = {P: "int", KEY: "int", VALUE: "string", ORIGIN: "string", NOTE: "string"}
NAMES = {P: "p", KEY: "key", VALUE: "value", ORIGIN: "origin", NOTE: "note"}
_KINDS = ("delete", "update", "merge")


class Operation(NamedTuple):
    """An operation of a history. ``way`` is how a change of rows is written: ``copy``, ``position``, ``equality``; format version
    1 has only the first."""

    verb: str
    partition: int = 0
    key: int = 0
    way: str = ""
    text: str = ""


class Kind(NamedTuple):
    """A kind of tables: the format version, whether partitioned, whether deletes by value are written (which PyIceberg does not
    read), and the isolation level."""

    version: int = 2
    partitioned: bool = True
    equality: bool = False
    isolated: bool = True


def random_operation(random: Random, kind: Kind) -> Operation:
    """Return an operation: more often one that changes rows."""
    verbs = ["append"] * 3 + ["delete", "update"] * 3 + ["move", "overwrite", "compact", "expire"]
    verbs += ["property", "add_column", "rename_column", "drop_column", "spec", "tag"] if random.random() < 0.4 else []
    verbs += ["upsert"] * 2 if kind.equality else []
    ways = ["copy", "position", *(["equality"] if kind.equality else [])]
    return Operation(
        random.choice(verbs), random.randrange(2), random.randint(1, 3), random.choice(ways), random.choice("ab")
    )


def random_event(random: Random) -> Operation:
    """Return an operation that concerns a table as a whole: its name, its format, or whether it exists."""
    return Operation(
        random.choice(["rename", "rename", "rename", "upgrade", "upgrade", "drop", "remake"]), text=random.choice("ab")
    )


@dataclass
class Side:
    """A branch of a history: the name that its rows have as their origin, and what was done, each with whether it matched rows of
    the base, and the rows that it made from nothing. ``table`` is the name that the table has there, or had when it was
    dropped."""

    branch: str
    origin: str
    table: Identifier
    work: list[tuple[Operation, bool, list[Document]]] = field(default_factory=list)
    is_dropped: bool = False

    def on_branch(self, branch: str, origin: str) -> "Side":
        """Return the table as this side has it, on a branch that does other work."""
        return Side(branch, origin, self.table, is_dropped=self.is_dropped)


class Histories:
    """A lake with one repository, in which each history is a table. Use as a context. The lake is made in ``folder``; without
    one, it is the empty lake at ``place``, as ``graveler.open`` takes it, which the environment names."""

    def __init__(self, folder: Path | None, place: Mapping[str, Any] | None = None) -> None:
        self._catalogs: dict[str, Catalog] = {}
        if folder is not None:
            graveler.create(folder, user="ada").close()
        self._properties = {} if folder is None else {"lake": str(folder)}
        self._handle = graveler.open(**(place or {"location": folder}), user="ada")
        self._handle.repository("sales").create()
        verbs: Any = self._handle.verbs
        self.repository: OpenRepository = verbs.repository("sales")
        self.repository.create_namespace("main", namespace=("shop",))
        self._count = 0
        self._forks = set[str]()

    def __enter__(self) -> "Histories":
        return self

    def __exit__(self, *error: object) -> None:
        for catalog in self._catalogs.values():
            catalog.close()
        self._handle.close()

    @property
    def location(self) -> str:
        """The folder of the lake."""
        return self._properties["lake"]

    def catalog(self, branch: str) -> Catalog:
        """Return PyIceberg's catalog of a branch."""
        if branch not in self._catalogs:
            properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "warehouse": f"sales@{branch}"}
            self._catalogs[branch] = load_catalog("test", **properties, **self._properties)
        return self._catalogs[branch]

    def load(self, branch: str, table: Identifier) -> LoadedRelation:
        """Return a table as a branch has it."""
        return CatalogReader(self.repository.parts, branch).load(table)

    def check(self, branch: str, table: Identifier, message: object = None) -> None:
        """Check a table against the specification, and that all files that it reaches are linked and there."""
        violations = Tables(self.repository, branch).load(str(table)).check()
        assert not violations, (violations, message)

    def check_absence(self, branch: str, table: Identifier, message: object = None) -> None:
        """Check that a branch has neither the table, by any name that a history gives it, nor a link of its files."""
        name = table.name.partition("_")[0]
        prefixes = (f"_iceberg/shop/{name}", f"_iceberg/.files/shop/{name}")
        paths = [entry.path for prefix in prefixes for entry in self.repository.objects(branch, prefix)]
        assert not [path for path in paths if re.search(rf"/{name}[._-]", path)], message

    def check_links(self, branch: str, table: Identifier, message: object = None) -> None:
        """Check that a branch links the files that a table reaches, and no other, as it does before a merge."""
        present = Tables(self.repository, branch).load(str(table))
        reached = {present.path_of(location) for location in reached_files(present.metadata, present.read_file)}
        linked = self.repository.objects(branch, present.entry.metadata[FOLDER_FIELD])
        assert {entry.path for entry in linked} == reached, message

    def check_folders(self, branch: str, table: Identifier, message: object = None) -> None:
        """Check that each link on a branch, of those of a table by any name that a history gives it, is of a table there."""
        name = table.name.partition("_")[0]
        entries = self.repository.objects(branch, f"_iceberg/shop/{name}")
        folders = tuple(entry.metadata[FOLDER_FIELD] for entry in entries if entry.path.endswith(".table"))
        paths = [entry.path for entry in self.repository.objects(branch, f"_iceberg/.files/shop/{name}")]
        links = [path for path in paths if re.search(rf"/{name}[._-]", path)]
        assert not [path for path in links if not path.startswith(folders)], message

    def begin(self, kind: Kind) -> Identifier:
        """Make a table with two rows in each of two partitions on main, and point the other branches to it."""
        self._count += 1
        table = Identifier(("shop",), f"orders{self._count}")
        self.repository.create_table("main", table=table, definition=definition_of(kind))
        return table

    def fork(self, branch: str, of: str = "main") -> None:
        """Point a branch to the head of another."""
        if branch in self._forks:
            self.repository.delete_branch(branch)
        self._forks.add(branch)
        self.repository.create_branch(branch, of)


def definition_of(kind: Kind) -> Document:
    """Return the definition of a new table of a kind."""
    columns = [
        {"id": number, "name": NAMES[number], "type": column_type, "required": False}
        for number, column_type in COLUMNS.items()
    ]
    fields = [{"name": "p", "transform": "identity", "source-id": P, "field-id": 1000}]
    level = "serializable" if kind.isolated else "snapshot"
    return {
        "schema": {"type": "struct", "fields": columns, "schema-id": 0},
        "partition-spec": {"spec-id": 0, "fields": fields if kind.partitioned else []},
        "properties": {
            "format-version": str(kind.version),
            **{f"write.{verb}.isolation-level": level for verb in _KINDS},
        },
    }


class Session:
    """Operations on one branch's table."""

    def __init__(self, histories: Histories, side: Side, random: Random, kind: Kind) -> None:
        self._histories, self.side, self._random, self._kind = histories, side, random, kind
        self._writer = RowWriter(histories.repository, random)

    @property
    def document(self) -> Document:
        """The table's metadata, as the branch's catalog serves them."""
        document = self._histories.load(self.side.branch, self.side.table).document
        return with_own_row_ids(document, self.side.branch, "main")

    def _table(self) -> Table:
        table = self.side.table
        return self._histories.catalog(self.side.branch).load_table((*table.namespace, table.name))

    def act(self, operation: Operation) -> None:
        """Do an operation as the branch's own work, and note it; nothing on a table that was dropped."""
        if self.side.is_dropped:
            return
        document = self.document
        rows = read_rows(document)
        is_match = _matcher(operation, None)
        matched = [row for row in rows if is_match(row)]
        created = self._created(operation, document)
        if operation.verb in ("delete", "update", "move") and not matched:
            return
        self._do(operation, document, rows, None, created)
        of_base = any(row[ORIGIN] == "base" for row in matched)
        named = [_logical(document, row) for row in created]
        self.side.work.append((operation, of_base, named))

    def repeat(self, side: Side, *, isolated: bool, of: str) -> None:
        """Do the work of another side on this branch, whose own work has origin ``of``: what matched rows of the base is done on
        all rows, anything else on that side's own rows. Below serializable isolation, nothing sees the other's."""
        for operation, of_base, named in side.work:
            if self.side.is_dropped:
                return
            origins = {side.origin} | ({"base"} | ({of} if isolated else set()) if of_base else set())
            document = self.document
            ids = {_logical_name(number, name): number for number, name in names_of(document).items()}
            created = [{ids[name]: value for name, value in row.items() if name in ids} for row in named]
            self._do(operation, document, read_rows(document), origins, created)

    def _created(self, operation: Operation, document: Document) -> list[Values]:
        if operation.verb not in ("append", "upsert", "overwrite"):
            return []
        names = names_of(document)
        rows = []
        for key in {operation.key, 1} if operation.verb == "append" else {operation.key}:
            label = f"{self.side.origin}{len(self.side.work)}"
            row = {P: operation.partition, KEY: key, VALUE: label, ORIGIN: self.side.origin}
            row |= {number: f"{name[0]}-{label}" for number, name in names.items() if number >= NOTE}
            rows.append(row)
        return rows

    def _do(
        self, operation: Operation, document: Document, rows: Rows, origins: set[str] | None, created: list[Values]
    ) -> None:
        change: Callable[..., None] | None = getattr(self, f"_{operation.verb}", None)
        if change is not None:
            change(operation, document)
            return
        is_match = _matcher(operation, origins)
        hits = {path: {position: row for position, row in live if is_match(row)} for path, live in rows.live.items()}
        matched = [row for by_position in hits.values() for row in by_position.values()]
        if operation.verb in ("append", "upsert", "overwrite"):
            new = created
        elif operation.verb in ("update", "move"):
            new = [self._changed(operation, row) for row in matched]
        else:
            new = []
        if operation.verb == "compact":
            self._compact_rows(operation, document, rows)
        elif self._by_client(document, rows, operation):
            self._write_by_client(operation, document, origins, new)
        elif operation.verb == "append":
            self._commit(document, rows, RowChange("append", new))
        elif operation.verb == "upsert" or operation.way == "equality":
            self._delete_by_value(operation, document, rows, origins, matched, new)
        elif operation.way == "position" and operation.verb != "overwrite" and document["format-version"] > 1:
            positions = {path: set(by_position) for path, by_position in hits.items() if by_position}
            if positions:
                self._commit(document, rows, RowChange("overwrite", new, positions))
        else:
            self._rewrite(document, rows, hits, new)

    def _by_client(self, document: Document, rows: Rows, operation: Operation) -> bool:
        readable = not any(file.content == 2 for file in rows.deletes)
        return (
            document["format-version"] < 3
            and readable
            and (operation.way == "copy" or operation.verb in ("append", "overwrite"))
            and operation.verb != "upsert"
            and self._random.random() < 0.6
        )

    def _write_by_client(
        self, operation: Operation, document: Document, origins: set[str] | None, new: list[Values]
    ) -> None:
        table = self._table()
        names = names_of(document)
        schema = table.schema().as_arrow()
        data = pa.Table.from_pylist([{name: row.get(number) for number, name in names.items()} for row in new], schema)
        expression = f"p == {operation.partition}"
        if operation.verb != "overwrite":
            expression += f" and key == {operation.key}"
        if origins is not None:
            names_of_origins = ", ".join(f"'{origin}'" for origin in sorted(origins))
            expression += f" and origin in ({names_of_origins})"
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Delete operation did not match any records"
            )  # then there is nothing to do
            if operation.verb == "append":
                table.append(data)
            elif operation.verb == "delete":
                table.delete(expression)
            else:
                table.overwrite(data, expression)

    def _delete_by_value(
        self,
        operation: Operation,
        document: Document,
        rows: Rows,
        origins: set[str] | None,
        matched: list[Values],
        new: list[Values],
    ) -> None:
        """Delete by value; where some rows of the value are to stay, by position."""
        is_match = _matcher(operation, None)
        if origins is not None and any(is_match(row) and row[ORIGIN] not in origins for row in rows):
            positions = {
                path: {position for position, row in live if is_match(row) and row[ORIGIN] in origins}
                for path, live in rows.live.items()
            }
            positions = {path: values for path, values in positions.items() if values}
            if positions or new:
                self._commit(document, rows, RowChange("overwrite", new, positions))
            return
        keys = [{P: operation.partition, KEY: operation.key}]
        if operation.verb == "overwrite":
            keys = [{P: row[P], KEY: row[KEY]} for row in matched]
        if keys or new:
            self._commit(document, rows, RowChange("overwrite", new, {}, keys))

    def _rewrite(self, document: Document, rows: Rows, hits: dict[str, dict[int, Values]], new: list[Values]) -> None:
        removed = [path for path, by_position in hits.items() if by_position]
        rest = [row for path in removed for position, row in rows.live[path] if position not in hits[path]]
        if removed or new:
            self._commit(document, rows, RowChange("overwrite", [*rest, *new], removed=removed))

    def _compact_rows(self, operation: Operation, document: Document, rows: Rows) -> None:
        paths = [path for path, live in rows.live.items() if any(row[P] == operation.partition for _, row in live)]
        if paths:
            compacted = [row for path in paths for _, row in rows.live[path]]
            self._commit(document, rows, RowChange("replace", compacted, removed=paths))

    def _commit(self, document: Document, rows: Rows, change: RowChange) -> None:
        self._writer.commit(self.side.branch, self.side.table, document, rows, change)

    def _changed(self, operation: Operation, row: Values) -> Values:
        origin = self.side.origin
        changed = {**row, VALUE: f"{row[VALUE]}+{origin[0]}", ORIGIN: origin}
        return changed | ({P: 1 - row[P]} if operation.verb == "move" else {})

    def _update_metadata(self, *updates: Document) -> None:
        change = TableChange(self.side.table, (), updates)
        self._histories.repository.commit_tables(self.side.branch, tables=(change,))

    def _rename(self, operation: Operation, _: Document) -> None:
        table = self.side.table
        renamed = Identifier(table.namespace, f"{table.name.split('_')[0]}_{operation.text}")
        if renamed != table:
            self._histories.repository.rename_relation(self.side.branch, relation=table, destination=renamed)
            self.side.table = renamed

    def _drop(self, _: Operation, __: Document) -> None:
        self._histories.repository.drop_relation(self.side.branch, relation=self.side.table)
        self.side.is_dropped = True

    def _remake(self, operation: Operation, document: Document) -> None:
        self._drop(operation, document)
        self._histories.repository.create_table(
            self.side.branch, table=self.side.table, definition=definition_of(self._kind)
        )
        self.side.is_dropped = False

    def _upgrade(self, _: Operation, document: Document) -> None:
        version = document["format-version"]
        if version < 3:
            self._update_metadata({"action": "upgrade-format-version", "format-version": version + 1})

    def _expire(self, _: Operation, document: Document) -> None:
        named_ids = {ref["snapshot-id"] for ref in document["refs"].values()}
        expired = [part["snapshot-id"] for part in document["snapshots"] if part["snapshot-id"] not in named_ids]
        if expired:
            self._update_metadata({"action": "remove-snapshots", "snapshot-ids": expired})

    def _property(self, operation: Operation, _: Document) -> None:
        self._update_metadata({"action": "set-properties", "updates": {operation.text: str(operation.key)}})

    def _tag(self, operation: Operation, document: Document) -> None:
        number = document.get("current-snapshot-id", -1)
        if number not in (None, -1):  # a table without a snapshot: null in version 3
            tag = {"ref-name": f"{self.side.origin}-{operation.text}", "type": "tag", "snapshot-id": number}
            self._update_metadata({"action": "set-snapshot-ref", **tag})

    def _add_column(self, operation: Operation, document: Document) -> None:
        name = f"extra_{operation.text}"
        if name not in names_of(document).values():
            with self._table().update_schema() as schema:
                schema.add_column(name, StringType())

    def _rename_column(self, operation: Operation, document: Document) -> None:
        name = names_of(document).get(NOTE)
        if name is not None and name != f"note_{operation.text}":
            with self._table().update_schema() as schema:
                schema.rename_column(name, f"note_{operation.text}")

    def _drop_column(self, _: Operation, document: Document) -> None:
        name = names_of(document).get(NOTE)
        if name is not None:
            with self._table().update_schema() as schema:
                schema.delete_column(name)

    def _spec(self, operation: Operation, _: Document) -> None:
        name = {"a": "p", "b": "key"}[operation.text]
        table = self._table()
        with table.update_spec() as spec:
            if any(part.name == name for part in table.spec().fields):
                spec.remove_field(name)
            else:
                spec.add_identity(name)


def _matcher(operation: Operation, origins: Iterable[str] | None) -> Callable[[Values], bool]:
    def is_match(row: Values) -> bool:
        if origins is not None and row[ORIGIN] not in origins:
            return False
        if operation.verb in ("overwrite", "compact"):
            return bool(row[P] == operation.partition)
        return bool(row[P] == operation.partition and row[KEY] == operation.key)

    return is_match


def _logical_name(number: int, name: str) -> str:
    return NAMES.get(number, name)


def _logical(document: Document, row: Values) -> Document:
    names = names_of(document)
    return {_logical_name(number, names[number]): value for number, value in row.items()}
