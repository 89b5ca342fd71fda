"""Writers commit to one table of a branch at the same time, through ``serve --s3-port``: no version is lost.

``GRAVELER_S3_COMMITS`` is the number of commits of each; with ten or more there are eight writers, each a process of its own.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.gateway.clients.support import ServedLake, folder_lake, lake_on_aws, run_writers, serving

COMMITS = int(os.environ.get("GRAVELER_S3_COMMITS", "2"))
ALONE = COMMITS >= 10
WRITERS = 8 if ALONE else 4


@pytest.fixture(scope="module", params=["folder", pytest.param("aws", marks=pytest.mark.ci)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLake]:
    folder = tmp_path_factory.mktemp("writers")
    lake = folder_lake(folder / "lake") if request.param == "folder" else lake_on_aws(folder / "cache")
    with serving(lake, folder) as running:
        yield running


@pytest.mark.parametrize(
    "client",
    ["deltalake", pytest.param("pylance", marks=pytest.mark.ci), pytest.param("icechunk", marks=pytest.mark.ci)],
)
def test_no_version_is_lost(server: ServedLake, client: str, tmp_path: Path) -> None:
    run = partial(run_writers, server, tmp_path, client, WRITERS, COMMITS)
    if not ALONE:
        return run("create", "write", "check")
    run("create")
    with ThreadPoolExecutor(WRITERS) as processes:
        for _ in processes.map(run, map(str, range(WRITERS))):
            pass
    return run("check")
