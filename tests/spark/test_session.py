"""Sessions on this machine."""

import pyspark
from pyspark.sql import SparkSession


def test_listens_on_the_loopback_address_only_and_runs_what_emr_runs(spark: SparkSession) -> None:
    assert spark.version == pyspark.__version__
    assert spark.version in ("4.0.2", "4.1.1", "3.5.6")  # of emr-spark-8.0.0 and 8.1.0; `make test-spark35`
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.range(10).repartition(3).rdd.map(lambda row: row.id).sum() == 45
