"""Completion: the shell asks the command what may follow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import done

GRAVELER = Path(sys.executable).parent / "graveler"


def offered(line: str) -> list[str]:
    """What fish would offer at the end of a line, without descriptions."""
    asked = subprocess.run(
        [GRAVELER],
        env={**os.environ, "_GRAVELER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        | {"_TYPER_COMPLETE_ARGS": line},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stderr == ""
    return [one.split("\t")[0] for one in asked.stdout.splitlines() if one]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("graveler bra", ["branch"]),
        ("graveler repo show l", ["lake"]),
        ("graveler repo show lakefs://l", ["lakefs://lake"]),
        ("graveler repo show nothing", []),
        ("graveler branch delete lak", ["lakefs://lake/"]),
        ("graveler branch delete lakefs://", ["lakefs://lake/"]),
        ("graveler branch delete lakefs://lake/d", ["lakefs://lake/dev"]),
        ("graveler ls lakefs://none/d", []),
    ],
)
def test_names_are_offered(lake: Path, line: str, expected: list[str]) -> None:
    done("branch", "create", "lakefs://lake/dev")
    assert offered(line) == expected


def test_without_a_lake_nothing_is_offered(working_folder: Path) -> None:
    assert offered("graveler repo show l") == []


def test_installing_it_works(working_folder: Path) -> None:
    subprocess.run(
        [GRAVELER, "--install-completion", "bash"],
        env={**os.environ, "HOME": str(working_folder), "SHELL": "/bin/bash"},
        capture_output=True,
        check=True,
    )
    assert "_graveler_completion" in (working_folder / ".bash_completions/graveler.sh").read_text()
