"""Tags with slashes and percent signs, named in Spark as everywhere (tests/test_names_of_refs.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import InvalidError, RefNotFoundError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.spark.handles import parse_uri
from graveler.values.addresses import Address, quote_ref
from tests.spark.conftest import SPARK_4
from tests.support.gateways import TAGS

PATH = "tables/names"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names") / "lake"


@pytest.fixture(scope="module")
def repository(folder: Path) -> Iterator[OpenRepository]:
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("sales", "local://sales")
        for tag in TAGS:
            repository.upload("main", f"{PATH}/x.csv", f"{tag}\n".encode())
            repository.commit("main", tag)
            repository.create_tag(tag, "main")
        yield repository


@pytest.mark.parametrize("tag", TAGS)
def test_an_address_is_parsed_as_it_is_printed(tag: str) -> None:
    address = Address("sales", f"{tag}~1", PATH)
    assert parse_uri(str(address)) == address
    assert parse_uri(str(address).replace("lakefs://", "graveler://", 1)) == address


@pytest.mark.parametrize(
    "uri", ["sales/main/x", "s3://sales/main/x", "graveler://", "lakefs://", "lakefs://sales", "lakefs:///main/x"]
)
def test_what_names_no_ref_is_refused(uri: str) -> None:
    with pytest.raises(InvalidError, match="does not name objects"):
        parse_uri(uri)


def test_a_dataset_is_read_at_each_tag(spark: SparkSession, repository: OpenRepository) -> None:
    for tag in TAGS[:4]:
        uri = f"lakefs://sales/{quote_ref(tag)}/{PATH}"
        frame = graveler.spark.read(spark, uri, format="csv", schema="name STRING", lake=repository)
        assert [row.name for row in frame.collect()] == [tag]
    as_of = {"format": "csv", "schema": "name STRING", "versionAsOf": "nightly/2026-01-31"}  # a ref by itself
    frame = graveler.spark.read(spark, f"lakefs://sales/main/{PATH}", lake=repository, **as_of)
    assert [row.name for row in frame.collect()] == ["nightly/2026-01-31"]


def test_an_address_that_begins_with_a_tag_says_how_that_is_written(
    spark: SparkSession, repository: OpenRepository
) -> None:
    with pytest.raises(RefNotFoundError, match=f"the tag 'x/y/z' is written lakefs://sales/x%2Fy%2Fz/{PATH}$"):
        graveler.spark.read(spark, f"lakefs://sales/x/y/z/{PATH}", lake=repository)


@pytest.mark.skipif(not SPARK_4, reason="Spark 3.5 has no Python data sources")
@pytest.mark.usefixtures("repository")
def test_options_take_a_name_as_it_is(spark: SparkSession, folder: Path) -> None:
    graveler.spark.register(spark)
    for tag in ("nightly/2026-01-31", "a%2Fb"):
        options = {"lake": str(folder), "repository": "sales", "ref": tag}
        (row,) = spark.read.format("graveler").options(**options).load().collect()
        assert (row.path, row.size) == (f"{PATH}/x.csv", len(tag) + 1)
