"""Lance: a dataset below a place, BUCKET or BUCKET/PREFIX."""

import sys
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow


def main(place: str) -> None:
    """Create a dataset, append to it at the same time, and look at its versions."""
    address = f"s3://{place}/pylance"
    lance.write_dataset(pyarrow.table({"id": [1, 2]}), address)

    def append(number: int) -> None:
        lance.write_dataset(pyarrow.table({"id": [number]}), address, mode="append")

    append(3)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4, 8)))
    dataset = lance.dataset(address)
    assert dataset.version == 6
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(1, 8))
    assert lance.dataset(address, version=1).to_table()["id"].to_pylist() == [1, 2]
    dataset.delete("id = 2")
    assert lance.dataset(address).count_rows() == 6


if __name__ == "__main__":
    main(sys.argv[1])
