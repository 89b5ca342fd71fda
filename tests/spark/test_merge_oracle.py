"""Random histories of a table on two branches by Spark, merged: the rows are those of the same work done in order on one branch.

Spark writes through ``graveler serve`` with a catalog for each branch, and reads; a reader of the tests' own and PyIceberg read,
too. Then both branches go on, and are merged the other way. ``GRAVELER_SPARK_HISTORIES=n`` makes n histories instead of the short
form, and ``GRAVELER_SPARK_SEED=n`` begins with another one.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from graveler.errors import MergeConflictError, NoChangesError
from graveler.requests.iceberg import Identifier
from tests.clients.support import serving
from tests.lake.iceberg.histories import Histories
from tests.lake.iceberg.row_reader import Document, by_columns, multiset, names_of
from tests.spark.merge_reasons import MergedStates, unfounded_reasons
from tests.spark.spark_sql import SparkSql
from tests.spark.table_histories import BRANCHES, Operation, Side, Worker, random_kind, random_operation, with_event
from tests.support.iceberg_spark import iceberg_spark_jars

HISTORIES = int(os.environ.get("GRAVELER_SPARK_HISTORIES", "2"))
SEED = int(os.environ.get("GRAVELER_SPARK_SEED", "0"))


class Oracle:
    """A lake in a folder, its server, and Spark."""

    def __init__(self, histories: Histories, spark: SparkSql) -> None:
        self.histories, self.spark = histories, spark


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    if not iceberg_spark_jars():
        pytest.skip("no Maven here, which fetches Iceberg's runtime for Spark")
    folder = tmp_path_factory.mktemp("oracle")
    log = folder / "spark.log"
    with (
        Histories(folder / "lake") as histories,
        serving(folder / "lake") as served,
        SparkSql(served, "sales", *BRANCHES, log=log) as spark,
    ):
        yield Oracle(histories, spark)


class Round:
    """One history: a table of a kind, with work on main and on a branch ``source``."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self.seed, self.histories, self.spark = seed, oracle.histories, oracle.spark
        self.random = Random(f"history-of-spark-{seed}")
        self.kind = random_kind(self.random)
        self.sides: list[Side] = []
        base = Side("main", "base", Identifier(("shop",), f"spark{seed}"))
        self._worker(base).create()
        self._act(base, [Operation("append", 0, 2), Operation("append", 1, 2), *self._operations(0, 2)])
        self.histories.fork("source")
        self.base = self._document(base)
        self.row_ids = self._row_ids_of_base(base)
        self.source, self.destination = base.on_branch("source", "source"), base.on_branch("main", "destination")
        for side in (self.source, self.destination):
            self._act(side, with_event(self.random, self._operations(1, 3), 0.15))
            if not side.is_dropped:
                self.histories.check_links(side.branch, side.table)

    def _operations(self, least: int, most: int) -> list[Operation]:
        return [random_operation(self.random, self.kind) for _ in range(self.random.randint(least, most))]

    def _worker(self, side: Side) -> Worker:
        return Worker(self.histories, self.spark, side, self.kind, self.random)

    def _act(self, side: Side, operations: list[Operation]) -> None:
        self.sides.append(side)
        for operation in operations:
            self._worker(side).act(operation)

    def _document(self, side: Side) -> Document:
        return self.histories.load(side.branch, side.table).document

    @property
    def story(self) -> str:
        """The history, for messages."""
        lines = [f"{side.origin}: {' '.join(map(str, (part[:2] for part in side.work)))}" for side in self.sides]
        return "\n".join([f"GRAVELER_SPARK_SEED={self.seed} {self.kind}", *lines])

    @property
    def is_dropped(self) -> bool:
        """Whether a branch has dropped the table."""
        return self.source.is_dropped or self.destination.is_dropped

    def merge(self) -> bool:
        """Merge the branch into main and compare; return whether there was no conflict."""
        self.histories.fork("order")
        states = self._states(self.base, self.source, self.destination)
        merged, outcome = self._merge(self.sides[0], states, self.source, self.destination)
        order = self.destination.on_branch("order", "source")
        self.destination = merged
        if outcome is not None:
            return outcome
        self._worker(order).repeat(self.source, of="destination")
        expected = self._rows(order)
        assert multiset(self._document(order)) == expected, self.story
        self._compare(merged, expected)
        merged_ids = self._row_ids_of_base(merged)
        assert merged_ids <= self.row_ids, f"{self.story}\nrow IDs {merged_ids - self.row_ids}"
        return True

    def merge_back(self) -> bool:
        """Go on with both branches, and merge main into the other; return whether there was no conflict."""
        base = self._document(self.source)
        later, last = self.destination.on_branch("main", "later"), self.source.on_branch("source", "last")
        self._act(later, with_event(self.random, self._operations(1, 2), 0.1))
        self._act(last, with_event(self.random, self._operations(0, 2), 0.1))
        states = self._states(base, later, last)
        merged, outcome = self._merge(self.source, states, later, last)
        if outcome is not None or states is None:
            return bool(outcome)
        names = names_of(self._document(merged))
        before, after, ours = (by_columns(rows, names) for rows in states.rows)
        self._compare(merged, ours - (before - after) + (after - before))
        return True

    def _states(self, base: Document, source: Side, destination: Side) -> MergedStates | None:
        if source.is_dropped or destination.is_dropped:
            return None
        return MergedStates(base, self._document(source), self._document(destination))

    def _merge(
        self, base: Side, states: MergedStates | None, source: Side, destination: Side
    ) -> tuple[Side, bool | None]:
        """Merge one side into another, which began with the table as ``base`` has it. Return the table as it is to be then, and
        whether there was no conflict if there is nothing to compare, else None."""
        table = source.table if destination.table == base.table else destination.table
        merged = Side(destination.branch, "", table, is_dropped=states is None)
        try:
            self.histories.repository.merge(source.branch, destination.branch)
        except MergeConflictError as conflict:
            unfounded = unfounded_reasons(conflict, states, self.kind, self.sides)
            assert not unfounded, f"{self.story}\n{unfounded}"
            return destination, False
        except NoChangesError:
            return merged, True
        if states is not None:
            return merged, None
        self.histories.check_absence(merged.branch, table, self.story)
        return merged, True

    def _rows(self, side: Side) -> Counter[Any]:
        """Return the rows by Spark."""
        names = list(names_of(self._document(side)).values())
        rows = self.spark.rows(f"SELECT {', '.join(names)} FROM {side.branch}.{side.table}")
        return Counter(tuple(sorted(zip(names, row, strict=True))) for row in rows)

    def _row_ids_of_base(self, side: Side) -> Counter[Any]:
        """Return the rows that only the base changed, with their row IDs, which no merge changes. Spark's
        ``rewrite_manifests`` does: it gives rows new ones."""
        if self.kind.version < 3 or any("manifests" in part.verbs for part in self.sides):
            return Counter()
        columns = "_row_id, p, key, value"
        return Counter(self.spark.rows(f"SELECT {columns} FROM {side.branch}.{side.table} WHERE origin = 'base'"))

    def _compare(self, side: Side, expected: Counter[Any]) -> None:
        loaded = self.histories.load(side.branch, side.table)
        for reader, rows in (
            ("Spark", self._rows(side)),
            ("the tests' reader", multiset(loaded.document)),
            ("PyIceberg", read_by_pyiceberg(loaded.location)),
        ):
            assert rows == expected, f"{self.story}\n{reader}: {rows - expected} instead of {expected - rows}"
        self.histories.check(side.branch, side.table)
        if loaded.document["format-version"] == 3:
            ids = [row[0] for row in self.spark.rows(f"SELECT _row_id FROM {side.branch}.{side.table}")]
            numbers = [number for number in ids if number is not None]
            assert len(numbers) == len(set(numbers)), f"{self.story}\nrow IDs {sorted(numbers)}"
            assert len(numbers) == len(ids) or self.kind.version == 2, self.story
            assert all(number < loaded.document["next-row-id"] for number in numbers), self.story


def read_by_pyiceberg(location: str) -> Counter[Any]:
    rows = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    return Counter(tuple(sorted(row.items())) for row in rows)


def test_histories_of_spark_merge_as_the_work_in_order_and_go_on(
    oracle: Oracle, record_property: Callable[[str, object], None]
) -> None:
    outcomes = Counter[str]()
    for seed in range(SEED, SEED + HISTORIES):
        try:
            history = Round(oracle, seed)
            merged = history.merge()
            outcomes["merged" if merged else "conflict"] += 1
            if merged and not history.is_dropped:
                outcomes["merged back" if history.merge_back() else "conflict back"] += 1
        except Exception as error:
            error.add_note(f"GRAVELER_SPARK_SEED={seed}")
            raise
    record_property("outcomes", dict(outcomes))
    assert outcomes["merged"] > HISTORIES // 4, outcomes
