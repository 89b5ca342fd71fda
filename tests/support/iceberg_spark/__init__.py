"""Iceberg's runtime for Spark, and what it needs for S3, fetched by Maven once, 110 MB."""

from functools import cache
from pathlib import Path
from typing import Final

from tests.support.s3a import maven_jars

_POM: Final = Path(__file__).parent / "pom.xml"


@cache
def iceberg_spark_jars() -> tuple[Path, ...]:
    """The jars; none where they cannot be fetched, as in :func:`tests.support.s3a.s3a_jars`."""
    return maven_jars("iceberg-spark", _POM)
