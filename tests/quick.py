"""``make quick``: formatting, lint, imports, types of what changed, and the tests that tell most.

The tests are those that fail when a line that keeps a promise is removed (:mod:`tests.mutations`), but for the slow ones, and a
few of each room. They run beside the rest, so that both take less than a minute on two idle cores; mypy's first run takes longer.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from tests.mutations import MUTATIONS, ROOT, is_sparks

SLOW: Final = frozenset(
    {
        "cli/test_closed_lakes.py::test_a_closed_lake_is_there_however_it_is_found",
    }
)
"""Tests of the table of mutations that take more than a second."""

OF_ROOMS: Final = ("test_promises.py",)
"""Further tests: one or two files of a room that say most about it, and what guards names."""

_BASE: Final = "HEAD~1"
"""The types of what changed since are checked: the last commit, and what is not committed."""


def tests() -> list[str]:
    """Return the tests that tell most, as arguments of pytest."""
    of_promises = {mutation.test.partition("[")[0] for mutation in MUTATIONS if not is_sparks(mutation.test)}
    return [f"tests/{name}" for name in (*OF_ROOMS, *sorted(of_promises - SLOW))]


def changed_files() -> list[str]:
    """Return the Python files that changed, but those that need Spark's types."""
    names = _lines("git", "diff", "--name-only", "--diff-filter=d", _BASE)
    names += _lines("git", "ls-files", "--others", "--exclude-standard")
    folders = ("layers/", "functions/", "infra/", "tests/", "bench/")
    return [n for n in sorted(set(names)) if n.endswith(".py") and n.startswith(folders) and "spark" not in n]


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def checks() -> Iterator[Sequence[str]]:
    """Yield the commands of what is checked beside the tests."""
    tools = Path(sys.executable).parent
    yield str(tools / "ruff"), "format", "--quiet", "--check", "."
    yield str(tools / "ruff"), "check", "--quiet", "."
    yield (str(tools / "lint-imports"),)
    if files := changed_files():
        yield str(tools / "mypy"), "--follow-imports=silent", *files


def main() -> None:
    """Run the tests and, meanwhile, the checks; then show what failed."""
    with TemporaryFile("w+") as output:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not ci and not search"]
        running = subprocess.Popen([*pytest, *tests()], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        failed = False
        for command in checks():
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                failed = True
                sys.stdout.write(done.stdout + done.stderr)
        failed |= running.wait() != 0
        output.seek(0)
        sys.stdout.write(output.read())
    sys.exit(failed)


if __name__ == "__main__":
    main()
