"""The workflow of the recipe for GitHub Actions: its steps run as GitHub runs them, against ``graveler serve``."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import graveler
from tests.clients.support import Served, serving
from tests.support.patience import PATIENCE
from tests.test_docs import files

PAGE = "docs/recipes/github-actions.md"
INSTALLATION = "pip install 'graveler[remote]'"
CLOSED = "github.event.action == 'closed' && "
JOBS = {
    "build": "github.event.action != 'closed'",
    "publish": f"{CLOSED}github.event.pull_request.merged",
    "remove": f"{CLOSED}!github.event.pull_request.merged",
}
"""When each job runs."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server of an own lake with the repository of the page, and orders in it."""
    with serving(tmp_path / "lake") as server:
        with graveler.open(tmp_path / "lake", user="ada") as lake:
            main = lake.repository("sales").create().branch("main")
            main.object("orders/1.csv").upload("id,amount\n1,100\n2,50\n")
            main.commit("Orders")
        yield server


def run(job: str, folder: Path, server: Served, code: str) -> int:
    """Run a job's steps in a new checkout, and return the exit code of the first that fails, or 0."""
    written = files(PAGE)
    workflow: dict[str, Any] = yaml.safe_load(written.pop(".github/workflows/lake.yml"))
    assert {name: one["if"] for name, one in workflow["jobs"].items()} == JOBS
    values = {
        "github.event.number": "7",
        "github.event.pull_request.head.sha": code,
        "vars.GRAVELER_ENDPOINT": server.url,
        "secrets.GRAVELER_ACCESS_KEY_ID": server.key_id,
        "secrets.GRAVELER_SECRET_ACCESS_KEY": server.secret,
    }
    folder.mkdir()
    for name, contents in written.items():
        (folder / name).write_text(contents)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        **{name: filled(value, values) for name, value in workflow["env"].items()},
    }
    steps = [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step]
    assert steps[0] == INSTALLATION
    for step in steps[1:]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step, values)]
        done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=PATIENCE)
        if done.returncode:
            return done.returncode
    return 0


def filled(text: str, values: Mapping[str, str]) -> str:
    """Replace GitHub's expressions; an unknown one is an error."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)


@pytest.mark.ci
def test_a_pull_request_has_a_branch_and_main_gets_what_was_built_from_it(served: Served, tmp_path: Path) -> None:
    assert served.lake is not None
    with graveler.open(served.lake, user="ada") as lake:
        repo = lake.repository("sales")
        main, branch = repo.branch("main"), repo.branch("pr-7")
        assert run("build", tmp_path / "first", served, "a" * 40) == 0
        assert branch.object("tables/total.csv").reader("r").read() == "total\n150\n"
        assert not main.object("tables/total.csv").exists()
        assert run("remove", tmp_path / "closed", served, "a" * 40) == 0
        assert [one.id for one in repo.branches()] == ["main"]

        assert run("build", tmp_path / "opened", served, "a" * 40) == 0
        assert run("build", tmp_path / "pushed", served, "b" * 40) == 0
        built = branch.head.id
        assert run("publish", tmp_path / "merged", served, "b" * 40) == 0
        assert main.get_commit().parents[1] == built
        assert [one.id for one in repo.branches()] == ["main"]

        assert run("build", tmp_path / "next", served, "c" * 40) == 0
        branch.object("tables/total.csv").upload("by hand")
        branch.commit("After the build")
        head = main.head.id
        assert run("publish", tmp_path / "refused", served, "c" * 40) == 5
        assert main.head.id == head
