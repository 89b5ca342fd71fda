"""Verdicts: what a check returns, in words that are bounded and without secrets."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from graveler.lake.gates.statuses import MAX_DESCRIPTION_BYTES
from graveler.model import StatusState
from graveler.text.readable import count, printable

MOST_WORDS: Final = MAX_DESCRIPTION_BYTES
"""Bytes of a verdict's words: all statuses of a tree are one item of the table."""
_CUT: Final = "…".encode()
SHOWN: Final = 10
"""Paths that a verdict names."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The state of a check with a reason in ``words``, and a URL that says more."""

    state: StatusState
    words: str = ""
    url: str = ""


PASSED: Final = Verdict(StatusState.SUCCESS)


def bounded(text: str) -> str:
    """Return text on printable lines, with its end cut off if it has more than :data:`MOST_WORDS` bytes."""
    lines = "\n".join(printable(line) for line in text[: MOST_WORDS + 1].strip().splitlines())
    data = lines.encode()
    if len(data) <= MOST_WORDS and len(text) <= MOST_WORDS:
        return lines
    return data[: MOST_WORDS - len(_CUT)].decode(errors="ignore") + _CUT.decode()


class Offences:
    """Objects that break a check: their number, and the first few with the reason for each."""

    def __init__(self, noun: str = "object") -> None:
        self._noun = noun
        self._shown: list[str] = []
        self.number = 0

    def add(self, path: str, reason: str = "") -> None:
        """Count an object."""
        self.number += 1
        if len(self._shown) < SHOWN:
            self._shown.append(f"{path!r}{f': {reason}' if reason else ''}")

    def extend(self, offences: Iterable[tuple[str, str]]) -> None:
        """Count objects, each with its reason."""
        for path, reason in offences:
            self.add(path, reason)

    def verdict(self, sentence: str) -> Verdict:
        """Return the verdict: passed without an object, else failed with how many objects did what the sentence says."""
        if not self.number:
            return PASSED
        more = f"; and {self.number - len(self._shown):,} more" if self.number > len(self._shown) else ""
        return Verdict(
            StatusState.FAILURE, f"{count(self.number, self._noun)} {sentence}: {'; '.join(self._shown)}{more}"
        )
