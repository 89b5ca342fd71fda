"""One Spark session for all tests of a process."""

import os
from collections.abc import Iterator
from secrets import token_hex
from typing import Any
from unittest.mock import patch

import pyspark
import pytest
from pyspark.sql import SparkSession

from graveler.lake.opening.location import AwsLake, open_at
from graveler.spark.session import local_session
from graveler.storage.objects.s3 import S3Settings
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.s3a import s3a_jars, s3a_options
from tests.support.servers import REGION, dynamodb_local, s3proxy

SPARK_4 = not pyspark.__version__.startswith("3.")
"""Else it is 3.5, which has no Python data sources, and other jars of s3a than the tests'."""
collect_ignore = (
    []
    if SPARK_4
    else [
        "test_change_feed.py",
        "test_demo.py",
        "test_iceberg_catalog.py",
        "test_job_flow.py",
        "test_killed_jobs.py",
        "test_merge_oracle.py",
        "test_page.py",
        "test_served.py",
        "test_served_datasets.py",
        "test_steps.py",
        "test_connect.py",
        "test_table_formats.py",
        "test_writer.py",
    ]
)
"""What needs data sources, a server, the deployment's tools, or Iceberg's runtime for Spark 4, which are not in the environment
of 3.5."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            if "aws" in getattr(item, "fixturenames", ()) and item.path.name != "test_import_aws.py":
                item.add_marker(pytest.mark.ci)  # one import shows in `make test` that Spark reaches S3 and DynamoDB
            # Spark's own clients of the JVM leave their sockets to the collector of garbage.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            if not SPARK_4:
                item.add_marker(pytest.mark.filterwarnings("ignore:The distutils package:DeprecationWarning"))
                item.add_marker(pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    jars = ",".join(map(str, s3a_jars())) if SPARK_4 else ""
    session = local_session(
        "graveler tests",
        spark__sql__shuffle__partitions="4",
        spark__jars=jars,
        # Nothing runs here for long enough that Java's second compiler is worth its time: half of the processor's. Without that
        # compiler Java reserves a fifth of the space for compiled code, which these tests fill.
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def aws(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsLake]:
    """An empty lake on DynamoDB's own engine and a real S3 server, which Spark reaches by s3a, and its Python workers and this
    process by boto3. Tasks find credentials where the driver does, in the environment: ``spark.executorEnv``."""
    if not SPARK_4:
        pytest.skip("the tests' connector to S3 is that of Spark 4.0")
    if not s3a_jars():
        pytest.skip("no mvn here to fetch Spark's connector to S3, so nothing of Spark is tested there")
    name = f"lake-{token_hex(6)}"
    made = AwsLake(
        objects=f"s3://{name}/lake",
        tables=f"dynamodb://{name}",
        cache=tmp_path_factory.mktemp("cache"),
        region=REGION,
        s3_endpoint_url=s3proxy(),
        dynamodb_endpoint_url=dynamodb_local(),
    )
    context: Any = spark.sparkContext
    for option, value in s3a_options(s3proxy()).items():
        context._jsc.hadoopConfiguration().set(option, value)
    with patch.dict(os.environ, CREDENTIALS), patch.dict(context.environment, CREDENTIALS):
        make_bucket(name, S3Settings(REGION, made.s3_endpoint_url))
        open_at(made, create_table=True).close()
        yield made
