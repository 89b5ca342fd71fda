"""Imports to a lake on DynamoDB's own engine and a real S3 server, whose tasks write through boto3."""

from pathlib import Path
from random import Random
from secrets import token_hex

import pytest
from pyspark.sql import SparkSession

from graveler.errors import EmptySourceError, ForbiddenError, InvalidError
from graveler.lake.opening.location import AwsLake, open_at
from graveler.requests.importing import AddressType, ImportAddress, ListingOptions
from graveler.spark.importing import import_listing
from graveler.spark.listing_sources import list_prefix, read_inventory
from graveler.storage.objects.s3 import S3Objects, S3Settings
from tests.spark.listings import BASE, TINY, frame_of, rows_of, tree_of
from tests.spark.test_import_sources import make_inventory
from tests.storage.adapters import make_bucket
from tests.support.servers import REGION


@pytest.mark.ci
def test_an_import_and_its_listing_on_aws(spark: SparkSession, aws: AwsLake, tmp_path: Path) -> None:
    lake = open_at(aws)
    repository = lake.create_repository("spark", f"{aws.objects}/spark", split=TINY)
    rows = rows_of(Random(13), 150, duplicates=0.1)
    report = import_listing(
        spark, repository, "main", frame_of(spark, rows), ListingOptions(base=BASE), partitions=4, checkpoint="x"
    )
    assert report.commit.metarange == tree_of(repository, rows).name()
    assert list(repository.namespace.list("_graveler/imports/")) == []

    bucket = f"data-{token_hex(6)}"
    settings = S3Settings(REGION, aws.s3_endpoint_url, list_page=7)
    make_bucket(bucket, settings)
    objects = S3Objects(bucket, "", settings)
    for number in range(60):
        objects.put(f"t/{'abc'[number % 3]}/{number % 7}/{number}", bytes(number))
    make_inventory(spark, tmp_path, "CSV", rows_of(Random(16), 12), destinationBucket=f"arn:aws:s3:::{bucket}")
    listing = list_prefix(spark, "spark", f"s3://{bucket}/t/", tasks=5, lake=aws)
    there = import_listing(spark, repository, "main", listing, ListingOptions(destination="d/"), partitions=3)
    repository.create_branch("library", report.commit.id)
    here = repository.import_addresses("library", [ImportAddress(AddressType.COMMON_PREFIX, f"s3://{bucket}/t/", "d/")])
    assert there.commit.metarange == here.metarange
    assert there.built is not None
    assert there.built.objects == 60
    for path in (tmp_path / "inventory").rglob("*"):
        if path.is_file():
            objects.put(path.relative_to(tmp_path).as_posix(), path)
    source = read_inventory(spark, f"s3a://{bucket}/inventory/2024/manifest.json")
    repository.create_branch("inventory", report.commit.id)
    options = ListingOptions(url_encoded=source.url_encoded, destination="i/")
    by_inventory = import_listing(spark, repository, "inventory", source.rows, options, partitions=2)
    assert by_inventory.built is not None
    assert by_inventory.built.objects == 12
    objects.put("inventory/data/1.csv.gz", b"torn")
    with pytest.raises(InvalidError, match="it has 4 bytes, but should have"):
        read_inventory(spark, f"s3a://{bucket}/inventory/2024/manifest.json")
    mistyped = list_prefix(spark, repository, f"s3://{bucket}/none/")
    with pytest.raises(EmptySourceError):
        import_listing(spark, repository, "main", mistyped, ListingOptions(destination="d/"), partitions=2)
    with pytest.raises(ForbiddenError):
        list_prefix(spark, repository, f"{aws.objects}/other/")
