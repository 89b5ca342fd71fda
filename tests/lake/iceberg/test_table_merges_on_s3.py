"""Merges of tables on S3: the tests of lakes in folders again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import graveler
from tests.lake.iceberg import test_table_merges
from tests.lake.iceberg.test_table_merges import Shop
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.retold import tell_again
from tests.support.shell import Shell


@pytest.fixture
def shop(shell: Shell, tmp_path: Path) -> Iterator[Shop]:
    variables, place = new_lake_on_aws("merges", tmp_path / "cache")
    shell.export_all(variables)
    shell.export_all(
        {
            "GRAVELER_TABLES": place["location"],
            "GRAVELER_OBJECTS": place["objects"],
            "AWS_REGION": place["region"],
            "AWS_ENDPOINT_URL_S3": place["s3_endpoint_url"],
            "AWS_ENDPOINT_URL_DYNAMODB": place["dynamodb_endpoint_url"],
        }
    )
    shop = Shop(graveler.open(**place, user="ada"))
    yield shop
    shop.close()


tell_again(globals(), test_table_merges, {}, "shop")
