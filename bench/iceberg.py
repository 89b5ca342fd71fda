"""``python -m bench.iceberg``: PyIceberg on a branch without a server, beside its own ``SqlCatalog`` on SQLite, by turns in one
process; ``graveler serve`` beside Iceberg's reference server (:mod:`bench.reference_catalog`), which Maven fetches; merges of
two appends to one table; and branches with many tables (:mod:`bench.many_tables`). Folders; times are those of a client that
waits."""

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pyiceberg.catalog import Catalog, load_catalog

from bench.catalog_calls import ROWS, TABLE, Bounds, paired_calls
from bench.lines import Goal, Line, show, table
from bench.many_tables import committers, many_files, many_tables
from bench.reference_catalog import served_calls
from graveler.lake.opening.folder import create_folder_lake

PEER = "SqlCatalog"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.iceberg", description=__doc__)
    parser.add_argument("--repeat", type=int, default=100, help="calls of each kind (default %(default)s)")
    parser.add_argument("--merges", type=int, default=20, help="merges of two appends (default %(default)s)")
    parser.add_argument("--committers", type=int, default=100, help="committers at once (default %(default)s)")
    parser.add_argument("--tables", type=int, default=10_000, help="tables of one namespace (default %(default)s)")
    parser.add_argument("--files", type=int, default=1_000, help="new files of one commit (default %(default)s)")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="graveler-bench-") as temporary:
        folder = Path(temporary)
        lines = [
            *calls(folder, arguments.repeat),
            *served_calls(folder, arguments.repeat),
            *merges(folder, arguments.merges),
        ]
        lines += committers(folder, arguments.committers, 5)
        lines += many_tables(folder, arguments.tables, 20)
        lines += many_files(folder, arguments.files, 5)
        print(table(lines))


def calls(folder: Path, repeat: int) -> list[Line]:
    """The calls of a catalog, by turns in the library and in the peer."""
    catalogs = {PEER: sql_catalog(folder), "graveler": lake_catalog(folder / "lake")}
    bounds = Bounds(load=2, commit=2.5, create=2.5, append=1.3)
    return paired_calls(catalogs, PEER, bounds, repeat)


def merges(folder: Path, number: int) -> list[Line]:
    """Merges of two branches that appended to one table."""
    place = folder / "merged"
    repository = create_folder_lake(place).create_repository("bench", "local://bench")
    main = lake_catalog(place, create=False)
    main.create_namespace("shop")
    main.create_table(TABLE, ROWS.schema).append(ROWS)
    repository.create_branch("dev", "main")
    dev = lake_catalog(place, "dev", create=False)
    times = []
    for _ in range(number):
        for catalog in (main, dev):
            catalog.load_table(TABLE).append(ROWS)
        began = time.perf_counter()
        repository.merge("dev", "main")
        times.append(time.perf_counter() - began)
    assert main.load_table(TABLE).scan().count() == len(ROWS) * (2 * number + 1)
    for catalog in (main, dev):
        catalog.close()
    seconds = median(times)
    return [
        Line(
            "merge of two appends to one table",
            show(seconds),
            rate=f"{1 / seconds:,.0f}",
            goals=(Goal("seconds", seconds, 0.1),),
        )
    ]


def sql_catalog(folder: Path) -> Catalog:
    """PyIceberg's own catalog on SQLite."""
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    return load_catalog("sql", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{warehouse}")


def lake_catalog(place: Path, ref: str = "main", *, create: bool = True) -> Catalog:
    """A branch of a lake, without a server."""
    if create:
        create_folder_lake(place).create_repository("bench", "local://bench")
    properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(place), "warehouse": f"bench@{ref}"}
    return load_catalog("graveler", **properties)


if __name__ == "__main__":
    main()
