"""Files of a folder that are left out: those that ``.gravelerignore`` files or patterns of the caller name, and a few by
default.

The patterns are those of ``.gitignore`` (https://git-scm.com/docs/gitignore), and mean the same: ``.gravelerignore`` counts in
its folder and below, a deeper file before one above it, and a later line before an earlier one; ``!`` takes again what an
earlier pattern leaves out, but nothing in a folder that is left out. Patterns of the caller stand for the last lines,
:data:`DEFAULTS` for the first ones. A test compares the rules with Git's own. There are libraries for such patterns; but the
engine that needs them is also the Lambda layer, in which each dependency costs room and start.

A walk asks :class:`FolderRules` of each folder; :class:`IgnoreRules` answers for paths in any order.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

IGNORE_FILE: Final = ".gravelerignore"
"""The file with patterns. It is left out itself."""

DEFAULTS: Final = (
    # the folders of version control
    ".git",
    ".hg",
    ".svn",
    ".bzr",
    ".jj",
    # secrets
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    ".netrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".lakectl.yaml",
    ".aws/",
    ".ssh/",
    ".gnupg/",
    # what programs leave in folders
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    ".ipynb_checkpoints/",
    "__pycache__/",
)
"""Patterns of what is never data: it is left out with a notice, unless a pattern with ``!`` takes it."""

_NAMED: Final = 1000

_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_NEVER: Final = "(?!)"
_STAR: Final = "[^/]*"
_FOLDERS: Final = "(?:.*/)?"
_REST: Final = ".*"
_LAZY: Final = {"": "", _FOLDERS: "(?:.*?/)??", _REST: ".*?"}
"""The forms of the wildcards that cross folders where the first match is the only one to try."""


class Reason(Enum):
    """The reason to leave a file or a folder out: a pattern of a file or the caller, a default, or that it has the patterns."""

    PATTERN = 1
    DEFAULT = 2
    IS_IGNORE_FILE = 3


class LeftOutFiles:
    """Counts of files left out of a walk: the number of files and folders that patterns named (``by_pattern``), and those left
    out by default (``by_default``), of which ``paths`` has the first thousand; that of a folder ends with a slash. A folder
    counts as one."""

    __slots__ = ("by_default", "by_pattern", "paths")

    def __init__(self) -> None:
        self.by_pattern = 0
        self.by_default = 0
        self.paths: list[str] = []

    def add(self, reason: Reason, path: str) -> None:
        """Count a path."""
        if reason is Reason.PATTERN:
            self.by_pattern += 1
        elif reason is Reason.DEFAULT:
            self.by_default += 1
            if len(self.paths) < _NAMED:
                self.paths.append(path)


class _Pattern(NamedTuple):
    """A line. One ``by_name`` is compared with names, any other with paths from the folder of its file."""

    matches: Callable[[str], object]
    is_negated: bool
    only_folders: bool
    by_name: bool


class _Level(NamedTuple):
    """The patterns of one file, the last one first. Its folder's path is ``base`` characters long."""

    patterns: tuple[_Pattern, ...]
    any_name: Callable[[str], object] | None
    any_path: Callable[[str], object] | None
    base: int
    reason: Reason

    def decide(self, path: str, name: str, *, is_folder: bool) -> Reason | bool:
        """Return the reason to leave an entry out; True if a pattern takes it; False if none is about it."""
        below = path[self.base :]
        if not (
            (self.any_name is not None and self.any_name(name)) or (self.any_path is not None and self.any_path(below))
        ):
            return False
        for pattern in self.patterns:
            if (is_folder or not pattern.only_folders) and pattern.matches(name if pattern.by_name else below):
                return True if pattern.is_negated else self.reason
        return False


class FolderRules(NamedTuple):
    """The rules for the entries of one folder; ``path`` is that of the folder from the root of the walk, empty or with a slash at
    its end. Without ``levels``, nothing is left out."""

    path: str
    levels: tuple[_Level, ...]
    fixed: int
    """The number of levels that come before those of files."""
    is_reading: bool
    """Whether files of patterns count."""

    @classmethod
    def of(cls, exclude: Sequence[str] = (), *, ignore: bool = True) -> "FolderRules":
        """Return the rules of a walk's root, before its own file is read. With ``ignore`` off, only ``exclude`` counts."""
        level = _level(exclude, 0, Reason.PATTERN)
        levels = () if level is None else (level,)
        return cls("", (*levels, *(_default_levels() if ignore else ())), len(levels), ignore)

    def with_file(self, text: bytes) -> "FolderRules":
        """Return the rules together with those of the folder's own file."""
        level = _level(_lines(text), len(self.path), Reason.PATTERN)
        return (
            self
            if level is None
            else self._replace(levels=(*self.levels[: self.fixed], level, *self.levels[self.fixed :]))
        )

    def inside(self, name: str) -> "FolderRules":
        """Return the rules of a folder in this one, before its own file is read."""
        return self._replace(path=f"{self.path}{name}/")

    def reason(self, name: str, *, is_folder: bool) -> Reason | None:
        """Return why an entry of the folder is left out; None if it is taken. About 1 µs for each level."""
        path = self.path + name
        for level in self.levels:
            decision = level.decide(path, name, is_folder=is_folder)
            if decision is not False:
                return None if decision is True else decision
        return None


class IgnoreRules:
    """The rules of a tree, for paths in any order. ``read`` returns the bytes of a folder's file of patterns, by the folder's
    path (empty, or with a slash at its end), or None; it is called once for each folder. For one thread at a time."""

    def __init__(
        self, read: Callable[[str], bytes | None], exclude: Sequence[str] = (), *, ignore: bool = True
    ) -> None:
        self._read = read
        self._folders: dict[str, FolderRules | Reason] = {"": self._with_file(FolderRules.of(exclude, ignore=ignore))}

    def reason(self, path: str) -> Reason | None:
        """Return why the file of this path, or a folder above it, is left out; None if it is taken."""
        above, slash, name = path.rpartition("/")
        rules = self._of(above + slash)
        return rules if isinstance(rules, Reason) else rules.reason(name, is_folder=False)

    def _of(self, folder: str) -> FolderRules | Reason:
        rules = self._folders.get(folder)
        if rules is None:
            above, slash, name = folder[:-1].rpartition("/")
            outer = self._of(above + slash)
            if isinstance(outer, Reason):
                rules = outer
            else:
                reason = outer.reason(name, is_folder=True)
                rules = self._with_file(outer.inside(name)) if reason is None else reason
            self._folders[folder] = rules
        return rules

    def _with_file(self, rules: FolderRules) -> FolderRules:
        text = self._read(rules.path) if rules.is_reading else None
        return rules if text is None else rules.with_file(text)


def _lines(text: bytes) -> list[str]:
    return f"{text.decode('utf-8-sig', 'surrogateescape')}\n".replace("\r\n", "\n").split("\n")


def _level(lines: Sequence[str], base: int, reason: Reason) -> _Level | None:
    """Return the patterns of lines; None if there are none."""
    parsed = [pattern for line in lines if (pattern := _parse(line)) is not None]
    if not parsed:
        return None
    patterns = tuple(
        _Pattern(re.compile(regex, re.DOTALL).fullmatch, is_negated, only_folders, by_name)
        for regex, is_negated, only_folders, by_name in reversed(parsed)
    )
    names, paths = ([regex for regex, _, _, is_name in parsed if is_name is by_name] for by_name in (True, False))
    return _Level(patterns, _any(names), _any(paths), base, reason)


def _any(regexes: Sequence[str]) -> Callable[[str], object] | None:
    return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL).fullmatch if regexes else None


def _parse(line: str) -> tuple[str, bool, bool, bool] | None:
    """Return the regular expression of a line, and whether it is negated, about folders only, and about names; None for an empty
    line and a comment."""
    if line.startswith("#"):
        return None
    text = _without_spaces(line)
    is_negated = text.startswith("!")
    text = text[is_negated:]
    only_folders = text.endswith("/")
    text = text[:-1] if only_folders else text
    if not text and not only_folders:
        return None
    by_name = "/" not in text
    return _regex(text.removeprefix("/")), is_negated, only_folders, by_name


def _without_spaces(line: str) -> str:
    """Return a line without the spaces at its end, but for one behind a backslash."""
    end = len(line.rstrip(" "))
    backslashes = end - len(line[:end].rstrip("\\"))
    return line[: end + 1] if end < len(line) and backslashes % 2 else line[:end]


def _regex(pattern: str) -> str:
    """Return the regular expression of Git's ``wildmatch`` for a pattern; one that matches nothing for a pattern without an
    end."""
    parts: list[str] = []
    position, end = 0, len(pattern)
    while position < end:
        letter = pattern[position]
        if letter == "*":
            stars = position
            while position < end and pattern[position] == "*":
                position += 1
            is_whole = position - stars > 1 and (stars == 0 or pattern[stars - 1] == "/")
            if is_whole and position == end:
                parts.append(_REST)
            elif is_whole and pattern[position] == "/":
                parts.append(_FOLDERS)
                position += 1
            elif is_whole and pattern[position : position + 2] == "\\/":
                parts.append(_REST)
            else:
                parts.append(_STAR)
            continue
        if letter == "[":
            bracket = _set(pattern, position + 1)
            if bracket is None:
                return _NEVER
            text, position = bracket
            parts.append(text)
            continue
        is_escaped = letter == "\\"
        position += is_escaped
        if position == end:
            return _NEVER
        parts.append("[^/]" if letter == "?" else re.escape(pattern[position]))
        position += 1
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    """Return the parts as one expression that takes at most time in the square of a path's length.

    What stands between two wildcards of a kind has one length, or one number of folders. If its first match leads nowhere, no
    later one does, since the wildcard behind it takes what lies between. So it is tried no further (``(?>…)``); otherwise a
    pattern with ten stars, which a stranger may have written, keeps a process busy for ever.
    """
    spans: list[tuple[str, list[str]]] = [("", [])]
    for part in parts:
        if part in (_FOLDERS, _REST):
            spans.append((part, []))
        else:
            spans[-1][1].append(part)
    *before, (wildcard, last) = [(wildcard, _within_folders(span)) for wildcard, span in spans]
    return "".join(f"(?>{_LAZY[wildcard_before]}{span})" for wildcard_before, span in before) + wildcard + last


def _within_folders(parts: Sequence[str]) -> str:
    """Return parts whose only wildcards stay within folders as one expression, as :func:`_joined` does."""
    spans: list[list[str]] = [[]]
    for part in parts:
        if part == _STAR:
            spans.append([])
        else:
            spans[-1].append(part)
    head, *rest = map("".join, spans)
    if not rest:
        return head
    *before, last = rest
    return head + "".join(f"(?>[^/]*?{span})" for span in before) + _STAR + last


def _set(pattern: str, position: int) -> tuple[str, int] | None:
    """Return the regular expression of a set of letters that begins here, and where it ends; None for one without an end, or with
    an unknown class."""
    is_negated = pattern[position : position + 1] in ("!", "^")
    position += is_negated
    items: list[str] = []
    before = ""
    """The letter with which a range may begin."""
    is_start = True
    while is_start or pattern[position : position + 1] != "]":
        is_start = False
        letter = pattern[position : position + 1]
        if not letter:
            return None
        if letter == "-" and before and pattern[position + 1 : position + 2] not in ("", "]"):
            position += 1
            if pattern[position] == "\\":
                position += 1
            last = pattern[position : position + 1]
            if not last:
                return None
            if before <= last:
                items.append(f"{re.escape(before)}-{re.escape(last)}")
            before = ""
        elif letter == "[" and pattern[position + 1 : position + 2] == ":":
            close = pattern.find("]", position + 2)
            if close < 0:
                return None
            if close > position + 2 and pattern[close - 1] == ":":
                name = pattern[position + 2 : close - 1]
                if name not in _CLASSES:
                    return None
                items.append(_CLASSES[name])
                position, before = close, ""
            else:  # no class, but a bracket
                items.append(r"\[")
                before = "["
        else:
            if letter == "\\":
                position += 1
                letter = pattern[position : position + 1]
                if not letter:
                    return None
            items.append(re.escape(letter))
            before = letter
        position += 1
    if not items:
        return ("[^/]" if is_negated else _NEVER), position + 1
    return f"(?!/)[{'^' if is_negated else ''}{''.join(items)}]", position + 1


@cache
def _default_levels() -> tuple[_Level, ...]:
    levels = _level(DEFAULTS, 0, Reason.DEFAULT), _level([IGNORE_FILE], 0, Reason.IS_IGNORE_FILE)
    return tuple(level for level in levels if level is not None)
