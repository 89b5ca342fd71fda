"""Clients of Iceberg tables in an environment of their own: each reads a branch, a tag and a commit, and writes what it can."""

import os
import subprocess
from pathlib import Path
from typing import Final

import lakefs
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from tests.clients.support import Served
from tests.gateway.clients.tools import TABLES, commands_of
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.ci
PROGRAMS: Final = Path(__file__).parent / "programs"


@pytest.fixture
def prepared(served: Served, repo: lakefs.Repository) -> dict[str, str]:
    """The environment of a program: a repository whose table shop.orders has two rows at the branch dev and the tag v1, and three
    on main."""
    catalog = load_catalog(
        "test",
        **{"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(served.lake), "warehouse": f"{repo.id}@main"},
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["a", "b"]})
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows.schema)
    table.append(rows)
    repo.branch("dev").create("main")
    repo.tag("v1").create("main")
    table.append(pa.table({"id": pa.array([3], pa.int64()), "day": ["c"]}))
    catalog.close()
    values = {"URI": f"{served.url}/iceberg", "KEY_ID": served.key_id, "SECRET": served.secret, "REPOSITORY": repo.id}
    return {f"CATALOG_{name}": text for name, text in values.items()}


@pytest.mark.parametrize(
    "words", [["duckdb"], ["frames", "polars"], ["frames", "daft"], ["frames", "chdb"]], ids=" ".join
)
def test_a_client_reads_each_ref_and_writes(words: list[str], prepared: dict[str, str], tmp_path: Path) -> None:
    program, *rest = words
    command = [str(commands_of(TABLES) / "python"), str(PROGRAMS / f"{program}_tables.py"), *rest]
    environment = {**os.environ, **prepared, "PYTHONPATH": "", "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
