"""A program that runs statements of Spark on branches of a served lake: ``… -m tests.spark.sql_driver JAVA_OPTIONS URI KEY_ID
SECRET REPOSITORY BRANCH…``. Each branch is the catalog of its name.

A line of its input is a statement as JSON. Each is answered by a line: ``{"rows": […]}`` or ``{"error": "…"}``.
"""

import json
import os
import sys

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.iceberg_catalog_driver import session
from tests.support.iceberg_spark import iceberg_spark_jars

OPTIONS = {
    # On the path of classes from the beginning, jars need no copies and start faster. Those for S3 are not needed.
    "spark.jars": "",
    "spark.driver.extraClassPath": ":".join(str(jar) for jar in iceberg_spark_jars() if "runtime" in jar.name),
    "spark.sql.adaptive.enabled": "false",
    "spark.default.parallelism": "1",
    # Statements are many and rows few, so compiling a plan costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def answer(spark: SparkSession, statement: str) -> dict[str, object]:
    """The answer to a statement."""
    try:
        return {"rows": [list(row) for row in spark.sql(statement).collect()]}
    except Py4JJavaError as error:
        return {"error": str(error.java_exception)}
    except PySparkException as error:
        return {"error": str(error)}


def main(java_options: str, uri: str, key_id: str, secret: str, repository: str, *branches: str) -> None:
    """Answer statements until the input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # Java and its libraries may print
        options = {name.replace(".", "__"): value for name, value in OPTIONS.items()}
        options["spark__driver__extraJavaOptions"] = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {java_options}"
        refs = {branch: branch for branch in branches}
        spark = session(uri, f"{key_id}:{secret}", repository, refs, **options)
        spark.sparkContext.setLogLevel("ERROR")
        for line in sys.stdin:
            print(json.dumps(answer(spark, json.loads(line)), default=str), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
