"""What differs between two versions of a small text: a unified diff, as ``patch -p1`` takes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import chain
from typing import TYPE_CHECKING, Final

from graveler.readable import human_size

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository
    from graveler.model import Change, ObjectEntry

LONGEST: Final = 256 << 10
"""Bytes of the largest object with a patch: comparing lines takes time that grows with the square of their number."""

_ESCAPES: Final = {chr(code): f"\\{code:03o}" for code in (*range(0x20), 0x7F)} | {
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_NO_END: Final = "\\ No newline at end of file"


@dataclass(frozen=True)
class Patches:
    """The patches of changes between two refs. ``before`` and ``after`` are the refs whose objects they compare."""

    repository: "AnyRepository"
    before: str
    after: str

    def of(self, change: "Change") -> list[str] | str:
        """Return the lines of a patch, without any if the bytes are the same; or a text with the reason for which there is none.
        Cost: reading both objects, unless one is too large. Errors as :meth:`RepositoryReader.read`."""
        if all(entry is None or entry.size == 0 for entry in (change.before, change.after)):
            return []
        sizes = " → ".join(human_size(entry.size) for entry in (change.before, change.after) if entry is not None)
        if any(entry is not None and entry.size > LONGEST for entry in (change.before, change.after)):
            return f"larger than {human_size(LONGEST)}, so without a patch: {sizes}"
        old, new = self._text(self.before, change.before), self._text(self.after, change.after)
        if old is None or new is None:
            return f"binary: {sizes}"
        names = (
            "/dev/null" if change.before is None else _named(f"a/{change.path}"),
            "/dev/null" if change.after is None else _named(f"b/{change.path}"),
        )
        return [*chain.from_iterable(map(_marked, unified_diff(_lines(old), _lines(new), *names)))]

    def _text(self, ref: str, entry: "ObjectEntry | None") -> str | None:
        """Return the text of an object, "" if it is missing; None if it is binary: with a zero byte, or not UTF-8."""
        data = b"" if entry is None else self.repository.read(ref, entry.path)
        try:
            return None if b"\0" in data else data.decode()
        except UnicodeDecodeError:
            return None


def _named(path: str) -> str:
    """Return a path as the header of a patch has it: quoted as Git does, so that a line feed in it begins no line; with a tab
    behind one with spaces, at which patch(1) would end it."""
    quoted = "".join(_ESCAPES.get(letter, letter) for letter in path)
    return f'"{quoted}"' if quoted != path else f"{path}\t" if " " in path else path


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends, as patch(1) counts them: only a line feed ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _marked(line: str) -> Iterator[str]:
    """Yield a line of a diff without its end; one that has none is marked."""
    yield line.removesuffix("\n")
    if not line.endswith("\n"):
        yield _NO_END
