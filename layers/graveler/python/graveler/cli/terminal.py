"""Output to a terminal or a pipe: lines, colours, JSON, questions.

Colours are a few ANSI codes, written directly: a listing of a million lines must not wait for a layout engine. Rich is used where
something moves (:mod:`graveler.cli.progress`) or is told at length (the demo).
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TextIO

from graveler.errors import PreconditionError
from graveler.text.readable import printable

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

Json = Mapping[str, object]
"""One JSON object."""


_PRINTS_JSON: Final[ContextVar[bool]] = ContextVar("_PRINTS_JSON", default=False)
"""Whether the command that runs was given ``--json``."""


@contextmanager
def json_if_wanted(arguments: Sequence[str]) -> Iterator[None]:
    """Print errors and warnings as JSON within, if the words of the command line have ``--json``. The words count, not what is
    made of them: a line that cannot be understood gets its error as JSON, too."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    token = _PRINTS_JSON.set("--json" in words[:end])
    try:
        yield
    finally:
        _PRINTS_JSON.reset(token)


def prints_json() -> bool:
    """Return whether the command that runs prints JSON, also its errors and warnings."""
    return _PRINTS_JSON.get()


def has_colours(stream: TextIO) -> bool:
    """Return whether it is a terminal whose user wants colours. (https://no-color.org)"""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Screen:
    """One stream read by people or, ``as_json``, by programs."""

    def __init__(self, stream: TextIO, *, colours: bool | None = None, as_json: bool = False) -> None:
        self._stream = stream
        self.colours = has_colours(stream) if colours is None else colours
        self.as_json = as_json

    def paint(self, text: str, *styles: str) -> str:
        """Return ``text`` in a colour or weight, if the stream has colours."""
        if not self.colours or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    safe = staticmethod(printable)
    """Returns a text on one line, without control characters, which could move the cursor or hide something."""

    def line(self, text: str = "") -> None:
        """Write a line."""
        self._stream.write(text + "\n")

    def note(self, *lines: str) -> None:
        """Write lines for people: nothing on a screen for programs."""
        if not self.as_json:
            for line in lines:
                self.line(line)

    def answer(self, document: Json, *lines: str) -> None:
        """Write the same for either reader: a document for programs, lines for people."""
        if self.as_json:
            self.json(document)
        self.note(*lines)

    def json(self, value: Json) -> None:
        """Write a JSON document on a line of its own. A stream that is not UTF-8 gets ASCII, with the escapes of JSON."""
        encoding = (self._stream.encoding or "").lower().replace("-", "")
        self._stream.write(json.dumps(value, ensure_ascii=encoding not in ("", "utf8")) + "\n")

    def fields(self, fields: Mapping[str, str]) -> list[str]:
        """Return lines of names and values, aligned."""
        width = max(map(len, fields)) + 1
        return [f"{self.paint((name + ':').ljust(width), 'dim')}  {self.safe(value)}" for name, value in fields.items()]

    @property
    def draws_boxes(self) -> bool:
        """True if the stream's encoding has box-drawing characters."""
        try:
            "│○├─╮".encode(self._stream.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return False
        return True


def output(*, as_json: bool = False) -> Screen:
    """Return the current stdout."""
    return Screen(sys.stdout, as_json=as_json)


def warn(text: str) -> None:
    """Warn on stderr of something that does not stop the command."""
    screen = Screen(sys.stderr)
    if prints_json():
        screen.json({"warning": {"message": text}})
        return
    screen.line(f"{screen.paint('warning:', 'yellow')} {screen.safe(text)}")


def confirm(question: str) -> bool | None:
    """Ask on the terminal; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def expect_yes(question: str, unattended: str, outcome: str) -> None:
    """Raise :class:`PreconditionError` unless the user confirms. Without a terminal its reason is ``unattended``; ``outcome``
    says that nothing was done."""
    answer = confirm(question)
    if not answer:
        raise PreconditionError(f"{unattended if answer is None else 'not confirmed'}; {outcome}")
