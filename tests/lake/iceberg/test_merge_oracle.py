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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from graveler.errors import MergeConflictError, NoChangesError
from graveler.model import MergeStrategies, MergeStrategy, TableReason
from tests.gateway.clients.tools import TABLES, commands_of
from tests.lake.iceberg.histories import Histories, Kind, Operation, Session, Side, random_event, random_operation
from tests.lake.iceberg.row_reader import Document, by_columns, names_of, read_rows

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
    "partition (?:spec|field)": {"spec"},
    "property": {"property"},
    "ref": {"tag"},
    "format version": {"upgrade"},
}
STRATEGIES = {MergeStrategy.SOURCE_WINS: "source", MergeStrategy.DEST_WINS: "destination"}


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Histories]:
    with Histories(tmp_path_factory.mktemp("oracle") / "lake") as histories:
        yield histories


ExpectedRows = Callable[[Mapping[int, str]], Counter[Any]]
"""Returns the rows of a table with the names that its columns have by ID."""


class TableHistory:
    """One table of a history, of a kind: the work on main before the branch, and on both sides since."""

    def __init__(self, histories: Histories, kind: Kind, random: Random, events: Random | None) -> None:
        self.kind, self._histories, self._random, self._events = kind, histories, random, events
        base = Side("main", "base", histories.begin(kind))
        self._act(base, [Operation("append", 0, 2), Operation("append", 1, 2)])
        self._act(base, self._operations(0, 2))
        self.source, self.destination = base.on_branch("source", "source"), base.on_branch("main", "destination")
        self.last, self.later = self.source, self.destination
        self.base: Document | None = None

    def diverge(self) -> None:
        """Work on both sides of the branch."""
        self.base = self.document(self.source)
        for side in (self.source, self.destination):
            self._act(side, self._with_event(self._operations(1, 3), 0.12))
            if not side.is_dropped:
                self._histories.check_links(side.branch, side.table, (self.source, self.destination))

    def go_on(self, merged: Side) -> None:
        """Work on both sides after a merge, by which main has the table as ``merged`` has it."""
        self.base = self.document(self.source)
        self.later, self.last = merged.on_branch("main", "later"), self.source.on_branch("source", "last")
        self._act(self.later, self._with_event(self._operations(1, 2), 0.06))
        self._act(self.last, self._with_event(self._operations(0, 2), 0.06))

    def replay(self) -> Side:
        """Do the source's work after the destination's on the branch ``order``, and return the table there."""
        order = self.destination.on_branch("order", "source")
        self._session(order).repeat(self.source, isolated=self.kind.isolated, of="destination")
        return order

    def expected(self, *, is_back: bool) -> tuple[Side, ExpectedRows | None]:
        """Return the name and the rows that a second merge is to give the table, of main into the source with ``is_back``, else
        of the source into main: None where it is dropped. If main has another table than the source had, main dropped that one
        and made its own, which stays though the source dropped that one, too."""
        document = self.document(self.later)
        if document is not None and self.base is not None and document["table-uuid"] != self.base["table-uuid"]:
            return self.later.on_branch("source" if is_back else "main", ""), partial(by_columns, read_rows(document))
        former, (source, destination) = self.source, (self.later, self.last) if is_back else (self.last, self.later)
        expected = (source if destination.table == former.table else destination).on_branch(destination.branch, "")
        drops = (source.is_dropped, destination.is_dropped)
        if all(drops) if self.base is None else any(drops):
            expected.is_dropped = True
            return expected, None
        parts = [self.base, self.document(source), self.document(destination)]
        rows = [None if part is None else read_rows(part) for part in parts]
        columns = {} if parts[2] is None else names_of(parts[2])

        def expected_rows(names: Mapping[int, str]) -> Counter[Any]:
            before, after, ours = (Counter() if part is None else by_columns(part, names) for part in rows)
            dropped = {name for number, name in names.items() if number not in columns}
            return without_rows(ours, before - after, dropped) + (after - before)

        return expected, expected_rows

    def document(self, side: Side) -> Document | None:
        """Return the table's metadata at a side, None if it is dropped there."""
        return None if side.is_dropped else self._histories.load(side.branch, side.table).document

    def _operations(self, least: int, most: int) -> list[Operation]:
        return [random_operation(self._random, self.kind) for _ in range(self._random.randint(least, most))]

    def _with_event(self, operations: list[Operation], share: float) -> list[Operation]:
        if self._events is not None and self._events.random() < share:
            operations.insert(self._events.randint(0, len(operations)), random_event(self._events))
        return operations

    def _session(self, side: Side) -> Session:
        return Session(self._histories, side, self._random, self.kind)

    def _act(self, side: Side, operations: list[Operation]) -> None:
        for operation in operations:
            self._session(side).act(operation)


def without_rows(rows: Counter[Any], removed: Counter[Any], dropped: Collection[str]) -> Counter[Any]:
    """Return rows without the removed ones. A side that had dropped columns has lost their values where it rewrote a file."""
    rest = rows.copy()
    for row in removed.elements():
        present = (other for other in rest if rest[other] and _without(other, dropped) == _without(row, dropped))
        place = row if rest[row] else next(present, None)
        if place is not None:
            rest[place] -= 1
    return +rest


def _without(row: tuple[tuple[str, Any], ...], dropped: Collection[str]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in row if name not in dropped]


class Round:
    """One history: one table or two, with work on main and on a branch ``source``. Only with ``has_events``, tables are renamed,
    dropped, made anew and upgraded, there may be two of them, a merge that is refused is repeated with a strategy, and some leave
    no common commit."""

    def __init__(self, histories: Histories, seed: int, outcomes: Counter[str], *, has_events: bool = True) -> None:
        self.histories, self.seed, self.outcomes = histories, seed, outcomes
        self.compared: dict[str, Counter[Any]] = {}
        """The rows of each merged table by the location of its metadata."""
        self.events = Random(f"events-{seed}")
        self.random = Random(f"history-{seed}")
        count = 1 + (has_events and self.events.random() < 0.2)
        events = self.events if has_events else None
        self.tables = [
            TableHistory(histories, self._kind(number, events), self.random, events) for number in range(count)
        ]
        histories.fork("source")
        for table in self.tables:
            table.diverge()
        self.is_squashed = has_events and self.events.random() < 0.2

    def _kind(self, number: int, events: Random | None) -> Kind:
        kind = KINDS[(self.seed + number) % len(KINDS)]
        is_old = events is not None and events.random() < 0.12
        return Kind(1, kind.partitioned, isolated=kind.isolated) if is_old else kind

    @property
    def work(self) -> tuple[object, ...]:
        """The seed and the work of both sides, for messages."""
        sides = [side for table in self.tables for side in (table.source, table.destination, table.later, table.last)]
        return (self.seed, *((side.origin, [operation for operation, *_ in side.work]) for side in sides))

    def merge(self) -> bool:
        """Merge the branch into main, compare, and go on with both; return whether there was a merge."""
        self.histories.fork("order")
        try:
            self._merge("source", "main", squash=self.is_squashed)
        except MergeConflictError as conflict:
            self._count(conflict)
            for table in self.tables:
                check_reasons(conflict, table, self.work)
            return self._decided(conflict)
        merged = [table.replay() for table in self.tables]
        for table, order in zip(self.tables, merged, strict=True):
            document = table.document(order)
            self._compare(
                order.on_branch("main", ""), None if document is None else partial(by_columns, read_rows(document))
            )
            table.go_on(order)
        return True

    def _decided(self, conflict: MergeConflictError) -> bool:
        """Repeat a merge that was refused for its only table, so that one side wins; return whether there was one."""
        if len(self.tables) > 1 or self.events.random() < 0.6:
            return False
        table = self.tables[0]
        strategy = self.events.choice(list(STRATEGIES))
        winner = table.source if strategy is MergeStrategy.SOURCE_WINS else table.destination
        document = table.document(winner)
        rows = None if document is None else partial(by_columns, read_rows(document))
        self._merge("source", "main", strategy=MergeStrategies(strategy))
        self.outcomes[f"{STRATEGIES[strategy]} wins"] += 1
        self._compare(winner.on_branch("main", ""), rows)
        table.go_on(winner)
        return True

    def merge_again(self) -> bool:
        """Merge main into the other branch, where both went on, or after a squash merge the other branch into main, too; return
        whether there was no conflict."""
        is_back = not self.is_squashed or self.events.random() < 0.3
        expected = [table.expected(is_back=is_back) for table in self.tables]
        try:
            self._merge(*(("main", "source") if is_back else ("source", "main")))
        except MergeConflictError as conflict:
            self._count(conflict)
            return False
        for merged, rows in expected:
            self._compare(merged, rows)
        return True

    def _merge(self, source: str, destination: str, **options: Any) -> None:
        with suppress(NoChangesError):
            self.histories.repository.merge(source, destination, **options)

    def _count(self, conflict: MergeConflictError) -> None:
        self.outcomes.update({f"conflict: {reason.kind}" for table in conflict.tables for reason in table.reasons})

    def _compare(self, merged: Side, expected_rows: ExpectedRows | None) -> None:
        self.histories.check_folders(merged.branch, merged.table, self.work)
        if expected_rows is None:
            self.histories.check_absence(merged.branch, merged.table, self.work)
            return
        loaded = self.histories.load(merged.branch, merged.table)
        names = names_of(loaded.document)
        self.compared[loaded.location] = expected = expected_rows(names)
        rows = read_rows(loaded.document)
        assert by_columns(rows, names) == expected, self.work
        if not any(file.content == 2 for file in rows.deletes):
            assert read_by_pyiceberg(loaded.location) == expected, self.work
        self.histories.check(merged.branch, merged.table, self.work)


def read_by_pyiceberg(location: str) -> Counter[Any]:
    rows = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    return Counter(tuple(sorted(row.items())) for row in rows)


def check_reasons(conflict: MergeConflictError, history: TableHistory, work: object) -> None:
    """Check that each reason of a conflict about a table is true of what the sides did."""
    kind, source, destination = history.kind, history.source, history.destination
    names = {str(side.table) for side in (source, destination)}
    done = [{operation.verb for operation, *_ in side.work} for side in (source, destination)]
    places = [
        {
            partition
            for operation, *_ in side.work
            for partition in ((0, 1) if operation.verb == "move" else (operation.partition,))
        }
        for side in (source, destination)
    ]
    assert history.base is not None
    has_one_spec = len(history.base["partition-specs"]) == 1 and "spec" not in done[0] | done[1]
    is_partitioned = kind.partitioned and has_one_spec
    assert conflict.tables, work
    for table in conflict.tables:
        assert table.reasons, work
        for reason in table.reasons if names & {table.name, *_names_in(table.reasons)} else ():
            message = (reason, work)
            if reason.kind == "name":
                assert any("rename" in verbs for verbs in done), message
            elif reason.kind == "table":
                assert any({"drop", "remake"} & verbs for verbs in done), message
            elif reason.kind in ("metadata", "column"):
                groups = [verbs for word, verbs in METADATA.items() if re.search(rf"\b{word}", reason.sentence)]
                assert groups, message
                assert all(any(verbs & group for group in groups) for verbs in done), message
            elif reason.kind == "row-ids":
                assert kind.version == 3 or any("upgrade" in verbs for verbs in done), message
                assert done[0] - {"append"}, message
            elif "upgraded" in reason.sentence:
                assert "upgrade" in done[1], message
            else:
                assert done[0] - {"append"} or "position" in reason.sentence or "deleted" in reason.sentence, message
                assert places[0] & places[1] or not is_partitioned, message


def _names_in(reasons: Iterable[TableReason]) -> set[str]:
    return {name for reason in reasons for name in re.findall(r"shop\.\w+", reason.sentence)}


def test_histories_merge_as_the_work_in_order_and_go_on(histories: Histories) -> None:
    outcomes = Counter[str]()
    for seed in range(SEED, SEED + HISTORIES):
        history = Round(histories, seed, outcomes)
        merged = history.merge()
        outcomes["merged" if merged else "not merged"] += 1
        if merged:
            again = "squashed" if history.is_squashed else "merged"
            outcomes[f"{again} again" if history.merge_again() else f"not {again} again"] += 1
    print(f"seeds {SEED} to {SEED + HISTORIES - 1}: {dict(sorted(outcomes.items()))}")  # noqa: T201
    assert outcomes["merged"] > HISTORIES // 4, outcomes


@pytest.mark.parametrize("seed", REFUTED)
def test_histories_that_once_merged_wrongly(histories: Histories, seed: int) -> None:
    history = Round(histories, seed, Counter(), has_events=False)
    assert history.merge()
    history.merge_again()


@pytest.mark.ci
def test_duckdb_reads_the_rows_of_merged_tables(histories: Histories) -> None:
    compared: dict[str, Counter[Any]] = {}
    for seed in range(SEED, SEED + max(HISTORIES, 24)):
        history = Round(histories, seed, Counter())
        if history.merge():
            history.merge_again()
        compared |= history.compared
    command = [commands_of(TABLES) / "python", Path(__file__).with_name("duckdb_reader.py")]
    read = subprocess.run(command, input="\n".join(compared), capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    for (location, expected), line in zip(compared.items(), read.stdout.splitlines(), strict=True):
        assert Counter(tuple(sorted(row.items())) for row in json.loads(line)) == expected, location
