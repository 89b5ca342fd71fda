"""The commands in the documents are run, and print what the documents show.

Blocks fenced as ``console`` are sessions: lines that begin with ``$`` are commands, the lines below one what it prints.
All blocks of a document are one session, in one empty folder. Times and durations are compared by their form, and so
are IDs, but one that a document shows twice is printed twice, and two are two; ``…`` alone on a line stands for any
lines; ``# exit 4`` behind a command is its exit code. Blocks of ``python`` run there afterwards. A block whose fence
also names a file, as ``python check.py``, is that file, in the folder from the beginning.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if re.search(r"^```(console|python)$", path.read_text(), re.MULTILINE)
)
ID = re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,64}\b")
LONG = ("docs/cli.md",)
"""Pages with more commands than `make test` has time for; they are run in `make test-all`."""
ELSEWHERE = (
    "docs/recipes/move-a-bucket.md",
    *(f"docs/recipes/{lock.stem}.md" for lock in sorted((ROOT / "docs/recipes/locks").glob("*.lock"))),
)
"""Pages whose commands need more than a folder: ``tests/recipes`` runs them."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FORMS = [
    (COLOURS, ""),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,16}\b"), "<short id>"),
    (re.compile(r"\b[0-9a-v]{20}/[0-9a-v]{20}\b"), "<data name>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?( ?UTC|Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b"), "<duration>"),
    (re.compile(r"[ \t]+"), " "),
]


def formed(text: str) -> list[str]:
    """Lines, with what differs from run to run replaced by what it is."""
    for pattern, form in FORMS:
        text = pattern.sub(form, text)
    return [line.strip() for line in text.strip().splitlines()]


def session(document: str) -> list[tuple[str, int, str]]:
    """Commands of a document with their exit codes and their output."""
    steps: list[tuple[str, int, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                command, _, code = line[2:].partition("  # exit ")
                steps.append((command, int(code or 0), ""))
            else:
                command, expected_code, output = steps.pop()
                steps.append((command, expected_code, f"{output}{line}\n"))
    return steps


def files(document: str) -> dict[str, str]:
    """The files of a document: their contents by their names."""
    text = (ROOT / document).read_text()
    found = re.findall(r"^```\w+ (\S*\.\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return dict(found)


class Ids:
    """The IDs that commands printed, by those that a document shows in their place."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}

    def fault(self, shown: str, printed: str) -> str:
        """Return which ID of an output stands for another one than before, or nothing. Both have the same number of lines."""
        for line, of in zip(shown.strip().splitlines(), printed.strip().splitlines(), strict=True):
            for here, there in zip(ID.findall(line), ID.findall(of), strict=True):
                before = self._printed.setdefault(here[:8], there[:8])
                if before != there[:8]:
                    return f"{here} stands for {before}… and for {there}"
        numbers = list(self._printed.values())
        shared = {number for number in numbers if numbers.count(number) > 1}
        return f"two IDs stand for {shared}" if shared else ""


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the output is as shown; a line ``…`` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(matches(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


@pytest.mark.parametrize(
    "document",
    [pytest.param(name, marks=pytest.mark.ci) if name in LONG else name for name in DOCUMENTS if name not in ELSEWHERE],
)
def test_the_commands_shown_print_what_is_shown(document: str, command_path: str, tmp_path: Path) -> None:
    replay(document, tmp_path, {"PATH": command_path})


def replay(document: str, folder: Path, more: Mapping[str, str]) -> None:
    """Run a document in an empty folder, with ``more`` variables in the environment."""
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    for name, contents in files(document).items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(contents)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "GRAVELER_USER": "ada",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "120",
        **more,
    }
    ids = Ids()
    for command, expected_code, output in session(document):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        printed = formed((done.stdout + done.stderr).replace(f"{work}/", ""))
        assert done.returncode == expected_code, f"$ {command}\n{done.stdout}{done.stderr}"
        assert matches(formed(output), printed), f"$ {command}\nprinted:\n" + "\n".join(printed)
        if "…" not in output.splitlines():
            fault = ids.fault(output, COLOURS.sub("", done.stdout + done.stderr))
            assert not fault, f"$ {command}\n{fault}"

    for program in re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program}\n{done.stderr}"


def test_an_id_that_stands_for_two_is_found() -> None:
    ids = Ids()
    assert ids.fault("at 11111111aaaa\n", "at 22222222bbbb\n") == ""
    assert ids.fault("11111111", "22222222") == ""
    assert "11111111 stands for" in ids.fault("11111111", "33333333")
    assert "two IDs" in Ids().fault("11111111 44444444", "22222222 22222222")


def test_the_readme_and_the_tutorial_show_sessions() -> None:
    assert {"README.md", "docs/tutorial.md"} <= set(DOCUMENTS)


def test_the_readme_takes_a_minute() -> None:
    """At most eight commands, and the last is a merge."""
    commands = [command for command, _, _ in session("README.md")]
    assert len(commands) <= 8
    assert commands[-1].startswith("graveler merge ")


PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
)


def anchors(page: Path) -> set[str]:
    """What a link can name behind ``#``: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_names_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text()))
    assert {page for page in PAGES if re.fullmatch(r"docs/[^/]+", page)} <= linked
