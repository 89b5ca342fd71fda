"""The libraries that people read and write tables with, each on a real table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.filesystem.object_file import ObjectFile, PlainFile
from tests.filesystem.conftest import new_repository

pa = pytest.importorskip("pyarrow")
ROWS = 16 * 500


@pytest.fixture
def fs(folder_options: dict[str, Any]) -> Iterator[GravelerFileSystem]:
    made = GravelerFileSystem(**folder_options, user="ada")
    yield made
    made.opened.close()


@pytest.fixture
def branch(folder_options: dict[str, Any]) -> str:
    return f"{new_repository({**folder_options, 'user': 'ada'})}/main"


def table() -> Any:
    """Sixteen row groups of numbers and texts."""
    return pa.table({"n": range(ROWS), "s": [f"text {n % 7}" for n in range(ROWS)]})


def test_pandas_reads_and_writes(fs: GravelerFileSystem, branch: str, folder_options: dict[str, Any]) -> None:
    import pandas

    frame = table().to_pandas()
    options = {**folder_options, "user": "ada"}
    frame.to_parquet(f"graveler://{branch}/t.parquet", storage_options=options)
    frame.to_csv(f"graveler://{branch}/t.csv.gz", index=False, storage_options=options)
    for read, name in ((pandas.read_parquet, "t.parquet"), (pandas.read_csv, "t.csv.gz")):
        pandas.testing.assert_frame_equal(
            read(f"graveler://{branch}/{name}", storage_options=options), frame, check_dtype=False
        )


def test_pandas_shows_why_a_write_is_refused(
    fs: GravelerFileSystem, branch: str, folder_options: dict[str, Any]
) -> None:
    import pandas

    with pytest.raises(PermissionError, match="'main~0' is not a branch"):
        pandas.DataFrame({"n": [1]}).to_csv(f"graveler://{branch}~0/t.csv", storage_options=folder_options)


def test_pyarrow_reads_and_writes_datasets(fs: GravelerFileSystem, branch: str) -> None:
    from pyarrow import dataset
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    arrow = PyFileSystem(FSSpecHandler(fs))
    dataset.write_dataset(table(), f"{branch}/t", format="parquet", filesystem=arrow, partitioning=["s"])
    assert len(fs.glob(f"{branch}/t/*/*.parquet")) == 7
    found = dataset.dataset(f"{branch}/t", filesystem=arrow, format="parquet", partitioning=["s"])
    assert found.count_rows() == ROWS
    total = found.to_table(columns=["n"])["n"]
    assert pa.compute.sum(total).as_py() == sum(range(ROWS))


def test_duckdb_scans_with_several_threads(fs: GravelerFileSystem, branch: str) -> None:
    import duckdb
    from pyarrow import parquet

    with fs.open(f"{branch}/t.parquet", "wb") as file:
        parquet.write_table(table(), file, row_group_size=500)
    connection = duckdb.connect()
    connection.execute("SET threads = 4")
    connection.register_filesystem(fs)
    for _ in range(50):
        found = connection.execute(
            f"SELECT sum(n), count(DISTINCT s), count(*) FROM 'graveler://{branch}/t.parquet'"
        ).fetchone()
        assert found == (sum(range(ROWS)), 7, ROWS)
    connection.execute(f"COPY (SELECT 1 AS one) TO 'graveler://{branch}/one.csv'")
    assert fs.cat(f"{branch}/one.csv") == b"one\n1\n"


def test_arrow_alone_reads_plain_files(fs: GravelerFileSystem, branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb
    from pyarrow import parquet
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    with fs.open(f"{branch}/t.parquet", "wb") as file:
        parquet.write_table(table(), file, row_group_size=500)
    opened: list[type] = []
    real = fs._objects.open

    def note(*given: Any, **named: Any) -> Any:
        file = real(*given, **named)
        opened.append(type(file))
        return file

    monkeypatch.setattr(fs._objects, "open", note)
    arrow = PyFileSystem(FSSpecHandler(fs))
    for _ in range(20):
        with arrow.open_input_file(f"{branch}/t.parquet") as source:
            found = parquet.ParquetFile(source, pre_buffer=True).read(use_threads=True)
            assert found.equals(table())
    assert {*opened} == {PlainFile}
    del opened[:]
    connection = duckdb.connect()
    connection.execute("SET threads = 4")
    connection.register_filesystem(fs)
    connection.execute(f"SELECT sum(n) FROM 'graveler://{branch}/t.parquet'").fetchall()
    with fs.open(f"{branch}/t.parquet", mode="rb"):
        assert {*opened} == {ObjectFile}


def test_arrow_is_told_of_a_file_that_lost_bytes(fs: GravelerFileSystem, branch: str) -> None:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    fs.pipe_file(f"{branch}/x", bytes(1000))
    fs.opened.repository(branch.split("/")[0]).branch("main").commit("A file")
    [name] = fs.native(f"{branch}/x")
    place = Path(name)
    place.chmod(0o600)
    place.write_bytes(bytes(900))
    with (
        PyFileSystem(FSSpecHandler(fs)).open_input_file(f"{branch}/x") as file,
        pytest.raises(OSError, match="900 bytes"),
    ):
        file.read_at(200, 800)


def test_polars_reads_native_places(fs: GravelerFileSystem, branch: str) -> None:
    import polars

    with fs.open(f"{branch}/t.parquet", "wb") as file:
        polars.from_arrow(table()).write_parquet(file)  # type: ignore[union-attr]
    repository, name = branch.split("/")
    fs.opened.repository(repository).branch(name).commit("A table")
    found = polars.scan_parquet(fs.native(f"{branch}/*.parquet")).select(polars.col("n").sum()).collect()
    assert found.item() == sum(range(ROWS))
    with fs.open(f"{branch}/t.parquet") as file:
        assert polars.read_parquet(file).height == ROWS


def test_python_reads_lines_and_archives(fs: GravelerFileSystem, branch: str, tmp_path: Path) -> None:
    import csv
    import zipfile

    with fs.open(f"{branch}/a.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "note"], [1, "a\nb"]])
    with fs.open(f"{branch}/a.csv", "r", newline="") as file:
        assert list(csv.DictReader(file)) == [{"id": "1", "note": "a\nb"}]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/y.txt", "zipped")
    fs.put_file(str(tmp_path / "a.zip"), f"{branch}/a.zip")
    with fs.open(f"{branch}/a.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("x/y.txt") == b"zipped"
