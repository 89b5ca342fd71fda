"""``bench/RESULTS.md``: of each kind of table the newest one, and of each earlier one a line."""

import re
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
EARLIER = "<!-- earlier -->"
"""Behind it the lines of the table of earlier ones, newest first."""


def keep(kind: str, title: str, text: str) -> None:
    """Put a table in the place of the one of this kind, which becomes a line. ``title`` begins with its date."""
    RESULTS.write_text(replaced(RESULTS.read_text(), kind, title, text))


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
