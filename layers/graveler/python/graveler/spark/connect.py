"""Sessions of Spark Connect: work for tasks that needs data frames only, and refusals where the driver's JVM is needed.

A client of Spark Connect has no JVM and no RDDs. It has frames, ``mapInArrow``, and data sources.
"""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.utils import is_remote

from graveler.errors import InvalidError

_MODULE: Final = "pyspark.sql.connect"
_MOST_CORES: Final = 1 << 16


class SparkConnectError(InvalidError):
    """An operation that a session of Spark Connect does not support."""

    def __init__(self, feature: str, instead: str) -> None:
        super().__init__(f"{feature} needs the driver's JVM, which Spark Connect does not provide: {instead}")


def is_connect(spark: object) -> bool:
    """Return whether this is a session, or a frame, of Spark Connect. No request."""
    return type(spark).__module__.startswith(_MODULE)


def expect_jvm(spark: object, feature: str, instead: str) -> None:
    """Refuse a session of Spark Connect for ``feature``; without a session (None), a process that has chosen Spark Connect.
    :class:`SparkConnectError`, which names what to use ``instead``. No request."""
    if is_connect(spark) or (spark is None and is_remote()):
        raise SparkConnectError(feature, instead)


def cores(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once, as far as Spark knows. Through Spark Connect a small job."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # As many partitions as cores; with fewer rows some would be empty.
    return spark.range(_MOST_CORES).select(sql.spark_partition_id().alias("number")).distinct().count()
