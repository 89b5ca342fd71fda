"""Spark sessions on this machine, for laptops and tests; on a cluster the job brings its own."""

import os
import sys

from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def local_session(name: str = "graveler", *, cores: int = 2, attempts: int = 4, **options: str) -> SparkSession:
    """Return a session in this process, listening on the loopback address only, its workers on this interpreter.

    A task is tried ``attempts`` times, as on a cluster. ``options`` are Spark's, with ``__`` for the dots. Cost: 5 to 15 seconds;
    an existing session is reused.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    builder = SparkSession.builder.appName(name).master(f"local[{cores},{attempts}]")
    fixed = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for option, value in {**fixed, **{name.replace("__", "."): value for name, value in options.items()}}.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
