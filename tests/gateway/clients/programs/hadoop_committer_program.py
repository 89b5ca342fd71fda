"""hadoop-aws's magic committer in Spark, with an executor that is a process of its own, below a place, BUCKET or BUCKET/PREFIX.

Each process asks the gateway that its variable ``GATEWAY`` names; the second argument is the executor's.
"""

import os
import sys

from pyspark.sql import SparkSession

CLOUD = "org.apache.spark.internal.io.cloud"


def main(place: str, gateway: str) -> None:
    """Write a table, of which the executor uploads the parts and the driver completes the uploads."""
    options: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executorEnv.GATEWAY": gateway,
        "spark.hadoop.fs.s3a.endpoint": "${env.GATEWAY}",
        "spark.hadoop.fs.s3a.committer.name": "magic",
        "spark.sql.sources.commitProtocolClass": f"{CLOUD}.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": f"{CLOUD}.BindingParquetOutputCommitter",
    }
    # An executor gets the environment of this process, but for what Spark is told.
    spark = SparkSession.builder.master("local-cluster[1,2,512]").config(map=options).getOrCreate()
    assert gateway != os.environ["GATEWAY"]
    folder = f"s3a://{place}/hadoop_committer"
    spark.range(1000).selectExpr("id", "id % 3 AS day").write.partitionBy("day").parquet(folder)
    assert spark.read.parquet(folder).groupBy("day").count().orderBy("day").collect() == [(0, 334), (1, 333), (2, 333)]
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
