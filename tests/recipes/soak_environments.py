"""The recipes that need more packages than graveler's own: ``make soak-recipes``.

Each page has a lock file in ``docs/recipes/locks``. Its test makes an environment from that, with this checkout in it, and runs
the page's commands and programs there. They need up to 5 GB on the disk, so no other target collects this module.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import ROOT, replay

LOCKS = ROOT / "docs" / "recipes" / "locks"


def environment(lock: Path, folder: Path) -> Path:
    """A new environment with what the lock names, and graveler; the folder of its commands."""
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(folder / "bin" / "python")
    for command in (
        (uv, "venv", "--quiet", "--python", sys.executable, str(folder)),
        (uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", "--compile-bytecode", str(lock)),
        (
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--no-deps",
            "--no-build-isolation",
            "--editable",
            str(ROOT),
        ),
    ):
        subprocess.run(command, check=True)
    return folder / "bin"


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.lock")), ids=lambda lock: lock.stem)
def test_a_recipe_works_in_an_environment_of_its_own(lock: Path, tmp_path: Path) -> None:
    commands = environment(lock, tmp_path / "environment")
    replay(f"docs/recipes/{lock.stem}.md", tmp_path, {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"})
