"""The published package ``lakefs-spec`` (fsspec), and pandas, Polars, DuckDB and pyarrow through it."""

from hashlib import md5
from pathlib import Path
from typing import Any

import duckdb
import lakefs
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from lakefs_spec import LakeFSFileSystem

from tests.clients.support import SECRET, Served

ROWS = {"city": ["Bern", "Oslo", "Rom"], "people": [134, 709, 2748]}


@pytest.fixture
def fs(served: Served) -> LakeFSFileSystem:
    """A file system as users make one: from the environment; without what earlier ones have cached."""
    return LakeFSFileSystem(use_listings_cache=False, skip_instance_cache=True)


@pytest.fixture
def root(repo: lakefs.Repository) -> str:
    """Where the branch begins, without the scheme."""
    return f"{repo.id}/main"


@pytest.fixture
def url(root: str) -> str:
    return f"lakefs://{root}"


def names(listed: list[Any], root: str) -> list[str]:
    return sorted(str(name).removeprefix(root + "/") for name in listed)


def test_files_are_listed_found_and_described(fs: LakeFSFileSystem, root: str) -> None:
    for path in ("a.txt", "dir/b.txt", "dir/sub/c.txt", "dir/sub/d.csv"):
        fs.pipe_file(f"{root}/{path}", path.encode())
    assert names(fs.ls(f"{root}/", detail=False), root) == ["a.txt", "dir/"]
    assert names(fs.ls(f"{root}/dir", detail=False), root) == ["dir/b.txt", "dir/sub/"]
    assert names(fs.find(f"{root}/dir"), root) == ["dir/b.txt", "dir/sub/c.txt", "dir/sub/d.csv"]
    assert names(fs.glob(f"{root}/**/*.txt"), root) == ["a.txt", "dir/b.txt", "dir/sub/c.txt"]
    assert names(fs.glob(f"{root}/dir/sub/*"), root) == ["dir/sub/c.txt", "dir/sub/d.csv"]
    found = fs.info(f"{root}/dir/b.txt")
    assert (found["type"], found["size"], found["checksum"]) == ("file", 9, md5(b"dir/b.txt").hexdigest())
    assert fs.info(f"{root}/dir")["type"] == "directory"
    assert fs.isfile(f"{root}/a.txt")
    assert fs.isdir(f"{root}/dir/sub")
    assert fs.du(f"{root}/dir/") == 9 + 13 + 13
    for path, there in {"a.txt": True, "dir": True, "dir/": True, "none": False, "": True}.items():
        assert fs.exists(f"{root}/{path}") is there, path
    assert not fs.exists("no-such-repository/main/")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{root}/none")


def test_files_are_read_and_written(fs: LakeFSFileSystem, root: str) -> None:
    with fs.open(f"{root}/text", "w") as file:
        file.write("première\nzweite\n")
    with fs.open(f"{root}/text", "r") as file:
        assert file.read() == "première\nzweite\n"
    fs.pipe_file(f"{root}/bytes", bytes(range(100)))
    assert fs.cat_file(f"{root}/bytes") == bytes(range(100))
    assert fs.cat_file(f"{root}/bytes", start=10, end=20) == bytes(range(10, 20))
    assert fs.head(f"{root}/bytes", 5) == bytes(range(5))
    assert fs.tail(f"{root}/bytes", 5) == bytes(range(95, 100))
    assert fs.cat([f"{root}/bytes", f"{root}/text"])[f"{root}/bytes"] == bytes(range(100))
    with pytest.raises(FileExistsError), fs.open(f"{root}/bytes", "xb") as file:
        file.write(b"again")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{root}/none", "rb")
    fs.touch(f"{root}/empty")
    assert fs.info(f"{root}/empty")["size"] == 0
    assert fs.checksum(f"{root}/bytes") == md5(bytes(range(100))).hexdigest()


def test_files_are_copied_moved_and_removed(fs: LakeFSFileSystem, root: str) -> None:
    for path in ("dir/a", "dir/sub/b"):
        fs.pipe_file(f"{root}/{path}", path.encode())
    fs.cp_file(f"{root}/dir/a", f"{root}/copy")
    assert fs.cat_file(f"{root}/copy") == b"dir/a"
    fs.mv(f"{root}/copy", f"{root}/moved")
    assert not fs.exists(f"{root}/copy")
    fs.copy(f"{root}/dir/", f"{root}/other/", recursive=True)
    assert names(fs.find(f"{root}/other/"), root) == ["other/a", "other/sub/b"]
    fs.rm_file(f"{root}/moved")
    fs.rm(f"{root}/dir", recursive=True)
    assert names(fs.find(f"{root}/"), root) == ["other/a", "other/sub/b"]
    fs.rm_file(f"{root}/none")  # as it lists what it is to remove, nothing is missing


def test_folders_go_up_and_down(fs: LakeFSFileSystem, root: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a").write_text("a")
    (source / "sub" / "b").write_text("b")
    fs.put(f"{source}/", f"{root}/up/", recursive=True)
    assert names(fs.find(f"{root}/up"), root) == ["up/a", "up/sub/b"]
    fs.put_file(str(source / "a"), f"{root}/up/a")  # the same bytes: it looks first
    fs.get(f"{root}/up/", f"{tmp_path}/down/", recursive=True)
    assert (tmp_path / "down" / "sub" / "b").read_text() == "b"
    (tmp_path / "down" / "a").write_text("changed here")
    fs.get_file(f"{root}/up/a", f"{tmp_path}/down/a")
    assert (tmp_path / "down" / "a").read_text() == "a"


def test_a_branch_that_is_not_there_is_made_for_a_write(fs: LakeFSFileSystem, repo: lakefs.Repository) -> None:
    fs.pipe_file(f"{repo.id}/new-branch/file", b"1")
    assert repo.branch("new-branch").object("file").exists()
    assert not repo.branch("main").object("file").exists()


def test_errors_are_those_of_files(served: Served, root: str) -> None:
    wrong = LakeFSFileSystem(
        host=served.url,
        username=served.key_id,
        password=SECRET[::-1],
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    with pytest.raises(PermissionError):
        wrong.ls(f"{root}/")


def test_a_transaction_arrives_as_a_whole(fs: LakeFSFileSystem, repo: lakefs.Repository) -> None:
    with fs.transaction(repo.id, base_branch="main") as tx:
        fs.pipe_file(f"{repo.id}/{tx.branch.id}/a", b"1")
        made = tx.commit("in the transaction", metadata={"k": "v"})
        tx.tag(made, "done")
        assert tx.rev_parse("main").message == "Repository created"
    main = repo.branch("main")
    assert main.object("a").reader().read() == b"1"
    assert repo.tag("done").get_commit().message == "in the transaction"
    assert [branch.id for branch in repo.branches()] == ["main"]
    with pytest.raises(RuntimeError), fs.transaction(repo.id, delete="always") as tx:  # noqa: PT012
        fs.pipe_file(f"{repo.id}/{tx.branch.id}/b", b"1")
        tx.commit("never arrives")
        raise RuntimeError
    assert not main.object("b").exists()
    with pytest.raises(ValueError, match="does not exist"):
        fs.transaction("no-such-repository")


def test_a_transaction_reverts_and_merges(fs: LakeFSFileSystem, repo: lakefs.Repository) -> None:
    main = repo.branch("main")
    main.object("a").upload("1")
    main.commit("first")
    main.object("a").upload("2")
    main.commit("second")
    with fs.transaction(repo.id) as tx:
        reverted = tx.revert(tx.branch, "main", parent_number=0)
        assert reverted.message.startswith("Revert")
    assert main.object("a").reader("r").read() == "1"


# Libraries


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_pandas_writes_and_reads(url: str, format_: str) -> None:
    frame = pd.DataFrame(ROWS)
    getattr(frame, f"to_{format_}")(f"{url}/cities.{format_}", index=False)
    read = getattr(pd, f"read_{format_}")(f"{url}/cities.{format_}")
    pd.testing.assert_frame_equal(read, frame)


def test_pandas_reads_older_states(url: str, repo: lakefs.Repository) -> None:
    pd.DataFrame(ROWS).to_parquet(f"{url}/cities.parquet")
    repo.branch("main").commit("three cities")
    pd.DataFrame(ROWS)[:1].to_parquet(f"{url}/cities.parquet")
    repo.branch("main").commit("one city")
    assert len(pd.read_parquet(f"lakefs://{repo.id}/main/cities.parquet")) == 1
    assert len(pd.read_parquet(f"lakefs://{repo.id}/main~1/cities.parquet")) == 3


def test_polars_writes_and_reads(fs: LakeFSFileSystem, url: str, root: str) -> None:
    frame = pl.DataFrame(ROWS)
    with fs.open(f"{root}/cities.parquet", "wb") as file:
        frame.write_parquet(file)
    with fs.open(f"{root}/cities.parquet", "rb") as file:
        assert pl.read_parquet(file).equals(frame)
    assert pl.read_parquet(f"{url}/cities.parquet", use_pyarrow=True).equals(frame)
    with fs.open(f"{root}/cities.csv", "wb") as file:
        frame.write_csv(file)
    with fs.open(f"{root}/cities.csv", "rb") as file:
        assert pl.read_csv(file).equals(frame)


def test_duckdb_reads_globs_and_writes(fs: LakeFSFileSystem, url: str, root: str) -> None:
    for number in range(3):
        with fs.open(f"{root}/parts/{number}.parquet", "wb") as file:
            pl.DataFrame({"n": [number]}).write_parquet(file)
    with duckdb.connect() as database:
        database.register_filesystem(fs)
        assert database.sql(f"SELECT n FROM read_parquet('{url}/parts/1.parquet')").fetchall() == [(1,)]
        assert database.sql(f"SELECT sum(n) FROM read_parquet('{url}/parts/*.parquet')").fetchall() == [(3,)]
        database.sql(f"COPY (SELECT 7 AS n) TO '{url}/out.parquet' (FORMAT parquet)")
        assert database.sql(f"SELECT n FROM '{url}/out.parquet'").fetchall() == [(7,)]
        database.sql(f"COPY (SELECT 'x' AS s, 7 AS n) TO '{url}/out.csv' (HEADER)")
        assert database.sql(f"SELECT * FROM read_csv('{url}/out.csv')").fetchall() == [("x", 7)]


def test_pyarrow_writes_and_reads_datasets(fs: LakeFSFileSystem, root: str) -> None:
    table = pa.table({"year": [2024, 2024, 2025, 2025], "n": [1, 2, 3, 4]})
    ds.write_dataset(
        table, f"{root}/table", format="parquet", partitioning=["year"], partitioning_flavor="hive", filesystem=fs
    )
    assert names(fs.find(f"{root}/table"), root) == ["table/year=2024/part-0.parquet", "table/year=2025/part-0.parquet"]
    read = ds.dataset(f"{root}/table", format="parquet", partitioning="hive", filesystem=fs)
    assert read.count_rows() == 4
    assert read.to_table(filter=ds.field("year") == 2025).column("n").to_pylist() == [3, 4]
    pq.write_table(table, f"{root}/one.parquet", filesystem=fs)
    assert pq.read_table(f"{root}/one.parquet", filesystem=fs, columns=["n"]).column("n").to_pylist() == [1, 2, 3, 4]
