"""``make demo-spark`` prints what the documents show; the package for clusters has what jobs need."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from graveler.lake.opening.folder import create_folder_lake
from graveler.spark.demo import tell_story
from infra import spark_package
from tests.infra.conftest import SPARK_JOBS
from tests.test_docs import formed

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.ci
def test_the_story_is_the_one_in_the_documents(spark: SparkSession, tmp_path: Path) -> None:
    told: list[str] = []
    with create_folder_lake(tmp_path / "lake") as lake:
        tell_story(spark, lake.create_repository("sales", "local://sales"), tmp_path / "lake", told.append)
    shown = re.search(
        r"^\$ make demo-spark\n(.*?)^\(", (ROOT / "docs" / "spark.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert shown is not None
    assert formed("\n".join(told)) == formed(shown[1])


@pytest.mark.ci
def test_the_package_for_clusters_runs_the_jobs(tmp_path: Path) -> None:
    """On the base interpreter, which has none of the packages itself."""
    machine = "arm64" if os.uname().machine == "aarch64" else "x86_64"
    archive = spark_package.build(machine, tmp_path)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "environment", filter="data")
    jobs = sorted(path.stem for path in (tmp_path / "jobs").iterdir())
    assert jobs[-1] == "import_"
    assert set(jobs) >= {job["job"] for job in SPARK_JOBS.values()}, "what the deployment's schedules name"
    python = tmp_path / "environment" / "bin" / "python"
    environment = {"PATH": os.environ["PATH"], "GRAVELER_PYTHON": f"{sys.base_prefix}/bin/python3"}
    for arguments in (
        [
            "-c",
            "import pyarrow, boto3, pynamodb, rocksdict, graveler.lake.opening.aws, graveler.tree.writer as w; print(w.__file__)",
        ],
        *([str(tmp_path / "jobs" / f"{job}.py"), "--help"] for job in jobs),
    ):
        done = subprocess.run([python, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "--lake FOLDER" in done.stdout or str(tmp_path / "environment") in done.stdout
