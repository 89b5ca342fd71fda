"""Icechunk: a repository of arrays below a place, BUCKET or BUCKET/PREFIX."""

import sys
from typing import Any

import icechunk
import numpy
import zarr


def main(place: str) -> None:
    """Commit arrays, and try to commit a second change of the same snapshot."""
    bucket, _, prefix = place.partition("/")
    storage = icechunk.s3_storage(bucket=bucket, prefix=f"{prefix}/icechunk".lstrip("/"), from_env=True)
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="numbers", shape=(10_000,), chunks=(1000,), dtype="i4", fill_value=0)
    numbers = numpy.random.default_rng(1).integers(
        1 << 30, size=10_000, dtype="i4"
    )  # small chunks would lie in a manifest
    array[:] = numbers
    session.commit("the first")
    early, late = repository.writable_session("main"), repository.writable_session("main")
    zarr.open_array(early.store, path="numbers")[:1000] = 8
    zarr.open_array(late.store, path="numbers")[:1000] = 9
    early.commit("the second")
    try:
        late.commit("of the same snapshot")
    except icechunk.ConflictError:
        pass
    else:
        raise AssertionError("two changes of one snapshot were committed")
    reopened = icechunk.Repository.open(storage).readonly_session("main")
    read: Any = zarr.open_array(reopened.store, path="numbers", mode="r")[:]
    assert int(read.sum()) == 1000 * 8 + int(numbers[1000:].sum())
    assert len(list(repository.ancestry(branch="main"))) == 3


if __name__ == "__main__":
    main(sys.argv[1])
