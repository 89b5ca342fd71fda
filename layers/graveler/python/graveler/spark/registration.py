"""Registration of Spark's data source ``graveler`` in a session."""

from typing import Final

from pyspark.sql import SparkSession

from graveler.errors import InvalidError

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register the data source ``graveler`` (:mod:`graveler.spark.source`) in a session. No job. From Spark 4.1 on, this makes
    the session push filters down to Python data sources, unless that was switched off. :class:`InvalidError` on Spark 3.5, which
    has no such sources."""
    try:
        from pyspark.sql.datasource import DataSourceReader

        from graveler.spark.source import FilteredSource, Source  # there is nothing to derive it from on Spark 3.5
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise InvalidError(
            f"Spark {spark.version} has no Python data sources, which came with 4.0; read with graveler.spark.objects"
        ) from None
    if hasattr(DataSourceReader, "pushFilters") and spark.conf.get(_PUSHDOWN, None) != "false":
        spark.conf.set(_PUSHDOWN, "true")
        spark.dataSource.register(FilteredSource)
    else:
        spark.dataSource.register(Source)
