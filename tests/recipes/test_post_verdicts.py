"""The scripts of the recipe that posts verdicts, as its page has them: by HTTP to ``graveler serve``, and of a run of dbt."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import graveler
from tests.clients.support import serving
from tests.support.patience import PATIENCE
from tests.test_docs import files

PAGE = "docs/recipes/post-verdicts.md"
EXAMPLE = "https://lake.example.org"


def run(script: str, folder: Path, variables: Mapping[str, str]) -> None:
    subprocess.run(
        ["bash", "-eu", "-c", script], cwd=folder, env={**os.environ, **variables}, check=True, timeout=PATIENCE
    )


def orders(folder: Path) -> str:
    """Make a lake with the repository of the page, and return the ID of its newest commit."""
    with graveler.create(folder, user="ada") as lake:
        main = lake.repository("sales").create().branch("main")
        main.object("orders/1.csv").upload("id,amount\n1,100\n")
        return main.commit("Orders").id


def statuses(folder: Path, commit: str) -> list[tuple[str, str, str]]:
    with graveler.open(folder) as lake:
        return [
            (status.name, status.state.value, status.description)
            for status in lake.repository("sales").commit(commit).statuses()
        ]


@pytest.mark.ci
def test_a_verdict_by_http(tmp_path: Path) -> None:
    commit = orders(tmp_path / "lake")
    script = files(PAGE)["post.sh"]
    assert EXAMPLE in script
    with serving(tmp_path / "lake") as server:
        variables = {
            "commit": commit,
            "GRAVELER_ACCESS_KEY_ID": server.key_id,
            "GRAVELER_SECRET_ACCESS_KEY": server.secret,
        }
        for _ in range(2):
            run(script.replace(EXAMPLE, server.url), tmp_path, variables)
    assert statuses(tmp_path / "lake", commit) == [("dbt", "success", "41 tests")]


@pytest.mark.parametrize(("code", "state"), [(0, "success"), (1, "failure")])
def test_a_verdict_of_dbt(tmp_path: Path, code: int, state: str) -> None:
    """A stand-in for dbt: the recipe of dbt itself runs in an environment of its own."""
    commit = orders(tmp_path / "lake")
    dbt = tmp_path / "bin" / "dbt"
    dbt.parent.mkdir()
    dbt.write_text(
        f'#!/bin/sh\ntest "$*" = "build --profiles-dir ." || exit 9\necho Running\necho PASS=3\nexit {code}\n'
    )
    dbt.chmod(0o755)
    path = os.pathsep.join((str(dbt.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
    run(files(PAGE)["dbt.sh"], tmp_path, {"commit": commit, "PATH": path, "GRAVELER_LAKE": str(tmp_path / "lake")})
    assert statuses(tmp_path / "lake", commit) == [("dbt", state, "PASS=3")]
