"""The recipe for a container: what it names exists, and its command starts a server in a plain environment with its extras."""

import json
import os
import re
import signal
import subprocess
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.installation.wheel import ROOT, install

RECIPE = ROOT / "infra" / "container" / "Containerfile"


def instruction(name: str) -> str:
    """The rest of the one line that begins with this word, continued lines joined."""
    joined = RECIPE.read_text().replace("\\\n", " ")
    (found,) = re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)
    return str(found)


def test_what_it_installs_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"graveler\[([\w,]+)\]", instruction("RUN"))
    assert set(named.split(",")) <= set(extras)
    assert (ROOT / "locks/dev.lock").exists()
    assert f"-f {RECIPE.relative_to(ROOT)}" in RECIPE.read_text()
    assert instruction("USER") == "graveler"


def test_its_command_serves_and_its_health_check_passes(wheel: Path, tmp_path: Path) -> None:
    environment = install(wheel, tmp_path / "environment", "server")
    command = [*json.loads(instruction("ENTRYPOINT")), *json.loads(instruction("CMD"))]
    replaced = {"/lake/data": str(tmp_path / "lake"), "0.0.0.0": "127.0.0.1", "8000": "0"}
    command = [replaced.get(word, word) for word in command]
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    with subprocess.Popen(
        [str(environment.folder / "bin" / command[0]), *command[1:], "--json"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            program = check[2].replace("http://127.0.0.1:8000", url)
            assert program != check[2]
            assert environment.run(check[0], check[1], program).returncode == 0
            with urllib.request.urlopen(f"{url}/healthcheck") as response:
                assert response.status == 204
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait() == 0


@pytest.mark.parametrize("word", ["make dist", "docker run"])
def test_the_page_for_operators_shows_it(word: str) -> None:
    assert word in (ROOT / "docs" / "operations.md").read_text()
