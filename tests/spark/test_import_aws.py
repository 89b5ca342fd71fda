"""Imports to a lake on DynamoDB's own engine and a real S3 server, whose tasks write through boto3."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from secrets import token_hex
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from graveler.errors import ForbiddenError, NotFoundError
from graveler.lake.importing.object_listing import ListingOptions
from graveler.lake.importing.prefix_listing import AddressType, ImportAddress
from graveler.lake.place import AwsLake, open_at
from graveler.spark.importing import import_listing
from graveler.spark.listing_sources import list_prefix
from graveler.storage.s3_objects import S3Objects, S3Settings
from tests.spark.listings import BASE, TINY, frame_of, rows_of, tree_of
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsLake]:
    """An empty lake. Tasks find credentials where the driver does, in the environment: ``spark.executorEnv``."""
    name = f"lake-{token_hex(6)}"
    made = AwsLake(
        objects=f"s3://{name}/lake",
        tables=f"dynamodb://{name}",
        cache=tmp_path_factory.mktemp("cache"),
        region=REGION,
        s3_endpoint_url=s3proxy(),
        dynamodb_endpoint_url=dynamodb_local(),
    )
    with patch.dict(os.environ, CREDENTIALS), patch.dict(spark.sparkContext.environment, CREDENTIALS):
        make_bucket(name, S3Settings(REGION, made.s3_endpoint_url))
        open_at(made, create_table=True).close()
        yield made


def test_an_import_and_its_listing_on_aws(spark: SparkSession, place: AwsLake, tmp_path: Path) -> None:
    lake = open_at(place)
    repository = lake.create_repository("spark", f"{place.objects}/spark", split=TINY)
    rows = rows_of(Random(13), 150, duplicates=0.1)
    report = import_listing(
        spark, repository, "main", frame_of(spark, rows), ListingOptions(base=BASE), partitions=4, checkpoint="x"
    )
    assert report.commit.metarange == tree_of(repository, rows).name()
    assert list(repository.namespace.list("_graveler/imports/")) == []

    bucket = f"data-{token_hex(6)}"
    settings = S3Settings(REGION, place.s3_endpoint_url, list_page=7)
    make_bucket(bucket, settings)
    objects = S3Objects(bucket, "", settings)
    for number in range(60):
        objects.put(f"t/{'abc'[number % 3]}/{number % 7}/{number}", bytes(number))
    listing = list_prefix(spark, repository, f"s3://{bucket}/t/", tasks=5)
    there = import_listing(spark, repository, "main", listing, ListingOptions(destination="d/"), partitions=3)
    repository.create_branch("library", report.commit.id)
    here = repository.import_addresses("library", [ImportAddress(AddressType.COMMON_PREFIX, f"s3://{bucket}/t/", "d/")])
    assert there.commit.metarange == here.metarange
    assert there.built is not None
    assert there.built.objects == 60
    with pytest.raises(NotFoundError, match="no object's address begins with"):
        list_prefix(spark, repository, f"s3://{bucket}/none/")
    with pytest.raises(ForbiddenError):
        list_prefix(spark, repository, f"{place.objects}/other/")
