"""The README's lines that install, and its minute of use with the wheel alone: its commands, in their order, in a folder."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.installation.wheel import ROOT, UV, Environment

SECTION: Final = re.compile(r"^## A minute of use\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def test_the_readme_works_with_the_plain_installation(plain: Environment, tmp_path: Path) -> None:
    section = SECTION.search((ROOT / "README.md").read_text())
    assert section is not None
    commands = re.findall(r"^\$ (.*)$", section[1], re.MULTILINE)
    assert 0 < len(commands) <= 8
    assert commands[-1].startswith("graveler merge ")
    for command in commands:
        done = plain.run(shell=command, within=tmp_path)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    assert "merged fix into main" in done.stdout


@pytest.mark.ci
@pytest.mark.parametrize("command", ["pip install .", "uv tool install ."])
def test_a_clone_is_installed_by_the_lines_of_the_readme(command: str, tmp_path: Path) -> None:
    """In an empty home, and in an environment with nothing but pip."""
    for page in ("README.md", "docs/install.md"):
        assert command in (ROOT / page).read_text()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "environment")], check=True)
    bin_folder = tmp_path / "environment" / "bin"
    (bin_folder / "uv").symlink_to(UV)
    tools = tmp_path / "home" / ".local" / "bin"
    variables = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{bin_folder}{os.pathsep}{tools}{os.pathsep}{os.environ['PATH']}",
    }
    inherited = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    for line in (command, "graveler --version"):
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, env={**inherited, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("graveler ")
    folder = tools if command.startswith("uv") else bin_folder
    assert (folder / "graveler").exists()
