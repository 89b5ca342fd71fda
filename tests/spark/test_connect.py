"""Spark Connect: a client with a real server can do everything that needs no JVM; the rest is refused with a reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import graveler
from graveler.spark.connect import SparkConnectError, cores, expect_jvm, is_connect
from graveler.spark.frames import in_each_task

ROOT = Path(__file__).resolve().parents[2]
NEEDS = "needs the driver's JVM, which Spark Connect does not provide: "


@pytest.mark.ci
def test_a_client_of_spark_connect(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.connect_driver", str(tmp_path)]
    # The workers of a Connect server have a folder of their own to work in, so a relative path would find nothing.
    environment = {**os.environ, "PYTHONPATH": str(Path(graveler.__file__).parents[1])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["works"] == {
        "cores": 2,
        "import": [90, 2, 90],
        "the same tree": True,
        "objects": 90,
        "where": 5,
        "diff": 90,
        "commits": 3,
        "ranges": True,
        "data source": 91,
        "export": 1,
        "manifest": 1,
        "read_tables": 90,
        "a wrong condition": "InvalidError",
    }
    cluster = "run the job in the cluster, with a session of its own"
    assert said["refused"] == {
        "read": f"graveler.spark.read {NEEDS}{cluster}",
        "transaction": f"a transaction {NEEDS}{cluster}",
        "transaction of the session": f"a transaction {NEEDS}{cluster}",
        "batch": f"each_batch {NEEDS}run the stream in the cluster, with a session of its own",
        "garbage": f"garbage collection {NEEDS}run the job gc in the cluster, or `graveler gc run`",
        "job": "2",
    }
    assert said["untouched"]


def test_a_session_of_spark_itself_is_not_refused(spark: SparkSession) -> None:
    assert not is_connect(spark)
    expect_jvm(spark, "this", "nothing")
    expect_jvm(None, "this", "nothing")
    assert cores(spark) == 2


def test_tasks_answer_in_order(spark: SparkSession) -> None:
    assert in_each_task(spark, ["a", "bc", "def"], len) == [1, 2, 3]
    assert in_each_task(spark, [], len) == []


def test_a_refusal_is_one_sentence() -> None:
    assert str(SparkConnectError("this", "use that")) == f"this {NEEDS}use that"
