"""Spark with branches, a tag and a commit of a served lake as its catalogs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.support import Wire, serving
from tests.support.iceberg_spark import iceberg_spark_jars

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.ci
def test_spark_writes_on_branches_and_reads_each_ref(tmp_path: Path) -> None:
    if not iceberg_spark_jars():
        pytest.skip("no Maven here, which fetches Iceberg's runtime for Spark")
    with serving(tmp_path / "lake") as served:
        wire = Wire(served)
        wire("POST", "/repositories", body={"name": "sales", "storage_namespace": "local://sales"}).expect(201)
        wire.close()
        command = [sys.executable, "-m", "tests.spark.iceberg_catalog_driver", f"{served.url}/iceberg"]
        done = subprocess.run(
            [*command, served.key_id, served.secret, "sales"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
