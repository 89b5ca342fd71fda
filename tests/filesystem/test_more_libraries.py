"""Dask, zarr and universal-pathlib on a branch, each with what it is used for."""

import subprocess
import sys
from typing import Any

import fsspec
import numpy
import pandas
import pytest

from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository


@pytest.fixture
def options(folder_options: dict[str, Any]) -> dict[str, Any]:
    return {**folder_options, "user": "ada"}


@pytest.fixture
def fs(options: dict[str, Any]) -> GravelerFileSystem:
    found: GravelerFileSystem = fsspec.filesystem("graveler", **options)
    return found


@pytest.fixture
def branch(options: dict[str, Any]) -> str:
    return f"{new_repository(options)}/main"


def commit(fs: GravelerFileSystem, branch: str, message: str) -> str:
    repository, name = branch.split("/")
    return fs.opened.repository(repository).branch(name).commit(message).id


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, in Dask
def test_dask_writes_partitions_and_reads_them(fs: GravelerFileSystem, branch: str, options: dict[str, Any]) -> None:
    import dask
    import dask.dataframe

    frame = pandas.DataFrame({"n": range(1000), "k": [n % 3 for n in range(1000)]})
    with dask.config.set(scheduler="threads", num_workers=2):
        given = dask.dataframe.from_pandas(frame, npartitions=4)  # type: ignore[no-untyped-call]
        given.to_parquet(f"graveler://{branch}/t", storage_options=options)
        assert len(fs.glob(f"{branch}/t/*.parquet")) == 4
        first = commit(fs, branch, "Four parts")
        given.to_parquet(f"graveler://{branch}/t", storage_options=options, overwrite=True, partition_on=["k"])
        repository, _ = branch.split("/")
        for ref, files in (("main", "t/*/*.parquet"), (first, "t/*.parquet")):
            found = dask.dataframe.read_parquet(f"graveler://{repository}/{ref}/t", storage_options=options)
            assert int(found["n"].sum().compute()) == sum(range(1000))
            assert fs.glob(f"{repository}/{ref}/{files}")
        given.to_csv(f"graveler://{branch}/csv/*.csv", storage_options=options, index=False)
        read = dask.dataframe.read_csv(f"graveler://{branch}/csv/*.csv", storage_options=options)
        pandas.testing.assert_frame_equal(read.compute().reset_index(drop=True), frame)


def test_zarr_writes_a_group_and_reads_commits(fs: GravelerFileSystem, branch: str, options: dict[str, Any]) -> None:
    import zarr

    values = numpy.arange(10_000, dtype="int32").reshape(100, 100)
    group: Any = zarr.open_group(f"graveler://{branch}/run.zarr", mode="w", storage_options=options)
    array = group.create_array("loss", shape=values.shape, chunks=(10, 100), dtype=values.dtype)
    array[:] = values
    group.attrs["rate"] = 0.1
    first = commit(fs, branch, "A run")
    array[0] = -1
    group.create_array("other", shape=(3,), dtype="f8")

    repository, _ = branch.split("/")
    fs = fsspec.filesystem("graveler", **options, asynchronous=True)
    store = zarr.storage.FsspecStore(fs, path=f"{repository}/{first}/run.zarr", read_only=True)
    before: Any = zarr.open_group(store, mode="r")
    assert list(before) == ["loss"]
    assert before.attrs["rate"] == 0.1
    numpy.testing.assert_array_equal(before["loss"][:], values)
    numpy.testing.assert_array_equal(before["loss"][5:25, 3], values[5:25, 3])

    now: Any = zarr.open_group(f"graveler://{branch}/run.zarr", mode="r", storage_options=options)
    assert sorted(now) == ["loss", "other"]
    assert now["loss"][0].tolist() == [-1] * 100
    with pytest.raises(PermissionError):
        zarr.open_group(zarr.storage.FsspecStore(fs, path=f"{repository}/{first}/run.zarr"), mode="w")
    del group["other"]
    assert not fs.exists(f"{branch}/run.zarr/other")


def test_paths_of_universal_pathlib(branch: str, options: dict[str, Any]) -> None:
    from upath import UPath

    root = UPath(f"graveler://{branch}", **options)
    note = root / "notes" / "a.txt"
    assert not note.exists()
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("hello")
    root.joinpath("notes", "b.bin").write_bytes(b"\x00")
    assert (note.read_text(), note.stat().st_size, note.is_file(), note.parent.is_dir()) == ("hello", 5, True, True)
    assert (note.name, note.stem, note.suffix, note.parent.name) == ("a.txt", "a", ".txt", "notes")
    assert str(note) == f"graveler://{branch}/notes/a.txt"
    assert sorted(path.name for path in (root / "notes").iterdir()) == ["a.txt", "b.bin"]
    assert [path.name for path in root.glob("**/*.txt")] == ["a.txt"]
    assert [path.name for path in root.rglob("*.bin")] == ["b.bin"]
    with note.open("w") as file:
        file.write("again")
    note.rename(note.with_name("c.txt"))
    assert (root / "notes/c.txt").read_text() == "again"
    (root / "notes/c.txt").unlink()
    with pytest.raises(FileNotFoundError):
        (root / "notes/c.txt").read_text()
    assert [path.name for path in (root / "notes").iterdir()] == ["b.bin"]
    assert (root.parent / "main" / "notes" / "b.bin").exists()


def test_universal_pathlib_knows_the_lake_by_its_entry_point(branch: str, options: dict[str, Any]) -> None:
    """In a new process, which has imported nothing of graveler; its warnings are errors."""
    program = "import sys; from upath import UPath; print(UPath(sys.argv[1], lake=sys.argv[2]) / 'a')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, f"graveler://{branch}", options["lake"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"graveler://{branch}/a\n", "")
