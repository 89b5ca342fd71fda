"""Merges of branches that changed the same tables: rows of both, or a conflict with its reason."""

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import LongType

import graveler
from graveler.errors import MergeConflictError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import folder_of
from graveler.lake.iceberg.table_states import reader_in
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.iceberg import Identifier
from graveler.table_format.reached_files import reached_files
from graveler.table_format.spec_check import check_table

ORDERS = Identifier(("shop",), "orders")


class Shop:
    """The table shop.orders, with two rows, on main and on dev of a lake that is empty before. Catalogs open the lake by
    ``properties``, or find it in the environment."""

    def __init__(self, handle: graveler.Lake, **properties: str) -> None:
        self._properties = properties
        self._catalogs: list[Catalog] = []
        self.handle = handle
        handle.repository("sales").create()
        main = self.catalog("main")
        main.create_namespace("shop")
        main.create_table("shop.orders", rows().schema).append(rows(1, 2))
        verbs: Any = handle.verbs
        self.repository: OpenRepository = verbs.repository("sales")
        self.repository.create_branch("dev", "main")

    def catalog(self, ref: str) -> Catalog:
        properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "warehouse": f"sales@{ref}"}
        self._catalogs.append(load_catalog("test", **properties, **self._properties))
        return self._catalogs[-1]

    def append(self, branch: str, *ids: int, name: str = "shop.orders") -> None:
        self.catalog(branch).load_table(name).append(rows(*ids))

    def ids(self, ref: str = "main", name: str = "shop.orders") -> list[int]:
        return sorted(self.catalog(ref).load_table(name).scan().to_arrow()["id"].to_pylist())

    def check(self, ref: str = "main", table: Identifier = ORDERS) -> None:
        """Check a table against the specification, and that the tree has all files that it reaches."""
        parts = self.repository.parts
        loaded = CatalogReader(parts, ref).load(table)
        folder = folder_of(parts, loaded.document["table-uuid"], loaded.document["location"])
        read = reader_in(parts, folder)
        assert check_table(loaded.document, read) == []
        linked = {entry.address for entry in self.repository.objects(ref, "_iceberg/.files/")}
        reached = {f"{parts.namespace}/{folder.key_of(location)}" for location in reached_files(loaded.document, read)}
        assert reached <= linked

    def close(self) -> None:
        for catalog in self._catalogs:
            catalog.close()
        self.handle.close()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    graveler.create(tmp_path / "lake", user="ada").close()
    shop = Shop(graveler.open(tmp_path / "lake", user="ada"), lake=str(tmp_path / "lake"))
    yield shop
    shop.close()


def test_two_branches_that_appended_have_both_appends(shop: Shop) -> None:
    shop.append("dev", 3)
    shop.append("main", 4)
    preview = shop.repository.preview_merge("dev", "main")
    assert preview.conflicts == ()
    shop.repository.merge("dev", "main")
    assert shop.ids() == [1, 2, 3, 4]
    assert shop.ids("main~1") == [1, 2, 4]
    assert shop.ids("dev") == [1, 2, 3]
    shop.check()
    shop.append("main", 5)
    shop.append("dev", 6)
    shop.repository.merge("dev", "main")
    assert shop.ids() == [1, 2, 3, 4, 5, 6]
    shop.check()


def test_a_repeated_merge_makes_the_same_tree(shop: Shop) -> None:
    shop.append("dev", 3)
    shop.append("main", 4)
    shop.repository.create_branch("other", "main")
    merges = [shop.repository.merge("dev", branch) for branch in ("main", "other")]
    assert merges[0].metarange == merges[1].metarange


def test_merges_of_the_same_states_from_other_commits_leave_each_other_alone(shop: Shop) -> None:
    """The merged metadata names its source commit, so the same three states make two files."""
    shop.append("dev", 3)
    shop.append("main", 4)
    shop.repository.create_branch("release", "main")
    shop.repository.merge("dev", "main")
    shop.catalog("dev").create_namespace("unrelated")
    shop.repository.preview_merge("dev", "release")
    assert shop.ids() == [1, 2, 3, 4]
    shop.repository.merge("dev", "release")
    assert _entry(shop, "main") != _entry(shop, "release")
    for branch in ("main", "release"):
        shop.check(branch)
    shop.append("release", 5)
    shop.repository.merge("release", "main")
    assert shop.ids() == [1, 2, 3, 4, 5]
    parts = shop.repository.parts
    for branch in ("main", "main~1", "release"):
        entry = CatalogReader(parts, branch).load(ORDERS).entry
        contents = parts.objects.get(entry.address.removeprefix(parts.namespace + "/"))
        assert md5(contents, usedforsecurity=False).hexdigest() == entry.checksum


@pytest.mark.parametrize("suffix", [".metadata.json", "-list.avro"])
def test_a_stranger_s_file_under_the_name_of_a_merged_one_is_left_alone(shop: Shop, suffix: str) -> None:
    shop.append("dev", 3)
    shop.append("main", 4)
    for branch in ("first", "second", "third"):
        shop.repository.create_branch(branch, "main")
    shop.repository.merge("dev", "first")
    objects = shop.repository.parts.objects
    (key,) = [
        entry.address.removeprefix(shop.repository.parts.namespace + "/")
        for entry in shop.repository.objects("first", "_iceberg/")
        if entry.address.endswith(suffix) and entry.address not in _addresses(shop, "main")
    ]
    objects.put(key, b"a stranger's")
    merges = [shop.repository.merge("dev", branch) for branch in ("second", "third")]
    assert objects.get(key) == b"a stranger's"
    assert merges[0].metarange == merges[1].metarange
    assert shop.ids("third") == [1, 2, 3, 4]
    shop.check("third")


def _addresses(shop: Shop, ref: str) -> set[str]:
    return {entry.address for entry in shop.repository.objects(ref, "_iceberg/")}


def _entry(shop: Shop, ref: str) -> str:
    return CatalogReader(shop.repository.parts, ref).load(ORDERS).location


def test_a_conflict_says_why_and_changes_nothing(shop: Shop) -> None:
    for branch in ("dev", "main"):
        shop.catalog(branch).load_table("shop.orders").delete("id == 1")
    head = shop.repository.commit_of("main")
    assert [conflict.path for conflict in shop.repository.preview_merge("dev", "main").conflicts] == [
        "_iceberg/shop/orders.table"
    ]
    with pytest.raises(MergeConflictError, match=r"table shop\.orders: .*both"):
        shop.repository.merge("dev", "main")
    assert shop.repository.commit_of("main") == head
    shop.append("dev", 3)
    shop.repository.merge("dev", "main", strategy=MergeStrategies(MergeStrategy.SOURCE_WINS))
    assert shop.ids() == [2, 3]
    shop.check()


def test_a_renamed_table_has_the_changes_of_both(shop: Shop) -> None:
    shop.catalog("dev").rename_table("shop.orders", "shop.sales")
    shop.append("dev", 3, name="shop.sales")
    shop.append("main", 4)
    shop.repository.merge("dev", "main")
    assert shop.catalog("main").list_tables("shop") == [("shop", "sales")]
    assert shop.ids(name="shop.sales") == [1, 2, 3, 4]
    shop.check(table=Identifier(("shop",), "sales"))
    shop.catalog("main").rename_table("shop.sales", "shop.facts")
    shop.append("dev", 5, name="shop.sales")
    shop.repository.merge("dev", "main")
    assert shop.catalog("main").list_tables("shop") == [("shop", "facts")]
    assert shop.ids(name="shop.facts") == [1, 2, 3, 4, 5]


def test_a_revert_takes_its_rows_out_of_later_ones(shop: Shop) -> None:
    kinds = ("delete", "update", "merge")
    with shop.catalog("main").load_table("shop.orders").transaction() as transaction:
        transaction.set_properties({f"write.{kind}.isolation-level": "snapshot" for kind in kinds})
    shop.append("main", 3)
    wrong = shop.repository.commit_of("main")
    shop.append("main", 4)
    shop.repository.revert("main", wrong.id)
    assert shop.ids() == [1, 2, 4]
    shop.check()
    shop.repository.cherry_pick("main", wrong.id)
    assert shop.ids() == [1, 2, 3, 4]
    shop.check()


def test_a_table_that_one_side_dropped_is_a_conflict(shop: Shop) -> None:
    shop.catalog("dev").drop_table("shop.orders")
    shop.append("main", 3)
    with pytest.raises(MergeConflictError, match="dropped the table"):
        shop.repository.merge("dev", "main")
    shop.catalog("dev").create_table("shop.orders", rows().schema)
    with pytest.raises(MergeConflictError, match="anew"):
        shop.repository.merge("dev", "main")
    shop.repository.merge("dev", "main", strategy=MergeStrategies(MergeStrategy.DEST_WINS))
    assert shop.ids() == [1, 2, 3]
    shop.check()


@pytest.mark.parametrize("is_empty", [False, True], ids=["with rows", "empty"])
@pytest.mark.parametrize("is_squashed", [False, True])
@pytest.mark.parametrize(("source", "destination"), [("dev", "main"), ("main", "dev")])
def test_a_new_table_goes_on_after_a_squash_merge(
    shop: Shop, is_empty: bool, is_squashed: bool, source: str, destination: str
) -> None:
    """The commits' base lacks the table: both sides began with it, without rows."""
    name, dev = "shop.new", shop.catalog("dev")
    dev.create_table(name, rows().schema)
    if not is_empty:
        shop.append("dev", 1, 2, 3, name=name)
    shop.repository.merge("dev", "main", squash=True)
    shop.append("dev", 4, name=name)
    shop.repository.merge("dev", "main", squash=True)
    first = [] if is_empty else [1, 2, 3]
    assert shop.ids(name=name) == [*first, 4]
    shop.append("main", 5, 6, name=name)
    shop.catalog("main").load_table(name).delete("id == 5")
    shop.append("dev", 7, name=name)
    if not is_empty:
        shop.catalog("dev").load_table(name).delete("id == 2")
    strategies = MergeStrategies(isolation="snapshot")
    assert shop.repository.preview_merge(source, destination, strategies).conflicts == ()
    shop.repository.merge(source, destination, squash=is_squashed, strategy=strategies)
    assert shop.ids(destination, name) == [*([] if is_empty else [1, 3]), 4, 6, 7]
    shop.check(destination, Identifier(("shop",), "new"))


def test_columns_of_a_new_table_that_one_side_changed_after_a_squash_merge_merge(shop: Shop) -> None:
    name, dev = "shop.new", shop.catalog("dev")
    dev.create_table(name, rows().schema).append(rows(1))
    shop.repository.merge("dev", "main", squash=True)
    with shop.catalog("dev").load_table(name).update_schema() as update:
        update.add_column("amount", LongType())
    shop.append("main", 2, name=name)
    shop.repository.merge("dev", "main")
    merged = shop.catalog("main").load_table(name)
    assert [field.name for field in merged.schema().fields] == ["id", "amount"]
    assert shop.ids(name=name) == [1, 2]


def test_a_new_table_whose_log_is_too_short_is_merged_by_its_rows_alone(shop: Shop) -> None:
    name, dev = "shop.new", shop.catalog("dev")
    dev.create_table(name, rows().schema, properties={"write.metadata.previous-versions-max": "1"}).append(rows(1))
    shop.repository.merge("dev", "main", squash=True)
    for number in (2, 3):
        shop.append("main", number, name=name)
        shop.append("dev", number + 5, name=name)
    shop.repository.create_branch("changed", "main")
    with shop.catalog("changed").load_table(name).transaction() as transaction:
        transaction.set_properties(a="b")
    shop.repository.merge("dev", "main")
    assert shop.ids(name=name) == [1, 2, 3, 7, 8]
    with pytest.raises(MergeConflictError, match="brought the new table from one side to the other"):
        shop.repository.merge("dev", "changed")
