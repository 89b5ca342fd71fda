"""Spark with branches, a tag and a commit of a served lake as its catalogs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.lakes_on_s3 import serving_on_s3
from tests.clients.support import Served, Wire, serving
from tests.support.iceberg_spark import iceberg_spark_jars

ROOT = Path(__file__).resolve().parents[2]
SHORT_SESSION = 240
"""Seconds of a session. Iceberg's Java library renews those that end within five minutes, so it renews each, also those of a
table that is not there yet (``CREATE TABLE … AS SELECT``)."""


@contextmanager
def serving_a_repository(store: str, folder: Path) -> Iterator[Served]:
    """A server of a lake in a folder, or on S3, with the repository ``sales``."""
    if store == "folder":
        with serving(folder / "lake") as served:
            create_sales(served, "local://sales")
            yield served
        return
    with serving_on_s3(folder, SHORT_SESSION) as on_s3:
        create_sales(on_s3.served, f"s3://{on_s3.bucket}/lake/sales")
        yield on_s3.served


def create_sales(served: Served, storage: str) -> None:
    wire = Wire(served)
    wire("POST", "/repositories", body={"name": "sales", "storage_namespace": storage}).expect(201)
    wire.close()


@pytest.mark.ci
@pytest.mark.parametrize("store", ["folder", "s3"])
def test_spark_writes_on_branches_and_reads_each_ref(store: str, tmp_path: Path) -> None:
    if not iceberg_spark_jars():
        pytest.skip("no Maven here, which fetches Iceberg's runtime for Spark")
    with serving_a_repository(store, tmp_path) as served:
        command = [sys.executable, "-m", "tests.spark.iceberg_catalog_driver", f"{served.url}/iceberg"]
        done = subprocess.run(
            [*command, served.key_id, served.secret, "sales", store],
            cwd=ROOT,
            env={name: text for name, text in os.environ.items() if not name.startswith("AWS_")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
