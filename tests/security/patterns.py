"""Regular expressions whose matching time may grow faster than the text.

Python's matcher tries one way after the other. It takes the square of the length, or more, where two repetitions without a small
bound stand behind each other, or in each other, and may share out the same characters. ``regexploit`` looks for that too, but for
expressions as an attacker's: it misses such a pair at a pattern's end, as that of a ``Range`` header.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final, TypeAlias

op: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

BOUND: Final = 64
"""Repetitions up to this many cost little, however they are shared out."""

_ALPHABET: Final = "".join(map(chr, range(256))) + "\u0130\u0661\u2003\U0001f600"

Chars: TypeAlias = frozenset[str]
Nodes: TypeAlias = Iterable[tuple[Any, Any]]


def shared(pattern: re.Pattern[Any]) -> list[str]:
    """The repetitions of a pattern that may share out the same characters, in words; none if it takes linear time."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & ~(re.UNICODE if isinstance(pattern.pattern, bytes) else 0)
    return list(_troubles(parser.parse(source, flags), flags))


def _troubles(nodes: Nodes, flags: int) -> Iterator[str]:
    open_before: list[Chars] = []
    for kind, value in nodes:
        for below in _inside(kind, value):
            yield from _troubles(below, flags)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and _is_long(value[1]):
            chars = _chars(value[2], flags)
            for before in open_before:
                if before & chars:
                    yield f"two repetitions share {''.join(sorted(before & chars))[:10]!r}"
            if any(_is_long(inner[1]) for inner in _repeats(value[2])):
                yield f"a repetition of repetitions of {''.join(sorted(chars))[:10]!r}"
            open_before.append(chars)
        elif not _may_be_empty(kind, value):
            # What must stand between two repetitions separates them, unless the first may take it for its own.
            needed = _chars([(kind, value)], flags)
            open_before = [before for before in open_before if before & needed]
        else:
            open_before += [_chars(inner[2], flags) for inner in _repeats([(kind, value)]) if _is_long(inner[1])]


def _is_long(most: Any) -> bool:
    return bool(most is op.MAXREPEAT or most > BOUND)


def _inside(kind: Any, value: Any) -> Iterator[Nodes]:
    """The sequences that a node has."""
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        yield value[2]
    elif kind is op.SUBPATTERN:
        yield value[3]
    elif kind is op.BRANCH:
        yield from value[1]
    elif kind in (op.ASSERT, op.ASSERT_NOT):
        yield value[1]
    elif kind is op.ATOMIC_GROUP:
        yield value


def _repeats(nodes: Nodes) -> Iterator[Any]:
    for kind, value in nodes:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            yield value
        for below in _inside(kind, value):
            yield from _repeats(below)


def _may_be_empty(kind: Any, value: Any) -> bool:
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return bool(value[0] == 0) or all(_may_be_empty(*node) for node in value[2])
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return True
    if kind is op.SUBPATTERN:
        return all(_may_be_empty(*node) for node in value[3])
    if kind is op.BRANCH:
        return any(all(_may_be_empty(*node) for node in branch) for branch in value[1])
    return False


def _chars(nodes: Nodes, flags: int) -> Chars:
    """All characters that may stand somewhere in what these match."""
    found: set[str] = set()
    for kind, value in nodes:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            found.update(char for char in _ALPHABET if _matches(kind, value, char, flags))
        for below in _inside(kind, value):
            found |= _chars(below, flags)
    return frozenset(found)


def _matches(kind: Any, value: Any, char: str, flags: int) -> bool:
    if flags & re.IGNORECASE and char.swapcase() != char and len(char.swapcase()) == 1:
        return _is(kind, value, char, flags) or _is(kind, value, char.swapcase(), flags)
    return _is(kind, value, char, flags)


def _is(kind: Any, value: Any, char: str, flags: int) -> bool:
    if kind is op.ANY:
        return char != "\n" or bool(flags & re.DOTALL)
    if kind is op.LITERAL:
        return bool(ord(char) == value)
    if kind is op.NOT_LITERAL:
        return bool(ord(char) != value)
    negated = value[0][0] is op.NEGATE
    among = any(_is_among(item, char, flags) for item in value[negated:])
    return among is not bool(negated)


def _is_among(item: Any, char: str, flags: int) -> bool:
    kind, value = item
    if kind is op.LITERAL:
        return bool(ord(char) == value)
    if kind is op.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    spelled = {
        op.CATEGORY_DIGIT: r"\d",
        op.CATEGORY_NOT_DIGIT: r"\D",
        op.CATEGORY_SPACE: r"\s",
        op.CATEGORY_NOT_SPACE: r"\S",
        op.CATEGORY_WORD: r"\w",
        op.CATEGORY_NOT_WORD: r"\W",
    }[value]
    return re.match(spelled, char, flags & re.ASCII) is not None
