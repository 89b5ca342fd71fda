"""Clients of Iceberg tables in an environment of their own: each reads a branch, a tag and a commit, and writes what it can."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import lakefs
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from tests.clients.lakes_on_s3 import ServedOnS3, new_repository
from tests.clients.support import Served
from tests.gateway.clients.tools import TABLES, commands_of
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.ci
PROGRAMS: Final = Path(__file__).parent / "programs"


@pytest.fixture(params=["folder", "s3"])
def server(request: pytest.FixtureRequest) -> Served:
    """The server of a lake in a folder, or of one on S3, which gives its clients credentials."""
    if request.param == "folder":
        folder: Served = request.getfixturevalue("served")
        return folder
    on_s3: ServedOnS3 = request.getfixturevalue("served_on_s3")
    return on_s3.served


@pytest.fixture
def repo(server: Served) -> Iterator[lakefs.Repository]:
    """A new repository."""
    with new_repository(server) as repository:
        yield repository


@pytest.fixture
def prepared(server: Served, repo: lakefs.Repository) -> dict[str, str]:
    """The environment of a program: a repository whose table shop.orders has two rows at the branch dev and the tag v1, and three
    on main."""
    uri = f"{server.url}/iceberg"
    catalog = load_catalog(
        "test",
        type="rest",
        uri=uri,
        warehouse=f"{repo.id}@main",
        credential=f"{server.key_id}:{server.secret}",
        **{"oauth2-server-uri": f"{uri}/v1/oauth/tokens"},
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["a", "b"]})
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows.schema)
    table.append(rows)
    repo.branch("dev").create("main")
    repo.tag("v1").create("main")
    table.append(pa.table({"id": pa.array([3], pa.int64()), "day": ["c"]}))
    catalog.close()
    values = {"URI": uri, "KEY_ID": server.key_id, "SECRET": server.secret, "REPOSITORY": repo.id}
    return {f"CATALOG_{name}": text for name, text in values.items()}


@pytest.mark.parametrize(
    "words", [["duckdb"], ["frames", "polars"], ["frames", "daft"], ["frames", "chdb"]], ids=" ".join
)
def test_a_client_reads_each_ref_and_writes(words: list[str], prepared: dict[str, str], tmp_path: Path) -> None:
    program, *rest = words
    command = [str(commands_of(TABLES) / "python"), str(PROGRAMS / f"{program}_tables.py"), *rest]
    cloud = ("AWS_", "GRAVELER_")  # a client has no credentials of its own
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(cloud)}
    nothing = {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": "", "DO_NOT_TRACK": "1"}
    environment = {**inherited, **prepared, **nothing}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
