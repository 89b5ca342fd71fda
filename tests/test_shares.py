"""Tests marked ``share(n)``: n successive seeds run each of them once, and a run without ``-m`` all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REPETITIONS = "tests/sdk/test_refs_served.py"


def collected(*options: str) -> list[str]:
    """The tests of the module that a run with these options selects."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options, REPETITIONS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith(REPETITIONS)]


@pytest.mark.ci
def test_successive_seeds_run_each_repetition_once() -> None:
    shares = [collected("-m", "not ci", f"--hypothesis-seed={seed}") for seed in (7, 8, 9)]
    assert all(shares)
    assert sorted(name for share in shares for name in share) == sorted(collected())
