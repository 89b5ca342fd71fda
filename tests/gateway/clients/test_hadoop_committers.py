"""The magic committer of hadoop-aws, with the driver and the executor of Spark behind different gateways of one branch."""

import os
from pathlib import Path

import pytest

from graveler.gateway.control import Mount
from graveler.gateway.run.environment import program_environment
from graveler.lake.opening.location import LakeLocation, open_at
from tests.gateway.clients.support import PROGRAMS, client_variables, finished
from tests.gateway.clients.tools import SPARK, commands_of, missing
from tests.gateway.support import KEYS, running_gateway
from tests.support.patience import PATIENCE

SECONDS = 3 * PATIENCE
NEEDS = ("java", "mvn")
pytestmark = [pytest.mark.ci, pytest.mark.skipif(bool(missing(*NEEDS)), reason=f"{missing(*NEEDS)}, which Spark needs")]


def test_one_gateway_completes_what_another_uploaded(location: LakeLocation, tmp_path: Path) -> None:
    mount = Mount(bucket="sales", repository="sales", ref="main")
    variables, spark = client_variables(SPARK, tmp_path), tmp_path / "spark"
    spark.mkdir()  # executors write to the folder of Spark
    (installed,) = commands_of(SPARK).parent.glob("lib/python*/site-packages/pyspark")
    for item in installed.iterdir():
        (spark / item.name).symlink_to(item)
    command = [str(commands_of(SPARK) / "python"), str(PROGRAMS / "hadoop_committer_program.py"), "sales"]
    with (
        running_gateway(location, mount, environment=dict(os.environ)) as driver,
        running_gateway(location, mount, environment=dict(os.environ)) as executor,
    ):
        environment = program_environment(variables, driver.port, KEYS, location, "sales/main")
        finished([*command, executor.url], {**environment, "GATEWAY": driver.url, "SPARK_HOME": str(spark)}, SECONDS)
        completed, uploaded = driver.close_for_writes().written, executor.close_for_writes().written
    with open_at(location) as lake:
        paths = [
            entry.path for entry in lake.repository("sales").list_objects("main", prefix="hadoop_committer/").results
        ]
    tables = [path for path in paths if path.endswith(".parquet")]
    assert len(tables) == 6
    assert completed.objects >= len(tables), (completed, uploaded)
    assert not [path for path in paths if "__magic" in path]
