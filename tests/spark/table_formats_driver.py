"""A driver of its own for tables of Delta and Iceberg: their packages have to be there when a session starts.

Prints one JSON object with what it found, for ``test_table_formats``. Tables are written by their own packages through s3a to an
S3 server, imported to branches where they lie, exported by ref, and read again by their own packages.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import GravelerError
from graveler.lake.opening.location import AwsLake, open_at
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import AddressType, ImportAddress
from graveler.spark.session import local_session
from graveler.storage.objects.s3 import S3Settings
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.s3a import s3a_jars, s3a_options
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.table_formats import table_format_jars

Found = dict[str, Any]


def session(bucket: str) -> SparkSession:
    options = {
        "spark.jars": ",".join(map(str, (*s3a_jars(), *table_format_jars()))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"s3a://{bucket}/ice",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **{f"spark.hadoop.{name}": value for name, value in s3a_options(s3proxy()).items()},
    }
    dotless: Found = {name.replace(".", "__"): value for name, value in options.items()}
    made = local_session("table formats", **dotless)
    made.sparkContext.setLogLevel("ERROR")
    return made


def failure(work: Callable[[], object]) -> str:
    """What a refusal says; empty if there was none."""
    try:
        work()
    except GravelerError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


class Tables:
    """A repository, and a bucket beside it in which tables are written."""

    def __init__(self, spark: SparkSession, repository: OpenRepository, bucket: str) -> None:
        self.spark, self.repository, self.bucket = spark, repository, bucket

    def take(self, branch: str, place: str, table: str) -> list[str]:
        """Import what lies at ``place`` of the bucket to ``tables/<table>/`` of a branch, and remove what no export takes:
        the markers of empty folders, which s3a makes, and the file in which an export keeps its state; their names."""
        source = ImportAddress(AddressType.COMMON_PREFIX, f"s3://{self.bucket}/{place}/", f"tables/{table}/")
        self.repository.import_addresses(branch, [source], message=f"{place} as it is now")
        needless = ("/", "/.graveler-export.json")
        paths = [entry.path for entry in self.repository.objects(branch, f"tables/{table}/")]
        markers = [path for path in paths if path.endswith(needless)]
        if markers:
            self.repository.delete(branch, markers)
            self.repository.commit(branch, "Without what is no part of the table")
        return markers

    def publish(self, ref: str, table: str, place: str) -> str:
        """Export the table of a ref; where Spark finds it."""
        destination = f"s3://{self.bucket}/{place}"
        graveler.spark.export(self.spark, self.repository, ref, destination, prefix=f"tables/{table}/")
        return f"s3a://{self.bucket}/{place}"

    def read(self, ref: str, table: str) -> object:
        name = self.repository.repository.name
        return graveler.spark.read(self.spark, f"lakefs://{name}/{ref}/tables/{table}", lake=self.repository).collect()

    def delta(self) -> Found:
        work = f"s3a://{self.bucket}/work"

        def load(place: str, **options: Any) -> list[int]:
            return ids(self.spark.read.format("delta").options(**options).load(place))

        found: Found = {}
        self.spark.range(5).coalesce(1).write.format("delta").save(work)
        found["markers"] = self.take("main", "work", "events")
        first = self.repository.branch("main").commit_id
        self.repository.create_branch("fix", "main")
        self.spark.sql(f"DELETE FROM delta.`{work}` WHERE id < 2")
        self.take("fix", "work", "events")
        found["changes"] = sorted({row.type for row in self.repository.diff("main", "fix").results})
        self.repository.merge("fix", "main")
        old, new = self.publish(first, "events", "old"), self.publish("main", "events", "new")
        found["old"], found["new"], found["first version"] = load(old), load(new), load(new, versionAsOf=0)
        joined = self.spark.read.format("delta").load(old).join(self.spark.read.format("delta").load(new), "id", "anti")
        found["gone"] = ids(joined)

        for branch in ("left", "right"):
            self.repository.create_branch(branch, "main")
            place = self.publish(branch, "events", branch)
            self.spark.range(100, 101).coalesce(1).write.format("delta").mode("append").save(place)
            self.take(branch, branch, "events")
        self.repository.merge("left", "main")
        found["after the first"] = load(self.publish("main", "events", "new"))
        head = self.repository.branch("main")
        found["second merge"] = failure(lambda: self.repository.merge("right", "main"))
        assert self.repository.branch("main") == head
        found["read as files"] = failure(lambda: self.read("main", "events"))
        found["read above"] = failure(lambda: self.read("main", ""))
        return found

    def iceberg(self) -> Found:
        found: Found = {}
        self.spark.sql("CREATE TABLE ice.db.events (id bigint) USING iceberg")
        self.spark.range(5).coalesce(1).writeTo("ice.db.events").append()
        self.take("main", "ice/db/events", "iced")
        copy = self.publish("main", "iced", "iced-old")
        read = self.spark.read.format("iceberg").load(copy)
        found["copy"] = ids(read)
        found["its files"] = sorted({row.file.split("/")[3] for row in read.selectExpr("_file AS file").collect()})
        found["read as files"] = failure(lambda: self.read("main", "iced"))
        self.spark.range(5, 6).coalesce(1).writeTo("ice.db.events").append()
        found["changed in place"] = failure(lambda: self.publish("main", "iced", "iced-again"))
        return found


def main() -> None:
    bucket = f"tables-{token_hex(6)}"
    os.environ |= CREDENTIALS
    place = AwsLake(
        objects=f"s3://{bucket}/lake",
        tables=f"dynamodb://{bucket}",
        cache=Path(sys.argv[1]),
        region=REGION,
        s3_endpoint_url=s3proxy(),
        dynamodb_endpoint_url=dynamodb_local(),
    )
    make_bucket(bucket, S3Settings(REGION, place.s3_endpoint_url))
    spark = session(bucket)
    with open_at(place, create_table=True) as lake:
        tables = Tables(spark, lake.create_repository("tables", f"{place.objects}/tables"), bucket)
        sys.stdout.write("\n" + json.dumps({"delta": tables.delta(), "iceberg": tables.iceberg()}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
