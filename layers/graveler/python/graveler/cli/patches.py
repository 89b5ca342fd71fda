"""Differences between two versions of a small text: a unified diff, as ``patch -p1`` takes it."""

from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from graveler.text.readable import human_size

if TYPE_CHECKING:
    from graveler.model import Change, ObjectEntry
    from graveler.remote.any_repository import AnyRepository

LONGEST: Final = 256 << 10
"""Bytes of the largest object with a patch."""

MOST_COMPARED: Final = 64_000_000
"""The most pairs of lines, one of each side, among which :mod:`difflib` searches for equal ones: up to a few seconds' work."""

_CONTEXT: Final = 3

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
        lines = unified(_lines(old), _lines(new), names)
        return f"too many lines differ to compare them, so without a patch: {sizes}" if lines is None else lines

    def _text(self, ref: str, entry: "ObjectEntry | None") -> str | None:
        """Return the text of an object, "" if it is missing; None if it is binary: with a zero byte, or not UTF-8."""
        data = b"" if entry is None else self.repository.read(ref, entry.path)
        try:
            return None if b"\0" in data else data.decode()
        except UnicodeDecodeError:
            return None


def unified(
    old: Sequence[str], new: Sequence[str], names: tuple[str, str], most: int = MOST_COMPARED
) -> list[str] | None:
    """Return the lines of a unified diff, without any if the sides are equal; None if it takes more than ``most`` pairs of lines
    to compare. Cost: the lines, and these pairs at worst."""
    compared = _Compared(old, new, most)
    if compared.work > most:
        return None
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for hunk in compared.get_grouped_opcodes(_CONTEXT):
        start, end = hunk[0], hunk[-1]
        lines.append(f"@@ -{_range(start[1], end[2])} +{_range(start[3], end[4])} @@")
        for kind, old_begin, old_end, new_begin, new_end in hunk:
            if kind == "equal":
                lines += chain.from_iterable(_marked(f" {line}") for line in old[old_begin:old_end])
            else:
                lines += chain.from_iterable(_marked(f"-{line}") for line in old[old_begin:old_end])
                lines += chain.from_iterable(_marked(f"+{line}") for line in new[new_begin:new_end])
    return lines if len(lines) > 2 else []


class _Compared(SequenceMatcher[str]):
    """Two sequences of lines, compared between their common beginning and end. If those are more than ``most`` pairs of lines,
    they are compared by patience: lines that both sides have once are matched first, in the longest common order, and what is
    between them is compared by itself. ``work`` is the number of pairs of lines that are compared."""

    def __init__(self, old: Sequence[str], new: Sequence[str], most: int) -> None:
        super().__init__(None, old, new)
        self._old, self._new = old, new
        self._set_gaps([])
        if self.work > most:
            self._set_gaps(_anchors(old, new))

    def _set_gaps(self, matched: list[tuple[int, int]]) -> None:
        ends = [(-1, -1), *matched, (len(self._old), len(self._new))]
        self._gaps = [self._trimmed(*before, *after) for before, after in pairwise(ends)]
        self.work = sum((gap[1] - gap[0]) * (gap[3] - gap[2]) for gap in self._gaps)

    def _trimmed(self, old_before: int, new_before: int, old_end: int, new_end: int) -> tuple[int, int, int, int]:
        """Return the lines between two matches, ``old[0]:old[1]`` and ``new[2]:new[3]``, without equal ones at both ends."""
        old_begin, new_begin = old_before + 1, new_before + 1
        while old_begin < old_end and new_begin < new_end and self._old[old_begin] == self._new[new_begin]:
            old_begin, new_begin = old_begin + 1, new_begin + 1
        while old_begin < old_end and new_begin < new_end and self._old[old_end - 1] == self._new[new_end - 1]:
            old_end, new_end = old_end - 1, new_end - 1
        return old_begin, old_end, new_begin, new_end

    def get_matching_blocks(self) -> list[Match]:
        """Return the runs of equal lines, with an empty one at the end, as :mod:`difflib` does."""
        runs: list[Match] = []
        done = 0  # all old lines before are in a run, or have no equal

        def add(old: int, new: int, size: int) -> None:
            if runs and (runs[-1].a + runs[-1].size, runs[-1].b + runs[-1].size) == (old, new):
                old, new, size = runs[-1].a, runs[-1].b, runs.pop().size + size
            if size:
                runs.append(Match(old, new, size))

        shift = 0
        for old_begin, old_end, new_begin, new_end in self._gaps:
            add(done, done + shift, old_begin - done)  # equal up to the gap
            if old_begin < old_end and new_begin < new_end:
                within = SequenceMatcher(None, self._old[old_begin:old_end], self._new[new_begin:new_end])
                for block in within.get_matching_blocks():
                    add(old_begin + block.a, new_begin + block.b, block.size)
            done, shift = old_end, new_end - old_end
        add(done, done + shift, len(self._old) - done)
        return [*runs, Match(len(self._old), len(self._new), 0)]


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of the lines that both sides have once, as many as are in one order on both."""
    once = {line for line, number in Counter(old).items() if number == 1}
    once &= {line for line, number in Counter(new).items() if number == 1}
    positions = {line: index for index, line in enumerate(new) if line in once}
    ends: list[int] = []  # of the ascending sequences of each length, the least last position in `new`
    last: list[int] = []  # and its pair
    pairs: list[tuple[int, int, int]] = []  # old, new, the pair before in the sequence
    for index, line in enumerate(old):
        if line in once:
            position = positions[line]
            length = bisect(ends, position)
            ends[length : length + 1] = [position]
            last[length : length + 1] = [len(pairs)]
            pairs.append((index, position, last[length - 1] if length else -1))
    anchors: list[tuple[int, int]] = []
    pair = last[-1] if last else -1
    while pair >= 0:
        old_at, new_at, pair = pairs[pair]
        anchors.append((old_at, new_at))
    return anchors[::-1]


def _range(begin: int, end: int) -> str:
    """Return the lines from ``begin`` to before ``end`` as a hunk names them."""
    number = end - begin
    return f"{begin + 1}" if number == 1 else f"{begin + 1 if number else begin},{number}"


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
