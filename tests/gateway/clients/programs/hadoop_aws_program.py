"""hadoop-aws in Spark: conditions, folders, many keys, parts and committers below a place, BUCKET or BUCKET/PREFIX."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

FILES = 1_100
PART = 5 << 20
COMMITTERS = ("file", "directory", "magic")


def main(place: str) -> None:
    """Write and read objects."""
    trust_authority()
    with java() as machine:
        files = Files(machine, f"s3a://{place}/hadoop_aws")
        files.create_conditionally()
        files.write_in_parts()
        files.rename_and_delete_many()
    for committer in COMMITTERS:
        commit_a_table(f"s3a://{place}/hadoop_aws/{committer}", committer)


def trust_authority() -> None:
    """Let Java trust the authority that others find in the environment."""
    if authority := os.environ.get("SSL_CERT_FILE"):
        store = f"{tempfile.mkdtemp()}/trusted"
        words = f"keytool -importcert -noprompt -file {authority} -keystore {store} -storepass public"
        subprocess.run(words.split(), check=True, capture_output=True)
        trusted = f" -Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=public"
        os.environ["SPARK_SUBMIT_OPTS"] += trusted


@contextmanager
def java() -> Iterator[Any]:
    """Run Java with Spark's classes and options, without a session."""
    launch: Any = launch_gateway
    gateway = launch()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()


@contextmanager
def session(**options: str) -> Iterator[SparkSession]:
    """Run Spark on two cores, with options of Hadoop, in which ``__`` stands for a dot."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR")
    for name, value in options.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


class Files:
    """Files below a folder, by the class of Hadoop that reads and writes S3."""

    def __init__(self, machine: Any, folder: str) -> None:
        self.folder = folder
        self.java = machine
        settings = machine.org.apache.spark.SparkConf()
        configuration = machine.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(settings)
        assert self.java.org.apache.hadoop.util.VersionInfo.getVersion() == "3.4.2"
        configuration.set("fs.s3a.multipart.size", str(PART))
        configuration.set("fs.s3a.multipart.threshold", str(PART))
        self.files = self.path("").getFileSystem(configuration)

    def path(self, name: str) -> Any:
        """Return the path of a file."""
        return self.java.org.apache.hadoop.fs.Path(f"{self.folder}/{name}")

    def write(self, name: str, content: bytes, **options: str) -> None:
        """Write a file, with options of its creation, in which ``_`` stands for a dot."""
        builder = self.files.createFile(self.path(name)).recursive().overwrite(True)
        for option, value in options.items():
            builder = builder.must(option.replace("_", "."), value)
        stream = builder.build()
        stream.write(bytearray(content))
        stream.close()

    def names(self, name: str) -> list[str]:
        """Return the names of the files in a folder."""
        return [status.getPath().getName() for status in self.files.listStatus(self.path(name))]

    def create_conditionally(self) -> None:
        """Of two that create a file, or replace one version, one does."""
        absent = {"fs_option_create_conditional_overwrite": "true"}
        self.write("created", b"one", **absent)
        self._refused("created", **absent)
        same = {"fs_option_create_conditional_overwrite_etag": self.files.getFileStatus(self.path("created")).getEtag()}
        self.write("created", b"second", **same)
        self._refused("created", **same)
        assert self.files.getFileStatus(self.path("created")).getLen() == len(b"second")

    def write_in_parts(self) -> None:
        """A large file is sent in parts, and read from the middle."""
        content = os.urandom(2 * PART + 5)
        self.write("large", content)
        assert self.files.getFileStatus(self.path("large")).getEtag().endswith('-3"')
        stream = self.files.open(self.path("large"))
        stream.seek(PART)
        assert stream.readNBytes(1000) == content[PART : PART + 1000]
        stream.close()

    def rename_and_delete_many(self) -> None:
        """More files than S3 lists at once, and deletes at once, are renamed with their folder and removed."""
        quick = {"fs_s3a_create_performance": "true"}
        with ThreadPoolExecutor(8) as threads:
            for _ in threads.map(lambda number: self.write(f"many/é +%&< {number:04}", b"", **quick), range(FILES)):
                pass
        expected = [f"é +%&< {number:04}" for number in range(FILES)]
        assert self.names("many") == expected
        assert self.files.rename(self.path("many"), self.path("renamed"))
        assert not self.files.exists(self.path("many"))
        assert self.names("renamed") == expected
        assert self.files.delete(self.path("renamed"), True)
        assert self.names("") == ["created", "large"]

    def _refused(self, name: str, **options: str) -> None:
        refusal = ""
        try:
            self.write(name, b"third", **options)
        except Py4JJavaError as error:
            refusal = str(error.java_exception)
        assert "Status Code: 412" in refusal, refusal


def commit_a_table(folder: str, committer: str) -> None:
    """Write a table by Spark with a committer, append to it, and read it."""
    options = {"spark__hadoop__fs__s3a__committer__name": committer}
    if committer != "file":
        cloud = "org.apache.spark.internal.io.cloud"
        options["spark__sql__sources__commitProtocolClass"] = f"{cloud}.PathOutputCommitProtocol"
        options["spark__sql__parquet__output__committer__class"] = f"{cloud}.BindingParquetOutputCommitter"
        options["spark__hadoop__fs__s3a__committer__staging__conflict-mode"] = "append"
    with session(**options) as spark:
        rows = spark.range(1000).selectExpr("id", "id % 3 AS day")
        rows.write.partitionBy("day").parquet(folder)
        rows.write.partitionBy("day").mode("append").parquet(folder)
        table = spark.read.parquet(folder)
        assert table.groupBy("day").count().orderBy("day").collect() == [(0, 668), (1, 666), (2, 666)]


if __name__ == "__main__":
    main(sys.argv[1])
