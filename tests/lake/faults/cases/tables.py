"""Iceberg tables: commits, transactions, creations, drops, and merges of branches that both changed one."""

from copy import deepcopy
from typing import Final

from graveler.errors import NoChangesError
from graveler.lake.iceberg.catalog_errors import RelationExistsError, RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import root_of
from graveler.lake.lake import Lake
from graveler.requests.iceberg import Identifier, TableChange
from graveler.sdk.iceberg_tables import Tables
from graveler.table_format.table_requirements import RequirementError
from tests.lake.faults.case import Case
from tests.lake.faults.model import MOVED, Model
from tests.lake.faults.scenes import Scene
from tests.lake.faults.story import main_of
from tests.lake.iceberg.support import ORDERS, SCHEMA, VIEW_DEFINITION, WorldBefore, appended
from tests.lake.support import NAME

OTHER: Final = Identifier(("shop",), "other")
FAR_FUTURE: Final = 2.0**33
"""A time in Unix seconds."""
ENTRY: Final = "_iceberg/shop/orders.table"
OTHER_ENTRY: Final = "_iceberg/shop/other.table"


def with_tables(lake: Lake, _scene: Scene, model: Model) -> None:
    """Two tables on main, and the tag ``tables`` at their creation."""
    repository = lake.repository(NAME)
    repository.create_namespace("main", namespace=("shop",))
    main_of(model).commit("Create namespace shop")
    for table, entry in ((ORDERS, ENTRY), (OTHER, OTHER_ENTRY)):
        repository.create_table("main", table=table, definition={"schema": SCHEMA})
        main_of(model).commit(f"Create table {table}", {entry: ""})
    repository.create_tag("tables", "main")
    model[NAME].tags["tables"] = dict(main_of(model).committed)


def append(lake: Lake, branch: str, file: str, snapshot_id: int, *, ref: str = "tables") -> None:
    """Append a file to the table as it is at a ref, by default as it was at its creation, as a client does."""
    repository = lake.repository(NAME)
    parts = repository.parts
    document = CatalogReader(parts, ref).load(ORDERS).document
    key = document["location"].removeprefix(f"{root_of(parts)}/")
    parts.objects.put(f"{key}/data/{file}", b"rows")
    change = appended(parts, document, f"data/{file}", snapshot_id=snapshot_id)
    repository.commit_tables(branch, tables=(change,))


def appended_on_both_sides(lake: Lake, scene: Scene, model: Model) -> None:
    """A branch and main have each appended a file since."""
    with_tables(lake, scene, model)
    lake.repository(NAME).create_branch("dev", "main")
    model[NAME].branches["dev"] = dev = deepcopy(main_of(model))
    append(lake, "dev", "b", 8)
    dev.commit("Change table shop.orders", {ENTRY: "b"})
    append(lake, "main", "a", 7)
    main_of(model).commit("Change table shop.orders", {ENTRY: "a"})


def set_properties(lake: Lake) -> None:
    update = {"action": "set-properties", "updates": {"n": "1"}}
    changes = tuple(TableChange(table, (), (update,)) for table in (ORDERS, OTHER))
    lake.repository(NAME).commit_tables("main", tables=changes)


def with_a_snapshot(lake: Lake, scene: Scene, model: Model) -> None:
    """Main has appended a file."""
    with_tables(lake, scene, model)
    append(lake, "main", "a", 7)
    main_of(model).commit("Change table shop.orders", {ENTRY: "a"})


def remove_snapshot(lake: Lake) -> None:
    updates = (
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "remove-snapshots", "snapshot-ids": [7]},
    )
    lake.repository(NAME).commit_tables("main", tables=(TableChange(ORDERS, (), updates),))


def with_two_snapshots(lake: Lake, scene: Scene, model: Model) -> None:
    """Main has appended two files."""
    with_a_snapshot(lake, scene, model)
    append(lake, "main", "b", 8, ref="main")
    main_of(model).commit("Change table shop.orders", {ENTRY: "a b"})


def expire(lake: Lake) -> None:
    """Remove all snapshots but the current one, as the command does."""
    Tables(lake.repository(NAME), "main").expire(str(ORDERS), older_than=FAR_FUTURE, keep_last=1)


def appended_and_expired(lake: Lake, scene: Scene, model: Model) -> None:
    """A branch has appended a file, and main has removed the common snapshot with its file."""
    with_a_snapshot(lake, scene, model)
    lake.repository(NAME).create_branch("dev", "main")
    model[NAME].branches["dev"] = dev = deepcopy(main_of(model))
    append(lake, "dev", "b", 8, ref="dev")
    dev.commit("Change table shop.orders", {ENTRY: "a b"})
    remove_snapshot(lake)
    main_of(model).commit("Change table shop.orders", {ENTRY: ""})


def moved(_: Lake, scene: Scene, model: Model) -> None:
    """A table with two snapshots and a view, in storage that was moved since."""
    before = WorldBefore(scene.tables, scene.objects, scene.clock)
    with_two_snapshots(before.lake(), scene, model)
    before.main.create_view("main", view=Identifier(("shop",), "recent"), definition=VIEW_DEFINITION)
    main_of(model).commit("Create view shop.recent", {ENTRY: MOVED, OTHER_ENTRY: MOVED})
    model[NAME].tags["tables"] |= {ENTRY: MOVED, OTHER_ENTRY: MOVED}


CASES: Final[tuple[Case, ...]] = (
    Case(
        "append to a table",
        lambda lake, _: append(lake, "main", "a", 7),
        lambda model: main_of(model).commit("Change table shop.orders", {ENTRY: "a"}),
        with_tables,
        again=(RequirementError,),
    ),
    Case(
        "transaction of tables",
        lambda lake, _: set_properties(lake),
        lambda model: main_of(model).commit(
            "Change tables shop.orders, shop.other", {ENTRY: "n=1", OTHER_ENTRY: "n=1"}
        ),
        with_tables,
    ),
    Case(
        "create a table",
        lambda lake, _: lake.repository(NAME).create_table(
            "main", table=Identifier(("shop",), "new"), definition={"schema": SCHEMA}
        ),
        lambda model: main_of(model).commit("Create table shop.new", {"_iceberg/shop/new.table": ""}),
        with_tables,
        again=(RelationExistsError,),
    ),
    Case(
        "drop a table",
        lambda lake, _: lake.repository(NAME).drop_relation("main", relation=ORDERS),
        lambda model: main_of(model).commit("Drop table shop.orders", {ENTRY: None}),
        with_tables,
        again=(RelationNotFoundError,),
    ),
    Case(
        "expiry of a table's snapshot",
        lambda lake, _: remove_snapshot(lake),
        lambda model: main_of(model).commit("Change table shop.orders", {ENTRY: ""}),
        with_a_snapshot,
    ),
    Case(
        "expiry of a table's snapshots by age",
        lambda lake, _: expire(lake),
        lambda model: main_of(model).commit("Expire 1 snapshot of table shop.orders", {ENTRY: "a b"}),
        with_two_snapshots,
        like="expiry of a table's snapshot",
    ),
    Case(
        "rewriting of locations",
        lambda lake, _: Tables(lake.repository(NAME), "main").rewrite_locations(),
        lambda model: main_of(model).commit(
            "Rewrite the location of tables shop.orders, shop.other and view shop.recent",
            {ENTRY: "a b", OTHER_ENTRY: ""},
        ),
        moved,
    ),
    Case(
        "merge of an append to a table into an expiry",
        lambda lake, _: lake.repository(NAME).merge("dev", "main", message="merge"),
        lambda model: main_of(model).commit("merge", {ENTRY: "b"}),
        appended_and_expired,
        again=(NoChangesError,),
        like="merge of two appends to a table",
    ),
    Case(
        "merge of two appends to a table",
        lambda lake, _: lake.repository(NAME).merge("dev", "main", message="merge"),
        lambda model: main_of(model).commit("merge", {ENTRY: "a b"}),
        appended_on_both_sides,
        again=(NoChangesError,),
    ),
)
