"""The rules for names of repositories, branches and tags.

A name is checked where it enters; everything behind relies on it. Each function returns the name as it is, or raises
:class:`graveler.errors.InvalidError` with the rule that is broken and the value that breaks it.
"""

from typing import Final

from graveler.errors import InvalidError

MAX_REF_BYTES: Final = 255
"""Longest name of a branch or tag, in bytes of UTF-8."""

_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") | _LOWER
_DASH: Final = frozenset("-")
_WORD_OR_DASH: Final = _WORD | _DASH
_FORBIDDEN: Final = frozenset(" ~^:?*[\\\x7f") | frozenset(map(chr, range(32)))


def check_repository(name: str) -> str:
    """Check a repository's name: 3 to 63 lower-case letters, digits and ``-``, the first not ``-``."""
    if not 3 <= len(name) <= 63:
        raise _refused("repository", name, f"it has {len(name)} characters; 3 to 63 are allowed")
    if name[0] == "-":
        raise _refused("repository", name, "it must start with a lower-case letter or a digit")
    for character in name:
        if character not in _LOWER and character != "-":
            raise _refused("repository", name, f"{character!r} is not one of a-z, 0-9 and '-'")
    return name


def check_branch(name: str) -> str:
    """Check a branch's name: 1 to 255 of ``A-Z a-z 0-9 _ -``, the first not ``-``."""
    if not name:
        raise _refused("branch", name, "it is empty")
    if name[0] == "-":
        raise _refused("branch", name, "it must start with a letter, a digit or '_'")
    for character in name:
        if character not in _WORD and character != "-":
            raise _refused("branch", name, f"{character!r} is not one of A-Z, a-z, 0-9, '_' and '-'")
    if len(name) > MAX_REF_BYTES:
        raise _refused("branch", name, f"it has {len(name)} bytes; at most {MAX_REF_BYTES} are allowed")
    return name


def is_branch(name: str) -> bool:
    """Return whether this is a valid branch name."""
    return 0 < len(name) <= MAX_REF_BYTES and name[0] != "-" and _WORD_OR_DASH.issuperset(name)


def check_tag(name: str) -> str:
    """Check a tag's name: as ``git check-ref-format`` allows, at most 255 bytes of UTF-8.

    Two rules are added: no ``-`` at the beginning (git's own rule for tags; it would read as an option), and no ``@`` at the end
    (it would read as "the branch without its uncommitted changes", so no expression could name the tag).
    """
    broken = broken_tag_rule(name)
    if broken is not None:
        raise _refused("tag", name, broken)
    return name


def broken_tag_rule(name: str) -> str | None:
    """Return the first rule that ``name`` breaks as a tag's name, in words; None if it breaks none."""
    if not name:
        return "it is empty"
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        return f"{name[error.start]!r} cannot be written as UTF-8"
    if size > MAX_REF_BYTES:
        return f"it has {size} bytes; at most {MAX_REF_BYTES} are allowed"
    for character in name:
        if character in _FORBIDDEN:
            return f"{character!r} is not allowed (nor are white space, control characters and any of ~ ^ : ? * [ \\)"
    for bad in ("..", "@{", "//"):
        if bad in name:
            return f"{bad!r} is not allowed in a name"
    for bad in ("-", "/"):
        if name.startswith(bad):
            return f"it must not start with {bad!r}"
    for bad in ("/", ".", "@"):
        if name.endswith(bad):
            return f"it must not end with {bad!r}"
    for part in name.split("/"):
        if part.startswith("."):
            return f"its part {part!r} must not start with '.'"
        if part.endswith(".lock"):
            return f"its part {part!r} must not end with '.lock'"
    return None


def _refused(kind: str, name: str, reason: str) -> InvalidError:
    shown = repr(name) if len(name) <= 80 else f"{name[:80]!r}…"
    return InvalidError(f"{shown} is not a valid {kind} name: {reason}")
