"""A program that writes tables by Spark's Iceberg runtime: ``python -m tests.spark.iceberg_tables_driver FOLDER``."""

import sys
from typing import Any

from pyspark.sql import SparkSession

from graveler.spark.session import local_session
from tests.support.table_formats import table_format_jars

COLUMNS = "(id BIGINT, name STRING, moment TIMESTAMP, price DECIMAL(9, 2), ratio DOUBLE)"
PARTITIONS = "PARTITIONED BY (days(moment), bucket(2, id), truncate(1, name), price)"


def session(folder: str) -> SparkSession:
    """A session with the catalog ``ice`` in a folder."""
    options: dict[str, Any] = {
        "spark.jars": ",".join(map(str, table_format_jars())),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"file:{folder}",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return local_session("tables of Spark", **{name.replace(".", "__"): value for name, value in options.items()})


def write_table(spark: SparkSession, name: str, version: int, partitions: str = "") -> None:
    """Write a table by inserts, deletes, an update, a merge and a compaction."""
    modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE ice.ns.{name} {COLUMNS} USING iceberg {partitions} TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    row = "id, concat('näme ', id), timestamp_micros(id * 40000000000), id / 2, double('NaN')"
    spark.sql(f"INSERT INTO ice.ns.{name} SELECT {row} FROM range(0, 12, 1, 1)")
    spark.sql(f"INSERT INTO ice.ns.{name} SELECT {row} FROM range(20, 24, 1, 1)")
    if version > 1:
        spark.sql(f"DELETE FROM ice.ns.{name} WHERE id IN (1, 5)")
        spark.sql(f"DELETE FROM ice.ns.{name} WHERE id = 3")
        spark.sql(f"UPDATE ice.ns.{name} SET name = 'x' WHERE id = 7")
    spark.sql(f"ALTER TABLE ice.ns.{name} ADD COLUMN more INT")
    spark.sql(f"INSERT INTO ice.ns.{name} SELECT {row}, 1 FROM range(30, 32, 1, 1)")
    spark.sql(f"CALL ice.system.rewrite_manifests('ns.{name}')")
    spark.sql(
        f"CALL ice.system.rewrite_data_files(table => 'ns.{name}', where => 'id > 6', options => map('rewrite-all', 'true'))"
    )


def main(folder: str) -> None:
    """Write all tables."""
    spark = session(folder)
    spark.sparkContext.setLogLevel("ERROR")
    for version in (1, 2, 3):
        write_table(spark, f"v{version}", version, PARTITIONS if version > 1 else "")
    write_table(spark, "plain3", 3)
    spark.sql("ALTER TABLE ice.ns.v2 SET TBLPROPERTIES ('format-version' = '3')")
    spark.sql("INSERT INTO ice.ns.v2 SELECT 40, 'y', timestamp_micros(0), 1, 2, 3")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
