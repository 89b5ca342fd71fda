"""Imports on Spark: one commit, the same tree as a single process builds, whatever happens on the way."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from urllib.parse import quote_plus

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from graveler.errors import (
    DirtyBranchError,
    EmptySourceError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import ImportChanges, ListingOptions
from graveler.spark import comparing, joining
from graveler.spark.importing import BadRowsError, import_listing, partitions_of
from graveler.spark.listing_sources import read_inventory, read_tables
from graveler.spark.slices import TASK_ROWS
from graveler.tree.writer import join
from tests.spark.conftest import SPARK_4
from tests.spark.listings import (
    BASE,
    Row,
    UnsteadyObjects,
    frame_of,
    import_here,
    latest,
    make_repository,
    rows_of,
    tree_of,
)
from tests.support.tuples import changed

OPTIONS = ListingOptions(base=BASE)


@pytest.fixture
def repository(tmp_path: Path) -> OpenRepository:
    return make_repository(tmp_path / "lake")


def unsteady(repository: OpenRepository, tmp_path: Path, every: int, at: int, **how: bool) -> None:
    """Let some of the tasks of imports to this repository fail."""
    folder = tmp_path / "lake" / "objects" / "repo"
    repository.namespace = UnsteadyObjects(folder, "local://repo", every, at, **how)


@pytest.mark.parametrize(("seed", "count", "partitions", "fail"), [(1, 400, 1, 0), (2, 300, 7, 2), (3, 30, 5, 3)])
def test_any_partitions_and_failures_of_tasks_give_the_tree_of_a_single_process(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, seed: int, count: int, partitions: int, fail: int
) -> None:
    random = Random(seed)
    rows = rows_of(random, count, duplicates=0.2)
    if fail:
        unsteady(repository, tmp_path, fail, 1)
    report = import_listing(
        spark, repository, "main", frame_of(spark, rows, random.randrange(1, 5)), OPTIONS, partitions=partitions
    )
    assert report.commit.metarange == tree_of(repository, rows).name()
    assert repository.branch("main").commit_id == report.commit.id
    assert report.built is not None
    assert report.built.objects == len(latest(rows))
    assert report.built.size == sum(row.size for row in latest(rows).values())
    assert report.built.duplicates == count - len(latest(rows))
    assert (report.built.bad, report.built.resumed, report.built.partitions) == (0, 0, partitions)


def test_a_task_whose_process_is_killed_is_done_again(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    rows = rows_of(Random(4), 200)
    unsteady(repository, tmp_path, 3, 2, kill=True)
    report = import_listing(spark, repository, "main", frame_of(spark, rows), OPTIONS, partitions=3)
    assert report.commit.metarange == tree_of(repository, rows).name()


def test_an_import_that_failed_changed_nothing_and_goes_on_where_it_was(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    rows = rows_of(Random(5), 400, duplicates=0.1)
    before = repository.branch("main").commit_id
    steady = repository.namespace
    unsteady(repository, tmp_path, 6, 1, always=True)
    with pytest.raises(UnavailableError, match=r"^the disk is full, says the test$"):
        import_listing(
            spark, repository, "main", frame_of(spark, rows), OPTIONS, partitions=6, checkpoint="inventory-1"
        )
    assert repository.branch("main").commit_id == before
    repository.namespace = steady
    assert [stored.key for stored in steady.list("_graveler/imports/")]
    report = import_listing(
        spark, repository, "main", frame_of(spark, rows, 3), OPTIONS, partitions=4, checkpoint="inventory-1"
    )
    assert report.commit.metarange == tree_of(repository, rows).name()
    assert report.built is not None
    assert 0 < report.built.resumed < report.built.objects == len(latest(rows))
    assert report.built.duplicates == 400 - len(latest(rows))
    assert list(steady.list("_graveler/imports/")) == []


def test_an_import_replaces_what_is_under_its_destination_and_nothing_else(
    spark: SparkSession, repository: OpenRepository
) -> None:
    import_here(repository, "main", [Row("in", 1, "01", 1 << 20)], "in/")
    import_here(repository, "main", [Row("k", 1, "02", 1 << 20)], "inside/")
    rows = rows_of(Random(6), 60)
    listed = [changed(row, key="warehouse/" + row.key) for row in rows] + [Row("other/x", 1, "03", 1 << 20)]
    options = ListingOptions(source="warehouse/", destination="in/", base="s3://elsewhere/")
    import_listing(spark, repository, "main", frame_of(spark, listed), options, partitions=3)
    found = {entry.path: entry.address for entry in repository.objects("main")}
    assert found == {"inside/k": BASE + "k"} | {"in/" + row.key: BASE + "warehouse/" + row.key for row in rows}


def test_rows_of_an_inventory(spark: SparkSession, repository: OpenRepository) -> None:
    """URL-encoded keys, versions, delete markers, folders, a bucket, times as ISO 8601."""
    keys = ["a b/c+d", "é/ü", "plain", "100%"]
    listed = [
        ("bucket-1", quote_plus(key), "true", "false", "7", "ab" * 16, "2024-02-03T04:05:06.000Z") for key in keys
    ]
    listed += [
        ("bucket-1", "old", "false", "false", "7", "ab" * 16, "2024-02-03T04:05:06.000Z"),
        ("bucket-1", "gone", "TRUE", "True", "", "", "2024-02-03T04:05:06.000Z"),
        ("bucket-1", "folder%2F", "true", "false", "0", "ab" * 16, "2024-02-03T04:05:06.000Z"),
    ]
    columns = ["Bucket", "Key", "IsLatest", "IsDeleteMarker", "Size", "ETag", "LastModifiedDate"]
    frame = spark.createDataFrame(listed, columns)
    report = import_listing(
        spark, repository, "main", frame, ListingOptions(url_encoded=True), partitions=2, label="inventory"
    )
    entries = list(repository.objects("main"))
    assert {entry.path: entry.address for entry in entries} == {key: f"s3://bucket-1/{key}" for key in keys}
    assert {entry.mtime for entry in entries} == {int(datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp())}
    assert report.built is not None
    assert report.built.bad == 0


def test_columns_of_every_type(spark: SparkSession, repository: OpenRepository) -> None:
    moment = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    frame = spark.createDataFrame(
        [("x", "s3://bucket/x y", 7, "ab" * 16, moment, "text/csv", {"owner": "ann"}, True)],
        "path string, address string, size int, checksum string, mtime timestamp, content_type string, "
        "metadata map<string,string>, is_latest boolean",
    )
    frame = frame.withColumn("path", frame.path.cast("binary")).withColumn("mtime", frame.mtime.cast("timestamp_ntz"))
    import_listing(spark, repository, "main", frame, partitions=1)
    entry = repository.stat("main", "x")
    assert (entry.address, entry.size, entry.mtime) == ("s3://bucket/x y", 7, int(moment.timestamp()))
    assert (entry.content_type, dict(entry.metadata)) == ("text/csv", {"owner": "ann"})


def test_addresses_alone(spark: SparkSession, repository: OpenRepository) -> None:
    frame = spark.createDataFrame(
        [("s3://bucket/t/2", 1, "02"), ("s3://bucket/t/1", 1, "01"), ("s3://other/t/1", 1, "03")],
        "address string, size long, etag string",
    )
    options = ListingOptions(source="s3://bucket/t/", destination="d/")
    import_listing(spark, repository, "main", frame, options, partitions=2)
    entries = list(repository.objects("main"))
    assert {entry.path: entry.address for entry in entries} == {"d/1": "s3://bucket/t/1", "d/2": "s3://bucket/t/2"}


@pytest.mark.parametrize(
    ("rows", "cores", "partitions"),
    [(0, 2, 2), (1, 3, 3), (4_000_000, 2, 2), (4_000_001, 2, 4), (10_000_000, 2, 6), (10**9, 128, 512)],
)
def test_partitions_have_two_million_rows_or_fewer_and_are_as_many_for_each_core(
    rows: int, cores: int, partitions: int
) -> None:
    assert partitions_of(rows, cores) == partitions


def test_names_that_are_no_text_are_bad_rows(spark: SparkSession, repository: OpenRepository) -> None:
    names = [b"a", b"B", "é".encode(), b"Z\xff", b"b"]
    frame = spark.createDataFrame([(bytearray(name), 1, "00") for name in names], "key binary, size long, etag string")
    report = import_listing(spark, repository, "main", frame, ListingOptions(base=BASE), partitions=2, max_bad_rows=1)
    assert report.built is not None
    assert [(row.name, "UTF-8" in row.why) for row in report.built.samples] == [("Z\\xff", True)]
    assert [entry.path for entry in repository.objects("main")] == ["B", "a", "b", "é"]


@pytest.mark.skipif(not SPARK_4, reason="Spark 3.5 has no collations")
def test_a_collation_of_the_listing_orders_nothing(spark: SparkSession, repository: OpenRepository) -> None:
    frame = spark.createDataFrame(
        [(name, 1, "00") for name in "aBcDeF"], "key string collate utf8_lcase, size long, etag string"
    )
    import_listing(spark, repository, "main", frame, ListingOptions(base=BASE), partitions=2)
    assert "".join(entry.path for entry in repository.objects("main")) == "BDFace"


def test_bad_rows_fail_the_import_or_are_left_out_and_told(spark: SparkSession, repository: OpenRepository) -> None:
    rows = rows_of(Random(7), 50)
    listed = [
        ("100%zz", "1", "00", "true"),
        ("n", "x", "00", "true"),
        ("m", "1", "00", "perhaps"),
        (None, "1", "00", "true"),
    ]
    listed += [(quote_plus(row.key, safe="/"), str(row.size), row.etag, "true") for row in rows]
    frame = spark.createDataFrame(listed, "key string, size string, etag string, islatest string")
    before = repository.branch("main").commit_id
    options = ListingOptions(base=BASE, url_encoded=True)
    with pytest.raises(BadRowsError, match=r"the listing: 4 rows cannot be imported, but only 3 are allowed") as caught:
        import_listing(spark, repository, "main", frame, options, partitions=3, max_bad_rows=3)
    assert {row.name for row in caught.value.samples} == {"100%zz", "n", "m", "None"}
    assert repository.branch("main").commit_id == before
    report = import_listing(spark, repository, "main", frame, options, partitions=3, max_bad_rows=4, checkpoint="x")
    assert report.built is not None
    assert (report.built.bad, report.built.objects) == (4, 50)
    whys = {row.name: row.why for row in report.built.samples}
    assert whys["n"] == "column 'size': 'x' is not a number of bytes, such as 1024"
    assert whys["m"] == "column 'islatest' is neither true nor false"
    assert "URL decoding" in whys["100%zz"]


def test_rows_that_nobody_could_read_are_bad(spark: SparkSession, repository: OpenRepository) -> None:
    """Plain rows, which are encoded a batch at a time, and others."""
    readable, unreadable = f"{BASE}a", ["file:///proc/self/environ", f"{BASE}{'x' * 2000}", "gs://bucket/key"]
    rows = [(name, address, 1, "0" * 32, 10**9) for name, address in zip("abcd", [readable, *unreadable], strict=True)]
    frame = spark.createDataFrame(rows, "key string, physical_address string, size long, etag string, mtime long")
    for listing in (frame, frame.drop("mtime")):
        with pytest.raises(BadRowsError, match="3 rows cannot be imported") as caught:
            import_listing(spark, repository, "main", listing, ListingOptions(), partitions=1)
        assert {row.name for row in caught.value.samples} == {"b", "c", "d"}
    assert [entry.path for entry in repository.objects("main")] == []


def never(spark: SparkSession) -> DataFrame:
    """A listing that must not be read."""
    return spark.range(1).select(
        sql.raise_error(sql.lit("the listing was read")).alias("key"),
        sql.lit(1).alias("size"),
        sql.lit("00").alias("etag"),
    )


def test_the_branch_is_looked_at_before_the_listing(spark: SparkSession, repository: OpenRepository) -> None:
    with pytest.raises(NotFoundError, match="ref 'nowhere' not found"):
        import_listing(spark, repository, "nowhere", never(spark), OPTIONS)
    repository.set_protection(["guarded"])
    repository.create_branch("guarded", "main")
    with pytest.raises(ForbiddenError, match="branch 'guarded' is protected"):
        import_listing(spark, repository, "guarded", never(spark), OPTIONS)
    repository.create_branch("dirty", "main")
    repository.upload("dirty", "x", b"1")
    with pytest.raises(DirtyBranchError):
        import_listing(spark, repository, "dirty", never(spark), OPTIONS)
    with pytest.raises(InvalidError, match="has no column ETag"):
        import_listing(spark, repository, "main", never(spark).drop("etag"), OPTIONS)
    with pytest.raises(InvalidError, match="must be empty or end with '/'"):
        import_listing(spark, repository, "main", never(spark), ListingOptions(base=BASE, destination="a"))
    with pytest.raises(InvalidError, match="0 partitions"):
        import_listing(spark, repository, "main", never(spark), OPTIONS, partitions=0)
    told: type[GravelerError] = (
        UnavailableError if spark.version < "4" else InvalidError
    )  # Spark 3.5 does not say that a user raised it
    with pytest.raises(told, match=r"importing to 'main': .*the listing was read"):
        import_listing(spark, repository, "main", never(spark), OPTIONS, partitions=1)


def test_a_listing_that_names_nothing(spark: SparkSession, repository: OpenRepository) -> None:
    frame = frame_of(spark, [Row("a", 1, "00", 1 << 20)])
    import_here(repository, "main", [Row("kept", 1, "02", 1 << 20)], "")
    options = ListingOptions(source="b/", base=BASE)
    with pytest.raises(
        EmptySourceError, match=r"my listing \(rows whose .* starts with 'b/'\) lists no objects for ''"
    ):
        import_listing(spark, repository, "main", frame, options, label="my listing")
    with pytest.raises(EmptySourceError, match="Nothing was changed"):  # and so it is once there were rows
        import_listing(spark, repository, "main", frame.limit(0), OPTIONS, partitions=2)
    assert [entry.path for entry in repository.objects("main")] == ["kept"]
    rehearsed = import_listing(spark, repository, "main", frame, options, allow_empty=True, dry_run=True)
    assert [entry.path for entry in repository.objects("main")] == ["kept"]
    emptied = import_listing(spark, repository, "main", frame, options, allow_empty=True)
    assert list(repository.objects("main")) == []
    assert emptied.changes == rehearsed.changes == ImportChanges(removed=1, removed_bytes=1)


@pytest.mark.parametrize("rows_of_a_task", [TASK_ROWS, 40])
def test_what_an_import_says_is_the_difference_of_dicts_before_and_after(
    spark: SparkSession, repository: OpenRepository, monkeypatch: pytest.MonkeyPatch, rows_of_a_task: int
) -> None:
    """Compared on the driver, or by tasks."""
    monkeypatch.setattr(comparing, "TASK_ROWS", rows_of_a_task)
    random = Random(17)
    old = {row.key: row for row in rows_of(random, 300)}
    new = {key: row for key, row in old.items() if random.random() < 0.7}
    new |= {key: changed(row, size=row.size + 1, etag="ab" * 16) for key, row in new.items() if random.random() < 0.3}
    new |= {row.key: row for row in rows_of(random, 50)}
    import_here(repository, "main", list(old.values()), "in/")
    import_here(repository, "main", [Row("k", 1, "02", 1 << 20)], "out/")
    options = ListingOptions(base=BASE, destination="in/")
    head = repository.branch("main")
    frame = frame_of(spark, list(new.values()))
    planned = import_listing(spark, repository, "main", frame, options, partitions=3, checkpoint="x", dry_run=True)
    assert (planned.commit.id, repository.branch("main")) == ("", head)
    made = import_listing(spark, repository, "main", frame, options, partitions=3, checkpoint="x")
    replaced = [
        key for key in old.keys() & new.keys() if (old[key].size, old[key].etag) != (new[key].size, new[key].etag)
    ]
    unchanged = (old.keys() & new.keys()) - set(replaced)
    assert (
        made.changes
        == planned.changes
        == ImportChanges(
            len(new.keys() - old.keys()),
            sum(new[key].size for key in new.keys() - old.keys()),
            len(replaced),
            sum(old[key].size for key in replaced),
            sum(new[key].size for key in replaced),
            len(old.keys() - new.keys()),
            sum(old[key].size for key in old.keys() - new.keys()),
            len(unchanged),
            sum(new[key].size for key in unchanged),
        )
    )
    assert made.built is not None
    assert made.built.resumed == len(new)  # a dry run leaves what it built to the import
    assert made.commit.metarange == planned.commit.metarange


def test_a_partition_of_a_listing_that_fails_imports_nothing(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    import_here(repository, "main", [Row("kept", 1, "02", 1 << 20)], "")
    before = repository.branch("main")
    frame_of(spark, rows_of(Random(18), 200), 4).write.parquet(str(tmp_path / "listing"))
    torn = sorted((tmp_path / "listing").glob("part-*.parquet"))[-1]
    source = read_tables(spark, [str(tmp_path / "listing")], "parquet")
    torn.write_bytes(torn.read_bytes()[:-20])
    (torn.parent / f".{torn.name}.crc").unlink()
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(UnavailableError, match="importing to 'main'"):
            import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=2)
        torn.unlink()
        with pytest.raises(UnavailableError, match="importing to 'main'"):
            import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=2)
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert repository.branch("main") == before


@pytest.mark.parametrize("header", [True, False])
def test_a_csv_that_was_cut_in_its_last_line_imports_nothing(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, *, header: bool
) -> None:
    """Also where the columns that count are there, and the last of them is half a value."""
    columns = ["key", "size", "etag", "storage"]
    text = "".join(f"{letter},1,{letter * 32},STANDARD\n" for letter in "abc")
    (tmp_path / "l.csv").write_text((",".join(columns) + "\n" if header else "") + text[:-30])
    source = read_tables(spark, [str(tmp_path / "l.csv")], columns=() if header else columns)
    with pytest.raises(BadRowsError, match="'c': has a different number of fields"):
        import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=1)
    report = import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=1, max_bad_rows=1)
    assert report.changes.added == 2
    whole = tmp_path / "whole.csv"
    whole.write_text(text if not header else ",".join(columns) + "\n" + text.removesuffix("\n"))
    source = read_tables(spark, [str(whole)], columns=() if header else columns)
    assert import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=1).changes.added == 1


def test_a_gzip_stream_that_ends_early_imports_nothing(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    text = "".join(f"{row.key},1,{row.etag}\n" for row in rows_of(Random(19), 500))
    (tmp_path / "l.csv.gz").write_bytes(gzip.compress(text.encode())[:-200])
    columns = ["key", "size", "etag"]
    source = read_tables(spark, [str(tmp_path / "l.csv.gz")], columns=columns)
    with pytest.raises(UnavailableError, match="Spark's job failed"):
        import_listing(spark, repository, "main", source.rows, OPTIONS, partitions=2)
    assert list(repository.objects("main")) == []


def test_an_inventory_without_files_lists_nothing(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").write_text('{"fileFormat": "CSV", "fileSchema": "Bucket, Key", "files": []}')
    source = read_inventory(spark, str(tmp_path / "manifest.json"))
    with pytest.raises(EmptySourceError, match=r"manifest\.json lists no objects"):
        import_listing(spark, repository, "main", source.rows, partitions=1, label=source.label)
    assert (
        import_listing(spark, repository, "main", source.rows, partitions=1, allow_empty=True).changes
        == ImportChanges()
    )


def test_a_branch_that_moved_meanwhile_keeps_what_it_got(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    """Another import of another place, while this one's tasks are at work."""
    rows = rows_of(Random(8), 40)
    other = make_repository_again(tmp_path)
    frame = frame_of(spark, rows)
    moved: list[str] = []

    def join_and_move(*arguments: object) -> object:
        if not moved:
            moved.append(import_here(other, "main", [Row("k", 1, "02", 1 << 20)], "elsewhere/"))
        return join(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "join", join_and_move)
        report = import_listing(
            spark, repository, "main", frame, ListingOptions(base=BASE, destination="mine/"), partitions=2
        )
    assert moved
    paths = {entry.path for entry in repository.objects(report.commit.id)}
    assert paths == {"elsewhere/k"} | {"mine/" + row.key for row in rows}
    assert len(repository.log("main").results) == 3


def test_two_imports_at_once_on_one_branch_both_land(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    rows = rows_of(Random(14), 30)

    def run(number: int) -> str:
        options = ListingOptions(base=BASE, destination=f"{number}/")
        frame = frame_of(spark, rows)
        return import_listing(
            spark, make_repository_again(tmp_path), "main", frame, options, partitions=2, label=f"listing {number}"
        ).commit.id

    with ThreadPoolExecutor(2) as threads:
        commits = list(threads.map(run, (1, 2)))
    assert {commit.id for commit in repository.log("main").results[:2]} == set(commits)
    keys = {row.key for row in rows}
    assert {entry.path for entry in repository.objects("main")} == {f"{n}/{key}" for n in (1, 2) for key in keys}


def make_repository_again(tmp_path: Path) -> OpenRepository:
    from graveler.lake.opening.folder import open_folder_lake

    return open_folder_lake(tmp_path / "lake").repository("repo")


def test_a_repeated_request_returns_the_first_ones_commit(spark: SparkSession, repository: OpenRepository) -> None:
    frame = frame_of(spark, [Row("a", 1, "00", 1 << 20)])
    first = import_listing(spark, repository, "main", frame, OPTIONS, partitions=1, request_id="run-7")
    again = import_listing(spark, repository, "main", never(spark), OPTIONS, partitions=1, request_id="run-7")
    assert again.commit == first.commit
    assert again.built is None


def test_many_subtrees_are_joined_in_groups_by_tasks(
    spark: SparkSession, repository: OpenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_MANY", 3)
    rows = rows_of(Random(9), 300)
    report = import_listing(spark, repository, "main", frame_of(spark, rows), OPTIONS, partitions=9)
    assert report.commit.metarange == tree_of(repository, rows).name()


def test_the_library_imports_the_same_listing_to_the_same_tree(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    rows = rows_of(Random(10), 80)
    frame_of(spark, rows).write.parquet(str(tmp_path / "listing"))
    repository.create_branch("library", "main")
    here = repository.import_listing("library", tmp_path / "listing", OPTIONS)
    there = import_listing(spark, repository, "main", spark.read.parquet(str(tmp_path / "listing")), OPTIONS)
    assert there.commit.metarange == here.metarange
