"""Letting a session know Spark's data source ``graveler``."""

from pyspark.sql import SparkSession

from graveler.errors import InvalidError


def register(spark: SparkSession) -> None:
    """Let a session know the data source ``graveler`` (:mod:`graveler.spark.source`). No job. :class:`InvalidError` on Spark 3.5,
    which has no data sources in Python."""
    try:
        from graveler.spark.source import ObjectsSource  # there is nothing to derive it from on Spark 3.5
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise InvalidError(
            f"Spark {spark.version} has no data sources in Python, which came with 4.0; read with graveler.spark.objects"
        ) from None
    spark.dataSource.register(ObjectsSource)
