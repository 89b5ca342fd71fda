"""A program that uses branches as catalogs of Spark: ``… -m tests.spark.iceberg_catalog_driver URI KEY_ID SECRET REPOSITORY
folder|s3``, by where the lake is.

The repository has the branch main, and its other refs are made by the program.
"""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
import urllib3
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from graveler.spark.session import local_session
from tests.support.iceberg_spark import iceberg_spark_jars

REFS = {"lake": "main", "dev": "dev", "tagged": "v1", "old": "main~3"}
MODES = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
NOW = "TIMESTAMP '2100-01-01 00:00:00'"
IDS = [0, 2, 4, 6, 7, 8, 9, 50, 100]


def session(uri: str, credential: str, repository: str, refs: Mapping[str, str], **more: str) -> SparkSession:
    """A session with a catalog for each ref by name, which is opened when it is first named."""
    options: dict[str, Any] = {
        "spark.jars": ",".join(map(str, iceberg_spark_jars())),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for name, ref in refs.items():
        catalog = f"spark.sql.catalog.{name}"
        options |= {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": uri,
            f"{catalog}.warehouse": f"{repository}@{ref}",
            f"{catalog}.credential": credential,
            f"{catalog}.oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            f"{catalog}.cache-enabled": "false",  # so that a merge shows at once
        }
    options = {name.replace(".", "__"): value for name, value in options.items()} | more
    return local_session("branches of Spark", **options)


def main(uri: str, key_id: str, secret: str, repository: str, store: str) -> None:
    """Write tables of both versions on main, and merge what a branch appended."""
    spark = session(uri, f"{key_id}:{secret}", repository, REFS)
    spark.sparkContext.setLogLevel("ERROR")
    headers = urllib3.make_headers(basic_auth=f"{key_id}:{secret}")
    api = f"{uri.removesuffix('/iceberg')}/api/v1/repositories/{repository}"

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    def ids(table: str) -> list[int]:
        return [row[0] for row in rows(f"SELECT id FROM {table} ORDER BY id")]

    def call(path: str, body: dict[str, str]) -> None:
        response = urllib3.request("POST", f"{api}/{path}", json=body, headers=headers)
        assert response.status in (200, 201), response.data

    spark.sql("CREATE NAMESPACE lake.shop")
    for version in (2, 3):
        table = f"lake.shop.v{version}"
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, day STRING) USING iceberg PARTITIONED BY (day) "
            f"TBLPROPERTIES ('format-version' = '{version}', {MODES})"
        )
        spark.sql(f"INSERT INTO {table} SELECT id, concat('d', id % 2) FROM range(0, 10, 1, 1)")
        spark.sql(f"DELETE FROM {table} WHERE id = 1")
        spark.sql(f"UPDATE {table} SET id = 100 WHERE id = 3")
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT 5L AS id, 'd1' AS day UNION ALL SELECT 50L, 'd0') s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        )
        spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'shop.v{version}', options => map('rewrite-all', 'true'))"
        )
        spark.sql(f"CALL lake.system.rewrite_manifests('shop.v{version}')")
        assert ids(table) == IDS, version
    if store == "folder":
        for procedure in ("expire_snapshots", "remove_orphan_files"):
            with pytest.raises(Py4JJavaError, match="GC is disabled"):
                spark.sql(f"CALL lake.system.{procedure}(table => 'shop.v3')")
    else:
        for version in (2, 3):
            table = f"lake.shop.v{version}"
            files = rows(f"SELECT DISTINCT file_path FROM {table}.all_files")
            spark.sql(
                f"CALL lake.system.expire_snapshots(table => 'shop.v{version}', older_than => {NOW}, retain_last => 1)"
            )
            assert len(rows(f"SELECT * FROM {table}.snapshots")) == 1
            assert len(rows(f"SELECT DISTINCT file_path FROM {table}.all_files")) < len(files)
            assert ids(table) == IDS, "nobody's files are gone"
    spark.sql("CREATE VIEW lake.shop.recent AS SELECT id FROM lake.shop.v2 WHERE id > 9")
    assert rows("SELECT * FROM lake.shop.recent ORDER BY id") == [(50,), (100,)]
    spark.sql("CREATE OR REPLACE VIEW lake.shop.recent AS SELECT id FROM lake.shop.v2 WHERE id > 50")
    assert rows("SELECT * FROM lake.shop.recent") == [(100,)]
    for number in (1, 2):
        spark.sql(f"CREATE OR REPLACE TABLE lake.shop.again USING iceberg AS SELECT {number} AS id")
    assert ids("lake.shop.again") == [2]
    spark.sql("DROP TABLE lake.shop.again")
    spark.sql("DROP VIEW lake.shop.recent")

    call("branches", {"name": "dev", "source": "main"})
    call("tags", {"id": "v1", "ref": "main"})
    spark.sql("INSERT INTO lake.shop.v3 VALUES (901, 'd0', 'main')")
    for version in (2, 3):
        spark.sql(f"INSERT INTO dev.shop.v{version} VALUES (900, 'd0', 'dev')")
    call("refs/dev/merge/main", {})
    assert ids("lake.shop.v3") == [*IDS, 900, 901]
    assert ids("lake.shop.v2") == ids("dev.shop.v2") == [*IDS, 900]
    assert ids("tagged.shop.v3") == IDS
    spark.sql("DELETE FROM lake.shop.v3 WHERE id >= 900")
    for _ in range(2):
        spark.sql("INSERT INTO lake.shop.v3 VALUES (902, 'd1', 'main')")
    assert ids("old.shop.v3") == [*IDS, 900, 901]
    with pytest.raises((Py4JJavaError, PySparkException), match="Server does not support endpoint"):
        spark.sql("INSERT INTO tagged.shop.v3 VALUES (1, 'd0', 'x')")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
