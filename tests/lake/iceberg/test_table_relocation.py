"""Tables of a lake that was moved to another folder: their locations are rewritten, and every snapshot has the same rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError

import graveler
from graveler.errors import InvalidError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies
from graveler.requests.iceberg import Identifier
from graveler.sdk.iceberg_tables import Tables
from graveler.storage.tables.memory import MemoryTables
from tests.lake.iceberg.histories import Histories, Kind, Operation, Session, Side, random_operation
from tests.lake.iceberg.row_reader import Document, multiset
from tests.lake.iceberg.support import ORDERS, append, with_table, write_file
from tests.lake.support import NAME

KINDS = [Kind(), Kind(equality=True), Kind(version=3), Kind(partitioned=False)]
APPENDS = [Operation("append", partition, key) for partition, key in ((0, 1), (0, 2), (0, 2), (1, 2), (0, 3))]
DELETES = [Operation("delete", 0, 1, "position"), Operation("delete", 0, 2, "position")]
BY_VALUE = [Operation("delete", 0, 1, "equality"), Operation("upsert", 0, 1)]


def rows_of_snapshots(document: Document) -> Mapping[int, Counter[Any]]:
    """Return the rows of each snapshot of a table."""
    numbers = [snapshot["snapshot-id"] for snapshot in document["snapshots"]]
    return {number: multiset(document | {"current-snapshot-id": number}) for number in numbers}


def numbers_of(document: Document) -> list[Document]:
    """Return the snapshots of a table without their locations."""
    return [
        {name: part for name, part in snapshot.items() if name != "manifest-list"} for snapshot in document["snapshots"]
    ]


def load(repository: OpenRepository, table: Identifier, ref: str = "main") -> Document:
    return CatalogReader(repository.parts, ref).load(table).document


class Move(Protocol):
    """A lake in one place that is then moved to another. ``roots`` are the beginnings of locations before and after."""

    roots: tuple[str, str]

    def begin(self) -> Histories:
        """Make an empty lake."""
        ...

    def finish(self) -> graveler.Lake:
        """Move the lake, and open it where it lies now."""
        ...

    def catalog(self, ref: str) -> Catalog:
        """Return PyIceberg's catalog of a ref of the moved lake."""
        ...


class MoveOfFolder:
    """A folder that gets another name."""

    def __init__(self, folder: Path) -> None:
        self._before, self._after = folder / "before", folder / "after"
        self.roots = f"{self._before.as_uri()}/", f"{self._after.as_uri()}/"

    def begin(self) -> Histories:
        return Histories(self._before)

    def finish(self) -> graveler.Lake:
        self._before.rename(self._after)
        return graveler.open(self._after, user="ada")

    def catalog(self, ref: str) -> Catalog:
        properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(self._after)}
        return load_catalog("test", warehouse=f"sales@{ref}", **properties)


@pytest.fixture
def move(tmp_path: Path) -> Move:
    return MoveOfFolder(tmp_path)


class MovedLake:
    """A lake with a table of each kind, moved to another place; with the metadata and rows that the tables had before."""

    def __init__(self, move: Move, seed: int, work_on_dev: Sequence[Operation] = ()) -> None:
        self.former: dict[Identifier, Document] = {}
        self.rows: dict[Identifier, Mapping[int, Counter[Any]]] = {}
        self.move = move
        with move.begin() as histories:
            for number, kind in enumerate(KINDS):
                random = Random(f"{seed}-{number}")
                table = histories.begin(kind)
                session = Session(histories, Side("main", "base", table), random, kind)
                more = [random_operation(random, kind) for _ in range(4)]
                for operation in [*APPENDS, *DELETES, *(BY_VALUE if kind.equality else []), *more]:
                    session.act(operation)
                self.former[table] = histories.load("main", table).document
                self.rows[table] = rows_of_snapshots(self.former[table])
            if work_on_dev:
                histories.fork("dev")
            for table, kind in zip(self.former, KINDS, strict=True):
                on_main = [Operation("append", 1, 4)] if work_on_dev else []
                for branch, work in (("dev", work_on_dev), ("main", on_main)):
                    session = Session(histories, Side(branch, branch, table), Random(branch), kind)
                    for operation in work:
                        session.act(operation)
        self.handle = move.finish()
        self.repository = self.handle.own.repository("sales")

    def expect_rewritten(self, ref: str = "main") -> None:
        """Expect tables that name nothing of the former place, with the snapshots and rows that they had before."""
        former_root, root = self.move.roots
        for table, rows in self.rows.items():
            document, former = load(self.repository, table, ref), self.former[table]
            assert document["location"].startswith(root)
            assert former_root not in str(document).replace(root, "")
            assert rows_of_snapshots(document) == rows
            assert (numbers_of(document), document["refs"]) == (numbers_of(former), former["refs"])
            assert Tables(self.repository, ref).load(str(table)).check() == []


@pytest.fixture(params=[0, 1, 2])
def moved_lake(move: Move, request: pytest.FixtureRequest) -> Iterator[MovedLake]:
    lake = MovedLake(move, request.param)
    with lake.handle:
        yield lake


def test_a_moved_table_has_the_same_rows_in_every_snapshot(moved_lake: MovedLake) -> None:
    repository = moved_lake.repository
    with pytest.raises(BadRequestError, match="rewrite-location"):
        moved_lake.move.catalog("main").load_table("shop.orders1")
    former_head = repository.commit_of("main")
    rewritten = Tables(repository, "main", "ada").rewrite_locations()
    assert set(rewritten.tables) == set(moved_lake.former)
    assert repository.commit_of("main") == rewritten.commit
    assert rewritten.commit.parents == (former_head.id,)
    moved_lake.expect_rewritten()
    assert Tables(repository, "main", "ada").rewrite_locations().tables == ()
    assert repository.commit_of("main") == rewritten.commit


def test_a_moved_table_goes_on(moved_lake: MovedLake) -> None:
    repository = moved_lake.repository
    Tables(repository, "main").rewrite_locations("shop.orders1")
    orders = moved_lake.move.catalog("main").load_table("shop.orders1")
    former = orders.scan().to_arrow()
    orders.append(former)
    orders.delete("key == 1")
    assert orders.scan().to_arrow().num_rows == 2 * sum(key != 1 for key in former["key"].to_pylist())
    assert Tables(repository, "main").load("shop.orders1").check() == []
    with pytest.raises(BadRequestError, match="rewrite-location"):
        moved_lake.move.catalog("main").load_table("shop.orders2")


def test_branches_rewritten_apart_have_their_files_in_common(move: Move) -> None:
    lake = MovedLake(move, 0)
    with lake.handle:
        lake.repository.create_branch("dev", "main")
        for branch in ("main", "dev"):
            Tables(lake.repository, branch).rewrite_locations("shop.orders1")
        table = Identifier(("shop",), "orders1")
        lists = [
            [snapshot["manifest-list"] for snapshot in load(lake.repository, table, branch)["snapshots"]]
            for branch in ("main", "dev")
        ]
        assert lists[0] == lists[1]


def test_branches_that_both_changed_a_table_are_merged_across_the_move(move: Move) -> None:
    """One work is done before the move and after it, and on one branch in order."""
    lake = MovedLake(move, 1, work_on_dev=[Operation("append", 0, 4), Operation("delete", 0, 3, "position")])
    with lake.handle:
        with pytest.raises(InvalidError, match="rewrite-location"):
            lake.repository.merge("dev", "main")
        Tables(lake.repository, "main").rewrite_locations()
        with pytest.raises(InvalidError, match="rewrite-location"):
            lake.repository.merge("dev", "main")
        Tables(lake.repository, "dev").rewrite_locations()
        expected = {}
        for table in lake.former:
            main, dev = (load(lake.repository, table, branch) for branch in ("main", "dev"))
            before = lake.rows[table][lake.former[table]["current-snapshot-id"]]
            expected[table] = (multiset(main) + multiset(dev)) - before
            assert multiset(main) - before, "main has gone on"
            assert (before - multiset(dev)) or (multiset(dev) - before)
        lake.repository.merge("dev", "main", strategies=MergeStrategies(isolation="snapshot"))
        for table, rows in expected.items():
            assert multiset(load(lake.repository, table)) == rows
            assert Tables(lake.repository, "main").load(str(table)).check() == []


def test_a_repository_that_is_restored_from_a_copy_elsewhere_has_its_locations_rewritten() -> None:
    """Its namespace is another bucket or prefix, where it keeps the secret that proves its folders."""
    world = with_table()
    write_file(world, "data/a")
    append(world, "data/a")
    saved = world.main.dump()
    copied = world.objects("mem://copy")
    for stored in world.objects().list():
        copied.put(stored.key, world.objects().get(stored.key))
    lake = Lake(MemoryTables(), world.objects, clock=world.clock)
    lake.restore("mem://copy", saved.id, NAME)
    repository = lake.repository(NAME)
    rewritten = Tables(repository, "main").rewrite_locations()
    assert list(map(str, rewritten.tables)) == ["shop.orders"]
    assert load(repository, ORDERS)["location"].startswith("mem://copy/tables/")
    assert "mem://repo" not in str(load(repository, ORDERS))
    assert Tables(repository, "main").load("shop.orders").check() == []


def test_a_lake_that_is_opened_through_a_link_was_not_moved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Histories(tmp_path / "real" / "lake") as histories:
        table = histories.begin(Kind())
    properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(tmp_path / "link" / "lake")}
    loaded = load_catalog("test", warehouse="sales@main", **properties).load_table(str(table))
    assert loaded.scan().to_arrow().num_rows == 0
