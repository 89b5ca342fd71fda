"""Writes ``docs/cli.md`` from the commands' own help: ``python -m tests.make_cli_docs``. A test holds the page to them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """# Command line

What `graveler` says of itself. The page is written by `python -m tests.make_cli_docs`, and a test compares it with the command.
What the verbs mean is told in [verbs](verbs.md).
"""


def shown(command: str) -> str:
    """A command's help, 120 columns wide."""
    environment = {
        **os.environ,
        "COLUMNS": "120",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run([*command.split(), "--help"], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip("\n")


def commands(text: str) -> list[str]:
    """Names in a help's lists of commands."""
    lists = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    found = [part for part in lists if part.split("\n", 1)[0].endswith(":") and not part.startswith("Options:")]
    return [name for part in found for name in re.findall(r"^  ([a-z][a-z-]*)  ", part, re.MULTILINE)]


def main() -> None:
    """Write the page."""
    top = shown("graveler")
    sections = [HEAD, section("graveler", top)]
    for name in commands(top):
        sections += parts(f"graveler {name}")
    PAGE.write_text("\n".join(sections))


def parts(command: str) -> Iterator[str]:
    """The parts of the page about a command, and about those in it."""
    text = shown(command)
    yield section(command, text)
    if re.search(r"^Commands:$", text, re.MULTILINE):
        for name in commands(text):
            yield from parts(f"{command} {name}")


def section(command: str, text: str) -> str:
    """One command's part of the page."""
    return f"## `{command}`\n\n```console\n$ {command} --help\n{text}\n```\n"


if __name__ == "__main__":
    main()
