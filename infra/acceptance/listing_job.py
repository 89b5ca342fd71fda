"""A Spark job that makes a listing: ``spark-submit listing_job.py --rows 1000000 --into s3://bucket/folder``.

It stands alone: it is uploaded as it is. A million rows take some seconds, and 60 MB of Parquet for each million.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

_ROWS_PER_TASK = 2_000_000


def main() -> None:
    """Write Parquet with key, size, checksum and mtime: a thousand folders, with names that sort otherwise than the rows come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--into", required=True, help="URL of a folder, which is replaced")
    said = parser.parse_args()
    spark = SparkSession.builder.appName("graveler acceptance: a listing").getOrCreate()
    number = sql.col("id")
    rows = spark.range(0, said.rows, 1, said.rows // _ROWS_PER_TASK + 2).select(
        sql.format_string("part=%04d/%012d.parquet", number % 1000, number).alias("key"),
        (number % 100_000).alias("size"),
        sql.md5(number.cast("string")).alias("checksum"),
        (sql.lit(1_700_000_000) + number % 1_000_000).alias("mtime"),
    )
    rows.write.mode("overwrite").parquet(said.into)
    spark.stop()


if __name__ == "__main__":
    main()
