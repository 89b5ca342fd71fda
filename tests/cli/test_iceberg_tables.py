"""Iceberg tables on the command line: their list, history by commits, check and expiry, and their differences."""

import os
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import DoubleType

from graveler.cli.exits import ExitCode
from tests.cli.support import done, run

MAIN = "lakefs://lake/main"


def catalog(ref: str = "main") -> Catalog:
    """Return the catalog of a ref of repository ``lake``, in this process or at the server that the environment names."""
    properties = {"py-catalog-impl": "graveler.iceberg.Catalog"}
    if url := os.environ.get("GRAVELER_ENDPOINT"):
        key_id, secret = os.environ["GRAVELER_ACCESS_KEY_ID"], os.environ["GRAVELER_SECRET_ACCESS_KEY"]
        properties = {
            "type": "rest",
            "uri": f"{url}/iceberg",
            "credential": f"{key_id}:{secret}",
            "oauth2-server-uri": f"{url}/iceberg/v1/oauth/tokens",
        }
    return load_catalog("test", warehouse=f"lake@{ref}", **properties)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append(ref: str, *ids: int) -> None:
    catalog(ref).load_table("shop.orders").append(rows(*ids))


@pytest.fixture
def orders(lake: Path) -> None:
    """The table shop.orders with two rows on main, and a third one on dev."""
    main = catalog()
    main.create_namespace("shop")
    main.create_table("shop.orders", rows().schema).append(rows(1, 2))
    done("branch", "create", "lakefs://lake/dev", "main")
    append("dev", 3)


def history(ref: str = "main") -> list[Any]:
    return done("table", "history", f"lakefs://lake/{ref}", "shop.orders", "--json").lines


@pytest.mark.usefixtures("orders")
def test_tables_are_listed_and_shown() -> None:
    (table,) = done("table", "ls", MAIN, "--json").lines
    assert (table["name"], table["path"]) == ("shop.orders", "_iceberg/shop/orders.table")
    assert done("table", "ls", MAIN, "shop").out.endswith("  shop.orders\n")
    assert done("table", "ls", "lakefs://lake/main~1").out.endswith("  shop.orders\n"), "a table without rows"
    shown = done("table", "show", "lakefs://lake/dev", "shop.orders", "--json").json
    assert (shown["rows"], shown["files"], shown["delete_files"]) == (3, 2, 0)
    assert (shown["metadata"]["table-uuid"], shown["path"]) == (table["uuid"], table["path"])
    assert (
        done("table", "show", MAIN, table["path"], "--json").json["metadata"]["current-snapshot-id"]
        == (table["snapshot_id"])
    )
    lines = done("table", "show", "lakefs://lake/main~1", "shop.orders").out.splitlines()
    assert {"column id:       long", "partitioned by:  nothing", "rows:            0", "snapshot:        none"} <= {
        *lines
    }


@pytest.mark.usefixtures("orders")
def test_a_table_that_is_not_there_is_refused_in_words() -> None:
    refused = run("table", "show", MAIN, "shop.none")
    assert (refused.code, "has no table shop.none" in refused.err) == (ExitCode.NOT_FOUND, True), refused
    refused = run("table", "check", MAIN, "orders")
    assert (refused.code, "as in shop.orders" in refused.err) == (ExitCode.INVALID, True), refused


@pytest.mark.usefixtures("orders")
def test_history_has_the_commit_of_each_snapshot() -> None:
    append("main", 4)
    done("merge", "lakefs://lake/dev", "main")
    merged, second, initial, created = history()
    assert [version["commit"]["message"] for version in (merged, second, initial, created)] == [
        "Merge 'dev' into 'main'",
        "Change table shop.orders",
        "Change table shop.orders",
        "Create table shop.orders",
    ]
    for version in (merged, second, initial):
        assert [snapshot["snapshot-id"] for snapshot in version["snapshots"]] == [version["snapshot_id"]]
        at_commit = done("table", "ls", f"lakefs://lake/{version['commit']['id']}", "--json").json
        assert at_commit["snapshot_id"] == version["snapshot_id"]
    assert (created["snapshot_id"], created["snapshots"]) == (None, [])
    lines = done("table", "history", MAIN, "shop.orders", "-n", "1").out.splitlines()
    assert lines[1:] == [f"    snapshot {merged['snapshot_id']} append +1 row"]


@pytest.mark.usefixtures("orders")
def test_a_commit_has_all_snapshots_of_a_transaction() -> None:
    with catalog().load_table("shop.orders").transaction() as transaction:
        transaction.append(rows(5))
        transaction.append(rows(6))
    assert [len(version["snapshots"]) for version in history()] == [2, 1, 0]


@pytest.mark.usefixtures("orders")
def test_old_snapshots_are_removed_from_a_table() -> None:
    append("main", 4)
    append("main", 5)
    assert done("table", "expire", MAIN, "shop.orders").out == "nothing has expired\n"
    options = ("--older-than", "@4000000000", "--keep-last", "2")
    foreseen = done("table", "expire", MAIN, "shop.orders", *options, "--dry-run")
    assert foreseen.out.splitlines()[-1] == "would remove 1 snapshot"
    assert len(history()) == 4
    expired = done("table", "expire", MAIN, "shop.orders", *options, "--json").json
    (snapshot,) = expired["snapshots"]
    assert (expired["refs"], expired["dry_run"]) == ([], False)
    assert done("log", MAIN, "-n", "1", "--json").json["id"] == expired["commit"]["id"]
    shown = done("table", "show", MAIN, "shop.orders", "--json").json
    assert (shown["rows"], len(shown["metadata"]["snapshots"])) == (4, 2)
    assert snapshot["snapshot-id"] not in {entry["snapshot-id"] for entry in shown["metadata"]["snapshots"]}
    assert done("table", "check", MAIN, "shop.orders").out == "nothing is wrong\n"
    removed = done("table", "expire", MAIN, "shop.orders", "--older-than", "@4000000000")
    assert removed.out.splitlines()[-1].startswith("removed 1 snapshot: ")
    assert sorted(catalog().load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2, 4, 5]
    assert sorted(catalog("main~1").load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2, 4, 5]


@pytest.mark.usefixtures("orders")
def test_only_a_branch_expires_and_only_a_time_is_one() -> None:
    refused = run("table", "expire", "lakefs://lake/main~1", "shop.orders")
    assert (refused.code, "is no branch, and only a branch can change" in refused.err) == (ExitCode.INVALID, True)
    refused = run("table", "expire", MAIN, "shop.orders", "--older-than", "soon")
    assert (refused.code, "--older-than 'soon' is not a time" in refused.err) == (ExitCode.INVALID, True)
    refused = run("table", "expire", MAIN, "shop.none")
    assert (refused.code, "has no table shop.none" in refused.err) == (ExitCode.NOT_FOUND, True)


@pytest.mark.usefixtures("orders")
def test_a_table_is_checked() -> None:
    assert done("table", "check", "lakefs://lake/dev", "shop.orders").out == "nothing is wrong\n"
    assert done("table", "check", MAIN, "shop.orders", "--json").lines == []


def test_a_file_that_does_not_exist_is_a_problem(orders: None, lake: Path) -> None:
    linked = run("ls", "-r", "lakefs://lake/main/_iceberg/.files/", "--json").lines
    address = next(link["address"] for link in linked if link["path"].endswith(".parquet"))
    next((lake / "objects").rglob(address.rpartition("/")[2])).unlink()
    checked = run("table", "check", MAIN, "shop.orders", "--json")
    assert (checked.code, [problem["problem"] for problem in checked.lines]) == (
        ExitCode.CORRUPT,
        ["it is in the tree, but does not exist any more"],
    )
    assert run("table", "check", MAIN, "shop.orders").out.endswith("1 problem found\n")


@pytest.mark.usefixtures("orders")
def test_a_difference_of_tables_is_one_line() -> None:
    with catalog("dev").load_table("shop.orders").update_schema() as update:
        update.add_column("amount", DoubleType())
    catalog("dev").load_table("shop.orders").delete("id = 1")
    done("put", "-", "lakefs://lake/dev/a", stdin=b"1")
    done("commit", "lakefs://lake/dev", "-m", "More")
    lines = done("diff", f"{MAIN}..dev").out.splitlines()
    assert lines == [
        "~ table shop.orders  +2 rows, -2 rows, +2 files, -1 file, column amount double added",
        "+ a",
        "1 added, 1 changed",
    ]
    change, _ = done("diff", f"{MAIN}...dev", "--json").lines
    assert change["table"]["name"] == "shop.orders"
    assert (change["table"]["files"]["added_rows"], change["table"]["files"]["removed_files"]) == (2, 1)
    assert change["table"]["columns"] == [{"before": "", "after": "amount double"}]
    paths = [change["path"] for change in done("diff", f"{MAIN}..dev", "--files", "--json").lines]
    assert len([path for path in paths if path.startswith("_iceberg/.files/")]) > 4
    assert paths[-2:] == ["_iceberg/shop/orders.table", "a"]


@pytest.mark.usefixtures("orders")
def test_new_and_dropped_tables_are_lines_too() -> None:
    start = done("log", MAIN, "--json").lines[-1]["id"]
    assert done("diff", f"lakefs://lake/{start}..main").out.splitlines() == [
        "+ namespace shop",
        "+ table shop.orders  +2 rows, +1 file",
        "2 added",
    ]
    assert done("diff", f"{MAIN}..{start}").out.splitlines()[1] == "- table shop.orders  -2 rows, -1 file"


def contend() -> None:
    """Main adds a row, and dev removes the two of main: a conflict in tables that are serializable."""
    append("main", 4)
    catalog("dev").load_table("shop.orders").delete("id < 3")


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("renamer", "changer", "expected"),
    [
        (
            "dev",
            "main",
            [
                "table shop.orders: both, in one new snapshot",
                "  dev (source)        renamed to shop.sales, +1 row, +1 file",
                "  main (destination)  +1 row, +1 file",
            ],
        ),
        (
            "main",
            "dev",
            [
                "table shop.orders: the source's, as it is",
                "  dev (source)        +2 rows, +2 files",
                "  main (destination)  renamed to shop.sales",
            ],
        ),
    ],
)
def test_a_dry_run_shows_a_table_under_its_new_name(renamer: str, changer: str, expected: list[str]) -> None:
    catalog(renamer).rename_table("shop.orders", "shop.sales")
    append(changer, 4)
    lines = done("merge", "lakefs://lake/dev", "main", "--dry-run").out.splitlines()
    assert lines[-4:-1] == expected


@pytest.mark.usefixtures("orders")
def test_a_dry_run_says_what_a_merge_does_to_tables() -> None:
    append("main", 4)
    lines = done("merge", "lakefs://lake/dev", "main", "--dry-run").out.splitlines()
    assert lines[-4:-1] == [
        "table shop.orders: both, in one new snapshot",
        "  dev (source)        +1 row, +1 file",
        "  main (destination)  +1 row, +1 file",
    ]
    (table,) = done("merge", "lakefs://lake/dev", "main", "--dry-run", "--json").json["tables"]
    assert (table["path"], table["outcome"], table["reasons"]) == ("_iceberg/shop/orders.table", "merged", [])
    assert table["source"]["files"]["added_rows"] == table["destination"]["files"]["added_rows"] == 1


@pytest.mark.usefixtures("orders")
def test_a_conflict_of_tables_has_its_reasons() -> None:
    contend()
    preview = run("merge", "lakefs://lake/dev", "main", "--dry-run")
    assert (preview.code, "table shop.orders: conflict" in preview.out) == (ExitCode.CONFLICT, True), preview
    refused = run("merge", "lakefs://lake/dev", "main", "--json")
    (table,) = refused.json["tables"]
    assert (refused.code, table["outcome"]) == (ExitCode.CONFLICT, "conflict")
    (reason,) = table["reasons"]
    assert (reason["kind"], reason["source_rows"], reason["destination_rows"]) == ("isolation", 2, 1)
    assert reason["sentence"] in preview.out
    assert [conflict["path"] for conflict in refused.json["conflicts"]] == [table["path"]]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("options", "outcome", "ids"),
    [
        (("--isolation", "snapshot"), "merged", {3, 4}),
        (("--strategy", "shop.orders=source-wins"), "source", {3}),
        (("--strategy", "source-wins", "--strategy", "shop.orders=dest-wins"), "destination", {1, 2, 4}),
    ],
)
def test_options_of_a_merge_decide_about_tables(options: tuple[str, ...], outcome: str, ids: set[int]) -> None:
    contend()
    preview = done("merge", "lakefs://lake/dev", "main", "--dry-run", "--json", *options).json
    assert ([table["outcome"] for table in preview["tables"]], preview["conflicts"]) == ([outcome], [])
    done("merge", "lakefs://lake/dev", "main", *options)
    assert {*catalog().load_table("shop.orders").scan().to_arrow()["id"].to_pylist()} == ids


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_strategy_for_a_table_that_does_not_exist_is_refused_in_words(options: tuple[str, ...]) -> None:
    contend()
    refused = run("merge", "lakefs://lake/dev", "main", "--strategy", "shop.order=source-wins", *options)
    assert refused.code == ExitCode.INVALID, refused
    assert "table shop.order, which neither 'dev' nor 'main' has" in refused.err, refused


@pytest.mark.parametrize(
    "options",
    [
        ("--strategy", "ours"),
        ("--strategy", "orders=source-wins"),
        ("--strategy", "source-wins", "--strategy", "dest-wins"),
        ("--strategy", "shop.orders=dest-wins", "--strategy-for", "_iceberg/shop/orders.table=dest-wins"),
    ],
)
def test_wrong_strategies_are_refused_in_words(lake: Path, options: tuple[str, ...]) -> None:
    refused = run("merge", "lakefs://lake/dev", "main", *options)
    assert (refused.code, refused.err.count("\n")) == (ExitCode.INVALID, 1), refused


@pytest.mark.usefixtures("orders")
def test_a_lake_that_was_moved_has_its_locations_rewritten(lake: Path) -> None:
    if os.environ.get("GRAVELER_ENDPOINT"):
        return  # test_endpoint tries that a server refuses it
    assert done("table", "rewrite-location", MAIN).out == "all locations are right\n"
    copytree(lake, lake.with_name("elsewhere"))
    rmtree(lake)
    options = ("--lake", str(lake.with_name("elsewhere")))
    refused = run("table", "rewrite-location", MAIN, "shop.none", *options)
    assert (refused.code, "has no table shop.none" in refused.err) == (ExitCode.NOT_FOUND, True), refused
    refused = run("table", "rewrite-location", "lakefs://lake/main~1", *options)
    assert (refused.code, "only a branch can change" in refused.err) == (ExitCode.INVALID, True)
    rewritten = done("table", "rewrite-location", MAIN, "shop.orders", *options, "--json").json
    assert (rewritten["tables"], rewritten["views"]) == (["shop.orders"], [])
    assert rewritten["commit"]["message"] == "Rewrite the location of table shop.orders"
    none: dict[str, object] = {"tables": [], "views": [], "commit": None}
    assert done("table", "rewrite-location", MAIN, *options, "--json").json == none
    assert done("table", "check", MAIN, "shop.orders", *options).out == "nothing is wrong\n"
    words = done("table", "rewrite-location", "lakefs://lake/dev", *options).out
    assert words.startswith("rewrote 1 table: "), words
    properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": options[1]}
    for ref, ids in (("main", [1, 2]), ("dev", [1, 2, 3])):
        scan = load_catalog("test", warehouse=f"lake@{ref}", **properties).load_table("shop.orders").scan()
        assert sorted(scan.to_arrow()["id"].to_pylist()) == ids
