"""Tables that PyIceberg writes in a folder, with branches: copies of a table's metadata that go on apart."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table

from graveler.errors import NotFoundError
from graveler.table_format.merge_results import MergedTable, MergeResult, MergeTerms, TableState
from graveler.table_format.merge_tables import merge_tables
from graveler.table_format.spec_check import check_table
from graveler.table_format.table_metadata import encode_metadata, read_table

Work = Callable[[Table], object]


def path_of(location: str) -> Path:
    """Return the path of a location."""
    return Path(urlparse(location).path)


class Branches:
    """Branches of one table in a folder."""

    def __init__(self, folder: Path) -> None:
        self._catalog = SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.sqlite", warehouse=f"file://{folder}")
        self._catalog.create_namespace("ns")
        self._count = 0
        self.folder = f"file://{folder}/ns/table/metadata"
        self.reads: list[str] = []

    def create(self, schema: Schema, *work: Work, **options: Any) -> TableState:
        """Make the table, do some work on it, and return its state."""
        table = self._catalog.create_table("ns.table", schema, **options)
        return self._done(table, work)

    def fork(self, state: TableState, *work: Work) -> TableState:
        """Do work on a branch that begins with a state."""
        self._count += 1
        return self._done(self._catalog.register_table(f"ns.branch{self._count}", state.location), work)

    def _done(self, table: Table, work: Sequence[Work]) -> TableState:
        for step in work:
            step(table)
        return self.state(table.refresh().metadata_location)

    def state(self, location: str) -> TableState:
        """Return the state that a metadata file has."""
        return TableState(read_table(path_of(location).read_bytes(), location), location)

    def read_file(self, location: str) -> bytes:
        """Read a file of the table."""
        self.reads.append(location)
        try:
            return path_of(location).read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(location) from error

    def merge(
        self, base: TableState | None, source: TableState | None, destination: TableState | None, **terms: Any
    ) -> MergeResult:
        """Merge two states."""
        return merge_tables(base, source, destination, self.read_file, MergeTerms(self.folder, **terms))

    def merged(
        self, base: TableState, source: TableState, destination: TableState, **terms: Any
    ) -> tuple[MergedTable, TableState]:
        """Merge two states, which have no conflict, and write the result."""
        result = self.merge(base, source, destination, **terms)
        assert isinstance(result, MergedTable), result
        return result, self.write(result)

    def write(self, result: MergedTable) -> TableState:
        """Write the files of a merged table, and its metadata."""
        for location, contents in result.files.items():
            path_of(location).write_bytes(contents)
        path_of(result.location).write_bytes(encode_metadata(result.metadata))
        state = self.state(result.location)
        assert check_table(state.metadata, lambda name: path_of(name).read_bytes()) == []
        return state


def rows_of(state: TableState) -> list[dict[str, Any]]:
    """Return the rows of a state as PyIceberg reads them, sorted."""
    rows = StaticTable.from_metadata(state.location).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])
