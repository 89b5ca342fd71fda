"""Random histories of a table on two branches, merged: the rows are those of the same work done in order on one branch.

PyIceberg writes what it can, a writer of row-level deletes the rest; PyIceberg, a reader of its own, and in ``make test-all``
DuckDB read. Then both branches go on, and are merged the other way. ``GRAVELER_TABLE_HISTORIES=n`` makes n histories instead of
the short form, and ``GRAVELER_TABLE_SEED=n`` begins with another one.
"""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from graveler.errors import MergeConflictError, NoChangesError
from tests.gateway.clients.tools import TABLES, commands_of
from tests.lake.iceberg.histories import Histories, Kind, Operation, Session, Side, random_operation
from tests.lake.iceberg.row_reader import Document, by_columns, multiset, names_of, read_rows

HISTORIES = int(os.environ.get("GRAVELER_TABLE_HISTORIES", "6"))
SEED = int(os.environ.get("GRAVELER_TABLE_SEED", "0"))
REFUTED = [
    507042,  # the source gave row IDs that the base had given, and compacted the file that showed it
]

KINDS = [
    Kind(version=2, partitioned=True, isolated=False),
    Kind(version=2, partitioned=True, equality=True, isolated=False),
    Kind(version=3, partitioned=True, isolated=False),
    Kind(version=2, partitioned=False),
    Kind(version=3, partitioned=False, isolated=False),
    Kind(version=2, partitioned=True),
    Kind(version=2, partitioned=False, equality=True, isolated=False),
    Kind(version=3, partitioned=True, equality=True),
]
METADATA = {
    "column": {"add_column", "rename_column", "drop_column"},
    "partition spec": {"spec"},
    "property": {"property"},
    "ref": {"tag"},
}


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Histories]:
    with Histories(tmp_path_factory.mktemp("oracle") / "lake") as histories:
        yield histories


class Round:
    """One history: a table of a kind, with work on main and on a branch ``source``."""

    def __init__(self, histories: Histories, seed: int) -> None:
        self.histories, self.kind = histories, KINDS[seed % len(KINDS)]
        self.compared: dict[str, Counter[Any]] = {}
        """The rows of each merged table by the location of its metadata."""
        self.random = Random(f"history-{seed}")
        self.table = histories.begin(self.kind)
        self._act(Side("main", "base", self.table), [Operation("append", 0, 2), Operation("append", 1, 2)])
        self._act(Side("main", "base", self.table), self._operations(0, 2))
        histories.fork("source")
        self.base = self.document("main")
        self.source = self._act(Side("source", "source", self.table), self._operations(1, 3))
        self.destination = self._act(Side("main", "destination", self.table), self._operations(1, 3))
        for branch in ("main", "source"):
            histories.check_links(branch, self.table)

    def _operations(self, least: int, most: int) -> list[Operation]:
        return [random_operation(self.random, self.kind) for _ in range(self.random.randint(least, most))]

    def _session(self, side: Side) -> Session:
        return Session(self.histories, side, self.random, self.kind)

    def _act(self, side: Side, operations: list[Operation]) -> Side:
        for operation in operations:
            self._session(side).act(operation)
        return side

    def document(self, branch: str) -> Document:
        return self.histories.load(branch, self.table).document

    def merge(self) -> bool:
        """Merge the branch into main and compare; return whether there was no conflict."""
        self.histories.fork("order")
        try:
            self.histories.repository.merge("source", "main")
        except MergeConflictError as conflict:
            check_reasons(str(conflict), self.kind, self.source, self.destination)
            return False
        except NoChangesError:
            return True
        order = Side("order", "source", self.table)
        self._session(order).repeat(self.source, isolated=self.kind.isolated, of="destination")
        self._compare("main", multiset(self.document("order")))
        return True

    def _compare(self, branch: str, expected: Counter[Any]) -> None:
        work = [(side.origin, [operation for operation, *_ in side.work]) for side in (self.source, self.destination)]
        loaded = self.histories.load(branch, self.table)
        self.compared[loaded.location] = expected
        assert multiset(loaded.document) == expected, work
        if not any(file.content == 2 for file in read_rows(loaded.document).deletes):
            assert read_by_pyiceberg(loaded.location) == expected, work
        self.histories.check(branch, self.table)

    def merge_back(self) -> bool:
        """Go on with both branches, and merge main into the other; return whether there was no conflict."""
        base = self.document("source")
        self._act(Side("main", "later", self.table), self._operations(1, 2))
        self._act(Side("source", "last", self.table), self._operations(0, 2))
        source, destination = self.document("main"), self.document("source")
        try:
            self.histories.repository.merge("main", "source")
        except MergeConflictError:
            return False
        names = names_of(self.document("source"))
        before, after, ours = (by_columns(read_rows(part), names) for part in (base, source, destination))
        self._compare("source", ours - (before - after) + (after - before))
        return True


def read_by_pyiceberg(location: str) -> Counter[Any]:
    rows = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    return Counter(tuple(sorted(row.items())) for row in rows)


def check_reasons(text: str, kind: Kind, source: Side, destination: Side) -> None:
    """Check that each reason of a conflict is true of what the sides did."""
    reasons = re.split(r"; table shop\.orders\d+: ", text.partition("; nothing was changed.")[0])[1:]
    assert reasons, text
    done = [{operation.verb for operation, *_ in side.work} for side in (source, destination)]
    places = [
        {
            partition
            for operation, *_ in side.work
            for partition in ((0, 1) if operation.verb == "move" else (operation.partition,))
        }
        for side in (source, destination)
    ]
    is_partitioned = kind.partitioned and "spec" not in done[0] | done[1]
    for reason in reasons:
        groups = [verbs for word, verbs in METADATA.items() if re.search(rf"\b{word}", reason)]
        if groups:
            assert all(any(verbs & group for group in groups) for verbs in done), (reason, done)
        elif "row IDs" in reason:
            assert kind.version == 3
        else:
            assert done[0] - {"append"} or "position" in reason or "deleted" in reason, (reason, done)
            assert places[0] & places[1] or not is_partitioned, (reason, places)


def test_histories_merge_as_the_work_in_order_and_go_on(histories: Histories) -> None:
    outcomes = Counter[str]()
    for seed in range(SEED, SEED + HISTORIES):
        history = Round(histories, seed)
        merged = history.merge()
        outcomes["merged" if merged else "conflict"] += 1
        if merged:
            outcomes["merged back" if history.merge_back() else "conflict back"] += 1
    assert outcomes["merged"] > HISTORIES // 4, outcomes


@pytest.mark.parametrize("seed", REFUTED)
def test_histories_that_once_merged_wrongly(histories: Histories, seed: int) -> None:
    history = Round(histories, seed)
    assert history.merge()
    history.merge_back()


@pytest.mark.ci
def test_duckdb_reads_the_rows_of_merged_tables(histories: Histories) -> None:
    compared: dict[str, Counter[Any]] = {}
    for seed in range(SEED, SEED + max(HISTORIES, 24)):
        history = Round(histories, seed)
        if history.merge():
            history.merge_back()
        compared |= history.compared
    command = [commands_of(TABLES) / "python", Path(__file__).with_name("duckdb_reader.py")]
    read = subprocess.run(command, input="\n".join(compared), capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    for (location, expected), line in zip(compared.items(), read.stdout.splitlines(), strict=True):
        assert Counter(tuple(sorted(row.items())) for row in json.loads(line)) == expected, location
