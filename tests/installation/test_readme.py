"""The README's minute of use, with the wheel alone: its commands, in their order, in an empty folder."""

import re
from pathlib import Path
from typing import Final

from tests.installation.wheel import ROOT, Environment

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
