"""The stage of the demo: runs real command lines, shows them with their output, and times each step."""

import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from graveler.cli.exits import ExitCode
from graveler.cli.locations import LAKE
from graveler.cli.values import count
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from rich.console import Console

_KINDS: Final = {
    "table file": "tables/",
    "range": "_graveler/ranges/",
    "metarange": "_graveler/metaranges/",
    "commit record": "_graveler/commits/",
    "data file": "data/",
}
_SHOWN: Final = 12
_SPECIAL: Final = re.compile(r"[\"$`\\!]")
"""What the shell reads even in double quotes."""
_INDENT: Final = "    "
_INSET: Final = (0, 0, 0, len(_INDENT))


class DemoFailedError(GravelerError):
    """A step did not do what it says."""


@dataclass
class Ran:
    """A command line, its exit code and its output (including stderr if it was expected to fail)."""

    command: str
    exit_code: int
    text: str


@dataclass
class Step:
    """Some commands with one purpose. ``written``: new files in the object store, by kind."""

    number: int
    title: str
    ran: list[Ran] = field(default_factory=list)
    seconds: float = 0.0
    written: Mapping[str, int] = field(default_factory=dict)


class Stage:
    """The environment of the demo. ``run_line`` runs a command line in this process; ``console`` is None without an audience."""

    def __init__(
        self, lake: Path, repository: str, run_line: Callable[[list[str]], int], console: "Console | None"
    ) -> None:
        self._lake = lake
        self._objects = lake / "objects" / repository
        self._run_line = run_line
        self._console = console
        self._step = Step(0, "")
        self._files = dict.fromkeys(_KINDS, 0)
        self.steps: list[Step] = []

    @contextmanager
    def step(self, title: str, explanation: str = "") -> Iterator[None]:
        """Run one step; its time is that of its commands."""
        self._step = Step(len(self.steps) + 1, title)
        if self._console:
            self._console.print()
            self._console.print(f"[bold cyan]{self._step.number:>2}[/]  [bold]{title}[/]")
            if explanation:
                from rich.padding import Padding

                self._console.print(Padding(explanation, _INSET), style="dim", highlight=False)
        yield
        before, self._files = self._files, self._count_files()
        self._step.written = {kind: self._files[kind] - before[kind] for kind in _KINDS}
        self.steps.append(self._step)
        if self._console:
            wrote = ", ".join(count(n, kind) for kind, n in self._step.written.items() if n) or "no files"
            self._console.print(f"{_INDENT}[green]✓[/] [dim]{self._step.seconds:.2f} s, wrote {wrote}[/]")

    def run(self, *arguments: str, stdin: str | None = None, fails_with: int = 0, shown: int = _SHOWN) -> str:
        """Run ``graveler <arguments>`` and return its output. :class:`DemoFailedError` for an unexpected exit code.

        ``stdin`` is a line of text to pipe in, ``shown`` the number of output lines to show.
        """
        line = " ".join(map(quoted, ("graveler", *arguments)))
        if stdin is not None:
            line = f"echo {shlex.quote(stdin)} | {line}"
        if self._console:
            show_command(self._console, line)
        began = time.perf_counter()
        code, text = self._captured(["--lake", str(self._lake), *arguments], stdin, catch_errors=fails_with != 0)
        self._step.seconds += time.perf_counter() - began
        self._step.ran.append(Ran(line, code, text))
        if self._console:
            self._print(text, shown, failed=code != 0)
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if code != fails_with:
            raise DemoFailedError(f"`{line}` exited with code {code}, not {fails_with}")
        return text

    def run_program(self, module: str, *arguments: str) -> str:
        """Run ``python -m <module> <arguments>`` in a process of its own, and return its output. :class:`DemoFailedError` if it
        fails."""
        line = " ".join(map(quoted, ("python", "-m", module, *arguments)))
        if self._console:
            show_command(self._console, line)
        began = time.perf_counter()
        program = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, LAKE: str(self._lake)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self._step.seconds += time.perf_counter() - began
        self._step.ran.append(Ran(line, program.returncode, program.stdout))
        if self._console:
            self._print(program.stdout, _SHOWN, failed=program.returncode != 0)
        if program.returncode:
            raise DemoFailedError(f"`{line}` exited with code {program.returncode}: {program.stdout}")
        return program.stdout

    def ask(self, *arguments: str) -> str:
        """Run ``graveler <arguments>`` to check something, without showing it or taking its time; return the output."""
        code, text = self._captured(["--lake", str(self._lake), *arguments], None, catch_errors=True)
        self.check(code == 0, f"`{shlex.join(('graveler', *arguments))}` exited with code {code}: {text}")
        return text

    def set_variable(self, name: str, value: str) -> None:
        """Show a line that sets an environment variable, for users who type the commands (this process needs none)."""
        line = f"export {name}={shlex.quote(value)}"
        self._step.ran.append(Ran(line, 0, ""))
        if self._console:
            show_command(self._console, line)

    def check(self, holds: bool, failure: str) -> None:
        """Raise :class:`DemoFailedError` unless it holds."""
        if not holds:
            raise DemoFailedError(f"step {self._step.number} ({self._step.title}) did not do what it says: {failure}")

    def _captured(self, arguments: list[str], stdin: str | None, *, catch_errors: bool) -> tuple[int, str]:
        saved = sys.stdin, sys.stdout, sys.stderr
        sys.stdout = printed = _Captured(saved[1])
        if catch_errors:
            sys.stderr = printed
        if stdin is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(f"{stdin}\n".encode()), encoding="utf-8")
        try:
            code = self._run_line(arguments)
        finally:
            sys.stdin, sys.stdout, sys.stderr = saved
        return code, printed.text()

    def _print(self, text: str, shown: int, *, failed: bool) -> None:
        from rich.padding import Padding
        from rich.text import Text

        assert self._console
        lines = text.splitlines()
        for line in lines[:shown]:
            styled = Text.from_ansi(line)
            if not self._console.is_terminal:
                self._console.print(Text(_INDENT) + styled, soft_wrap=True)
                continue
            if not failed:
                styled.truncate(self._console.width - len(_INDENT), overflow="ellipsis")
            self._console.print(Padding(styled, _INSET))
        if len(lines) > shown:
            self._console.print(f"{_INDENT}[dim]… {count(len(lines) - shown, 'more line')}[/]", highlight=False)

    def _count_files(self) -> dict[str, int]:
        """Return the number of files in the object store by kind. (Only the demo looks inside the lake's folder.)"""
        from graveler.storage.objects.folder import FolderObjects

        objects = FolderObjects(self._objects)
        return {kind: sum(1 for _ in objects.list(prefix)) for kind, prefix in _KINDS.items()}


def quoted(word: str) -> str:
    """Return a word for the shell: in double quotes, as people write SQL, where single ones would have to be escaped."""
    return f'"{word}"' if "'" in word and not _SPECIAL.search(word) else shlex.quote(word)


def show_command(console: "Console", line: str) -> None:
    """Show a line to type, after a prompt. If wider than the terminal, it continues on further lines, in the shell's syntax."""
    lines = [""]
    for word in re.findall(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""", line):
        if console.is_terminal and lines[-1] and len(_INDENT) + 2 + len(lines[-1]) + 1 + len(word) + 2 > console.width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    console.print(f"{_INDENT}[dim]$[/] ", end="")
    console.print(f" \\\n{_INDENT}".join(lines), style="bold", markup=False, highlight=False, soft_wrap=True)


class _Captured(io.TextIOWrapper):
    """A replacement of a stream, and a terminal if that one is."""

    def __init__(self, instead_of: TextIO) -> None:
        self._bytes = io.BytesIO()
        self._terminal = instead_of.isatty()
        super().__init__(self._bytes, encoding=instead_of.encoding, errors="backslashreplace", newline="\n")

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        return self._bytes.getvalue().decode(self.encoding, "replace")
