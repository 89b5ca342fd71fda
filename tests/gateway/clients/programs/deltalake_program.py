"""delta-rs: a Delta table below a place, BUCKET or BUCKET/PREFIX."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow
from deltalake import DeltaTable, QueryBuilder, write_deltalake


def main(place: str) -> None:
    """Create a table, append to it at the same time, overwrite and compact it, and look at its versions."""
    address = f"s3://{place}/deltalake"
    write_deltalake(address, pyarrow.table({"id": [1, 2]}))
    write_deltalake(address, pyarrow.table({"id": [3]}), mode="append")

    def append(number: int) -> None:
        write_deltalake(address, pyarrow.table({"id": [number]}), mode="append")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4, 8)))
    table = DeltaTable(address)
    assert table.version() == 5
    assert sorted(ids(table)) == list(range(1, 8))
    write_deltalake(address, pyarrow.table({"id": [9]}), mode="overwrite")
    write_deltalake(address, pyarrow.table({"id": [10]}), mode="append")
    table = DeltaTable(address)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table = DeltaTable(address)
    assert sorted(ids(table)) == [9, 10]


def ids(table: DeltaTable) -> list[int]:
    """Read a table by delta-rs itself: pyarrow's threads, which call it, may abort the process at its end."""
    rows = QueryBuilder().register("numbers", table).execute("SELECT id FROM numbers").read_all()
    return list(pyarrow.table(rows)["id"].to_pylist())


if __name__ == "__main__":
    main(sys.argv[1])
