"""Listings that Spark reads: S3 Inventories of every format, and prefixes that are listed in parallel."""

import gzip
import json
from decimal import Decimal
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote_plus

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from graveler.errors import InvalidError, NotFoundError, RepositoryNotFoundError
from graveler.requests.importing import ListingOptions
from graveler.spark.importing import import_listing
from graveler.spark.listing_frames import MALFORMED
from graveler.spark.listing_sources import list_prefix, read_inventory, read_tables
from tests.spark.listings import Row, latest, make_repository, rows_of
from tests.support.tuples import changed

SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
TIME = "2024-02-03T04:05:06.000Z"


def make_inventory(spark: SparkSession, folder: Path, kind: str, rows: list[Row], **changes: Any) -> str:
    """An S3 Inventory in a folder, as a copy of its bucket; the manifest's path."""
    data = folder / "inventory" / "data"
    data.mkdir(parents=True)
    halves = [rows[::2], rows[1::2]]
    files = []
    for number, half in enumerate(halves):
        lines = [("src", row.key, "v", True, False, row.size, TIME, row.etag) for row in half]
        if kind == "CSV":
            name = data / f"{number}.csv.gz"
            text = "".join(
                ",".join(f'"{value}"' for value in ("src", quote_plus(key), "v", "true", "false", size, TIME, etag))
                + "\n"
                for _, key, _, _, _, size, _, etag in lines
            )
            name.write_bytes(gzip.compress(text.encode()))
        else:
            columns = (
                "bucket string, key string, version_id string, is_latest boolean, is_delete_marker boolean, size long, "
            )
            frame = spark.createDataFrame(lines, columns + "last_modified_date string, e_tag string")
            frame = frame.withColumn("last_modified_date", frame.last_modified_date.cast("timestamp"))
            made = folder / f"made-{number}"
            frame.coalesce(1).write.format(kind.lower()).save(str(made))
            name = data / f"{number}.{kind.lower()}"
            next(made.glob("part-*")).rename(name)
        files.append(
            {
                "key": f"inventory/data/{name.name}",
                "size": name.stat().st_size,
                "MD5checksum": md5(name.read_bytes()).hexdigest(),
            }
        )
    said = {"fileFormat": kind, "fileSchema": SCHEMA, "files": files, "destinationBucket": "arn:aws:s3:::dest"}
    manifest = folder / "inventory" / "2024" / "manifest.json"
    manifest.parent.mkdir()
    manifest.write_text(json.dumps({**said, **changes}))
    return str(manifest)


@pytest.mark.parametrize("kind", ["CSV", "Parquet", "ORC"])
def test_inventories_of_every_format(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = [changed(row, key=row.key + " +%é") for row in rows_of(Random(12), 40)]
    repository = make_repository(tmp_path / "lake")
    source = read_inventory(spark, make_inventory(spark, tmp_path, kind, rows))
    assert source.url_encoded == (kind == "CSV")
    report = import_listing(
        spark,
        repository,
        "main",
        source.rows,
        ListingOptions(url_encoded=source.url_encoded),
        partitions=2,
        checkpoint=source.version,
        label=source.label,
    )
    assert report.built is not None
    assert report.built.bad == 0
    found = {entry.path: (entry.address, entry.size, entry.checksum) for entry in repository.objects("main")}
    assert found == {row.key: (f"s3://src/{row.key}", row.size, row.etag) for row in latest(rows).values()}
    if kind == "Parquet":  # the library reads the same copy
        repository.create_branch("library", "main~")
        here = repository.import_listing("library", Path(source.label), ListingOptions())
        assert here.metarange == report.commit.metarange


def test_what_is_no_inventory(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none/manifest\.json"):
        read_inventory(spark, str(tmp_path / "none" / "manifest.json"))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InvalidError, match=r"x\.json' is not a manifest of S3 Inventory"):
        read_inventory(spark, str(tmp_path / "x.json"))
    rows = rows_of(Random(1), 2)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"fileFormat": "Avro"}, "in the format 'Avro'"),
        ({"files": [{"key": "inventory/data/0.csv.gz", "size": 7}]}, "but should have 7"),
        ({"files": [{"key": "inventory/data/9.csv.gz"}]}, "not found near it"),
        ({"files": [{"key": "inventory/data/0.csv.gz", "MD5checksum": "AB" * 16}]}, f"but should be {'AB' * 16}"),
    ]
    for number, (changes, said) in enumerate(cases):
        manifest = make_inventory(spark, tmp_path / str(number), "CSV", rows, **changes)
        with pytest.raises(InvalidError, match=said):
            read_inventory(spark, manifest)


def test_the_hive_layout_of_an_inventory(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(Random(15), 20)
    make_inventory(spark, tmp_path, "CSV", rows)
    link = tmp_path / "inventory" / "hive" / "dt=2024-02-03-01-00" / "symlink.txt"
    link.parent.mkdir(parents=True)
    link.write_text("".join(f"s3://dest/inventory/data/{number}.csv.gz\n" for number in (0, 1)))
    columns = [name.strip() for name in SCHEMA.split(",")]
    source = read_inventory(spark, str(link), columns)
    assert source.url_encoded
    repository = make_repository(tmp_path / "lake")
    import_listing(spark, repository, "main", source.rows, ListingOptions(url_encoded=True), partitions=2)
    found = {entry.path: entry.checksum for entry in repository.objects("main")}
    assert found == {row.key: row.etag for row in latest(rows).values()}
    with pytest.raises(InvalidError, match="lists CSV files whose columns are unknown"):
        read_inventory(spark, str(link))
    link.write_text("inventory/data/0.csv.gz\n")
    with pytest.raises(InvalidError, match=r"is not a symlink\.txt of S3 Inventory"):
        read_inventory(spark, str(link))


def test_tables_are_told_from_each_other(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,1,00\n")
    (tmp_path / "b.csv").write_text("y,1,00\n")
    one = read_tables(spark, [str(tmp_path / "a.csv")], columns=["key", "size", "etag"])
    assert one.rows.columns == ["key", "size", "etag", MALFORMED]
    assert [tuple(row) for row in one.rows.collect()] == [("x", "1", "00", None)]
    other = read_tables(spark, [str(tmp_path / "b.csv")], columns=["key", "size", "etag"])
    again = read_tables(spark, [str(tmp_path / "a.csv")], columns=["key", "size", "etag"])
    assert one.version == again.version != other.version
    with pytest.raises(InvalidError, match="no listing to import"):
        read_tables(spark, [])


def test_folders_of_this_machine_are_for_the_library(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "lake")
    with pytest.raises(InvalidError, match="import it with the library"):
        list_prefix(spark, repository, "file:///tmp/")
    with pytest.raises(InvalidError, match="cannot list 'x'"):
        list_prefix(spark, repository, "x")
    with pytest.raises(RepositoryNotFoundError, match="'nothing'"):
        list_prefix(spark, "nothing", "s3://bucket/folder/", lake=tmp_path / "lake")


def test_a_number_that_is_too_large_is_one_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "lake")
    etag, large = "0cc175b9c0f1b6a831c399e269772661", Decimal("9" * 30)
    listing = spark.createDataFrame(
        [("a", Decimal(10), Decimal(1_767_225_600)), ("b", large, Decimal(1)), ("c", Decimal(1), -large)],
        "key string, size decimal(38,0), mtime decimal(38,0)",
    ).withColumn("etag", sql.lit(etag))
    report = import_listing(spark, repository, "main", listing, ListingOptions(base="s3://bucket/"), max_bad_rows=2)
    assert report.built is not None
    assert (report.built.objects, report.built.bad) == (1, 2)
    whys = sorted((row.name, row.why) for row in report.built.samples)
    said = "is a number of more than 64 bits"
    assert whys == [("b", f"column 'size' {said}"), ("c", f"column 'mtime' {said}")]
