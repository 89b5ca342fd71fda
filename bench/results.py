"""``bench/RESULTS.md``: of each kind of table the newest one, and of each earlier one a line."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("rocksdict", "xxhash", "zstandard", "msgspec", "granian", "uvloop")
RESULTS = Path(__file__).with_name("RESULTS.md")
EARLIER = "<!-- earlier -->"
"""Behind it the lines of the table of earlier ones, newest first."""


def keep(kind: str, title: str, text: str) -> None:
    """Put a table in the place of the one of this kind, which becomes a line. ``title`` begins with its date."""
    RESULTS.write_text(replaced(RESULTS.read_text(), kind, title, text))


def show(path: Path, name: str, text: str) -> None:
    """Put a text between ``<!-- name -->`` and ``<!-- end of name -->`` of a document."""
    before, begin, rest = path.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not end:
        raise ValueError(f"no place for the table {name!r} in {path.name}")
    path.write_text(before + begin + text + "\n" + end + after)


def replaced(document: str, kind: str, title: str, text: str) -> str:
    """The document with this table in place of the one of its kind: between ``<!-- kind -->`` and ``<!-- end -->``."""
    begin, end = f"<!-- {kind} -->\n", "<!-- end -->\n"
    if begin not in document:
        raise ValueError(
            f"no place for a table of {kind!r} in {RESULTS.name}; put {begin.strip()} and {end.strip()} into it"
        )
    before, _, rest = document.partition(begin)
    old, _, after = rest.partition(end)
    document = f"{before}{begin}## {title}\n\n{text.strip()}\n{end}{after}"
    found = re.search(r"## (\S+), (.*)\n", old)
    if found is None:
        return document
    line = f"| {found[1]} | {found[2]} | {headline(old)} |\n"
    before, mark, after = document.partition(EARLIER + "\n")
    head, rule, lines = after.partition("---|\n")
    return before + mark + head + rule + line + lines


def headline(text: str) -> str:
    """What stands first in a table: what was measured, and how much."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    what, measured = (cell.strip() for cell in rows[2].split("|")[1:3])
    return f"{what}: {measured}"


def title(command: str) -> str:
    """When and of which commit something was measured, and by which command."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"{datetime.now(UTC):%Y-%m-%d}, commit {done.stdout.strip()}: `{command}`"


def about() -> str:
    """With what this was measured."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"Python {platform.python_version()}, {libraries}; {os.cpu_count()} cores, {processor()}, {platform.system()} "
        f"{platform.release()}."
    )


def processor() -> str:
    """What the machine calls its processor."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()
