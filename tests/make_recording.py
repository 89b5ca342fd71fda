"""Writes the recording of a terminal that the README shows: ``python -m tests.make_recording``. A test runs it again.

The commands of :data:`SESSION` run in a folder of their own, on a terminal; what they print is drawn with its colours.
"""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html import unescape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.text import Text

FILE: Final = Path(__file__).resolve().parents[1] / "docs" / "drawings" / "terminal.svg"
TITLE: Final = "A mistake in a file is corrected on a branch, compared, merged, and seen in the history"
WIDTH: Final = 84
"""Columns of the terminal."""

PREPARATION: Final = (
    "graveler init",
    "graveler repo create lakefs://sales",
    "printf 'order,amount\\n1,100\\n2,250\\n3,80\\n' | graveler put - lakefs://sales/main/raw/january.csv",
    "graveler commit lakefs://sales/main -m January",
    "graveler use lakefs://sales/main",
    "printf 'order,amount\\n1,100\\n2,205\\n3,80\\n' > january.csv",
)
"""Commands before the recording."""
SESSION: Final = (
    "graveler branch create fix",
    "graveler put january.csv lakefs://sales/fix/raw/january.csv",
    "graveler commit fix -m 'Correct order 2'",
    "graveler diff main fix -p",
    "graveler merge fix main",
    "graveler log --graph",
)

_COLUMN: Final = 12.2
"""The width of a letter in rich's drawings."""
_TEMPLATE: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="%s">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="10" fill="#292929"/>
<g transform="translate(14, 22)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record() -> list[Text]:
    """Run the session, and return its lines with their colours."""
    with TemporaryDirectory() as folder:
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": folder,
            "GRAVELER_USER": "ada",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": str(WIDTH),
            "TERM": "xterm-256color",
            "PAGER": "cat",
        } | {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        work = Path(folder, "work")
        work.mkdir()
        for command in PREPARATION:
            subprocess.run(["bash", "-c", command], cwd=work, env=environment, check=True, capture_output=True)
        lines = []
        for command in SESSION:
            lines.append(Text.assemble(("$ ", "green"), (command, "bold")))
            lines += [Text.from_ansi(line) for line in _printed(command, work, environment).splitlines()]
    return lines


def _printed(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command on a terminal of its own, and return what it prints there."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=end, stdout=end, stderr=subprocess.STDOUT
    )
    os.close(end)
    printed = b"".join(_chunks(terminal))
    os.close(terminal)
    if process.wait() != 0:
        raise RuntimeError(f"{command!r} failed:\n{printed.decode()}")
    return printed.decode().replace("\r\n", "\n")


def _chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:  # Linux reports the end of a terminal as an error
            return
        if not chunk:
            return
        yield chunk


def draw(lines: list[Text]) -> str:
    """Return lines as an SVG file, which loads nothing."""
    console = Console(record=True, width=WIDTH, file=StringIO(), color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title="", code_format=_TEMPLATE % TITLE, unique_id="terminal")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def text_of(svg: str) -> str:
    """Return the lines of text in a drawing of :func:`draw`."""
    rows: dict[float, str] = {}
    for x, y, text in re.findall(r'<text [^>]*\bx="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        line = rows.get(float(y), "").ljust(round(float(x) / _COLUMN))
        rows[float(y)] = line + unescape(text).replace("\N{NO-BREAK SPACE}", " ").strip("\n")
    return "\n".join(rows[y] for y in sorted(rows))


if __name__ == "__main__":
    FILE.write_text(draw(record()))
