"""Builds the wheel, and environments into which it is installed as a user would, with the locked versions of what it needs."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UV: Final = Path(sys.executable).with_name("uv")
LOCKS: Final = {
    "spark": "locks/spark.lock",
    "connect": "locks/spark.lock",
    "all": "locks/spark.lock",
}
"""The lock that has an extra's packages, if it is not the developers' one."""


@dataclass(frozen=True)
class Environment:
    """A fresh environment with the wheel in it."""

    folder: Path

    def run(
        self, *command: str, within: Path | None = None, shell: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, or a line of a shell that finds its programs first. The home folder is empty, and
        so are all variables that this project reads."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", shell] if shell is not None else [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=within or home,
            env={**kept, "HOME": str(home), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def build_wheel(into: Path) -> Path:
    """Build the wheel from the working tree."""
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into))
    (wheel,) = into.glob("graveler-*.whl")
    return wheel


def install(wheel: Path, folder: Path, extra: str = "") -> Environment:
    """Install the wheel with an extra, and nothing else, into a new environment."""
    _run(str(UV), "venv", "--quiet", "--python", sys.executable, str(folder))
    constraints = str(ROOT / LOCKS.get(extra, "locks/dev.lock"))
    wanted = f"graveler[{extra}] @ {wheel.as_uri()}" if extra else f"graveler @ {wheel.as_uri()}"
    python = str(folder / "bin" / "python")
    _run(str(UV), "pip", "install", "--quiet", "--python", python, "--constraint", constraints, wanted)
    return Environment(folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
