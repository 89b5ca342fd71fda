"""delta-rs: a Delta table below a place, BUCKET or BUCKET/PREFIX."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow
from deltalake import DeltaTable, write_deltalake


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
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(1, 8))
    write_deltalake(address, pyarrow.table({"id": [9]}), mode="overwrite")
    write_deltalake(address, pyarrow.table({"id": [10]}), mode="append")
    table = DeltaTable(address)
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table = DeltaTable(address)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [9, 10]


if __name__ == "__main__":
    main(sys.argv[1])
