"""Validation of rules when they are set: those that nobody could fulfil, and those that would guard nothing, are refused."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from graveler.errors import InvalidError
from graveler.history.names import MAX_REF_BYTES
from graveler.lake.gates.statuses import MAX_NAME_BYTES
from graveler.lake.text import utf8
from graveler.model import RequiredApprovals, RequiredStatus, Rule
from graveler.tree.record import MAX_KEY_BYTES

MAX_RULES: Final = 50
"""Maximum number of rules of a repository, with those of the lake that apply to it."""
MAX_STATUSES: Final = 20
"""Maximum number of statuses that a rule needs."""
MAX_BYTES: Final = 32 << 10
"""Maximum size of all rules of a repository as JSON: they lie in its item, which every verb reads."""
MAX_HOLD: Final = 1_800
"""Maximum number of seconds for which a candidate may keep a branch's turn."""
MAX_APPROVALS: Final = 20

_MAX_PATTERNS: Final = 50
_MAX_PRINCIPAL_BYTES: Final = 500
_MAX_REASON_BYTES: Final = 1_000
_SET: Final = re.compile(r"\[!?\]?[^\]]*\]")
"""A set of characters in a pattern, as :mod:`fnmatch` reads it."""
_NOT_IN_BRANCHES: Final = re.compile(r"[^A-Za-z0-9_*?-]")
_NOT_IN_TAGS: Final = re.compile(r"[\x00-\x20\x7f~^:\\\[]")
_WILDCARDS: Final = re.compile(r"[*?\[]")

_encode = msgspec.json.Encoder(order="deterministic").encode


def check_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules as they will be stored: all rules of a repository, those of the lake among them. No request.
    :class:`InvalidError` for one that cannot be."""
    try:
        converted = msgspec.convert(msgspec.to_builtins(rules), tuple[Rule, ...])
        size = len(_encode(converted))
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        raise InvalidError(f"the rules cannot be stored: {error}") from None
    if len(converted) > MAX_RULES:
        raise InvalidError(
            f"{len(converted)} rules are too many; a repository has at most {MAX_RULES}, those of the lake included"
        )
    for index, rule in enumerate(converted):
        _check_text("the name", rule.name, MAX_NAME_BYTES, f"rule {index + 1}")
        if any((rule.name, rule.of_lake) == (other.name, other.of_lake) for other in converted[:index]):
            raise InvalidError(f"two rules have the name {rule.name!r}; give each its own")
        _check_rule(rule)
    _check_names(converted)
    if size > MAX_BYTES:
        raise InvalidError(f"the rules have {size:,} bytes as JSON; a repository may have {MAX_BYTES:,}")
    return converted


def _check_rule(rule: Rule) -> None:
    if not rule.branches and not rule.tags:
        _refuse(rule, "it matches no branch and no tag, so it guards nothing; give it patterns")
    _check_patterns(rule, "branch", rule.branches, _NOT_IN_BRANCHES)
    _check_patterns(rule, "tag", rule.tags, _NOT_IN_TAGS)
    if rule.tags and (rule.approvals or rule.pull_requests_only):
        _refuse(rule, "no pull request makes a tag, so nobody could make one; give its branches a rule of their own")
    if len(rule.statuses) > MAX_STATUSES:
        _refuse(rule, f"it needs {len(rule.statuses)} statuses; at most {MAX_STATUSES} are allowed")
    for index, required in enumerate(rule.statuses):
        _check_status(rule, required)
        if any(required.name == other.name for other in rule.statuses[:index]):
            _refuse(rule, f"it needs status {required.name!r} twice")
    for approvals in rule.approvals:
        _check_approvals(rule, approvals)
    if rule.strategies is not None and not rule.strategies:
        _refuse(rule, "it allows no merge strategy, so nobody could merge; omit the list to allow all")
    if rule.frozen:
        _check_text("the reason why it is frozen", rule.frozen, _MAX_REASON_BYTES, f"rule {rule.name!r}")
    _check_principals(rule, "bypass", rule.bypass)
    _check_principals(rule, "rollback", rule.rollback)
    if not 1 <= rule.hold <= MAX_HOLD:
        _refuse(rule, f"it holds a branch for {rule.hold} seconds; 1 to {MAX_HOLD:,} are allowed")


def _check_status(rule: Rule, required: RequiredStatus) -> None:
    _check_text("the name of a status", required.name, MAX_NAME_BYTES, f"rule {rule.name!r}")
    if required.check is None and not required.posters:
        _refuse(
            rule,
            f"nobody could post status {required.name!r}; name its posters, or define a check that graveler runs",
        )
    _check_principals(rule, f"posters of status {required.name!r}", required.posters)
    _check_paths(rule, required.paths)
    if required.check is not None:
        # Only where a rule names a check.
        from graveler.lake.gates.checks.definitions import ANSWERED_LATER
        from graveler.lake.gates.checks.run import check_definition

        if required.posters and required.check.get("kind") not in ANSWERED_LATER:
            _refuse(rule, f"graveler itself posts status {required.name!r}, whose check it runs; omit the posters")

        try:
            check_definition(required.check)
        except InvalidError as error:
            _refuse(rule, f"check {required.name!r}: {error}")


def _check_approvals(rule: Rule, required: RequiredApprovals) -> None:
    if not 1 <= required.number <= MAX_APPROVALS:
        _refuse(rule, f"it needs {required.number} approvals; 1 to {MAX_APPROVALS} can be asked for")
    _check_principals(rule, "approvals", required.by)
    _check_paths(rule, required.paths)
    people = set(required.by)
    if people and len(people) < required.number and not any(map(_WILDCARDS.search, people)):
        named = ", ".join(sorted(people))
        _refuse(rule, f"it needs {required.number} approvals, and only {named} can give them; name more people")


def _check_names(rules: Iterable[Rule]) -> None:
    """Check that each status has one meaning in all rules: posters, or one check."""
    definitions: dict[str, tuple[Rule, Mapping[str, Any] | None]] = {}
    for rule in rules:
        for required in rule.statuses:
            other, definition = definitions.setdefault(required.name, (rule, required.check))
            if definition != required.check:
                _refuse(
                    rule,
                    f"status {required.name!r} is another one than in rule {other.name!r}; two checks, or a check and a status "
                    "that others post, need two names",
                )


def _check_patterns(rule: Rule, kind: str, patterns: Sequence[str], forbidden: re.Pattern[str]) -> None:
    if len(patterns) > _MAX_PATTERNS:
        _refuse(rule, f"it has {len(patterns)} patterns of {kind} names; at most {_MAX_PATTERNS} are allowed")
    for pattern in patterns:
        _check_text(f"a pattern of {kind} names", pattern, MAX_REF_BYTES, f"rule {rule.name!r}")
        strange = forbidden.search(_SET.sub("", pattern))
        if strange:
            _refuse(
                rule,
                f"pattern {pattern!r} matches no {kind}, since no {kind}'s name has {strange[0]!r}; the wildcards are '*', '?' "
                "and '[…]'",
            )


def _check_principals(rule: Rule, purpose: str, patterns: Sequence[str]) -> None:
    if len(patterns) > _MAX_PATTERNS:
        _refuse(rule, f"it has {len(patterns)} patterns of principals ({purpose}); at most {_MAX_PATTERNS} are allowed")
    for pattern in patterns:
        _check_text(f"a pattern of principals ({purpose})", pattern, _MAX_PRINCIPAL_BYTES, f"rule {rule.name!r}")


def _check_paths(rule: Rule, paths: Sequence[str]) -> None:
    if len(paths) > _MAX_PATTERNS:
        _refuse(rule, f"it names {len(paths)} paths; at most {_MAX_PATTERNS} are allowed")
    for path in paths:
        size = len(utf8("path", path))
        if not path:
            _refuse(rule, "a path is empty; omit the paths if all count")
        if size > MAX_KEY_BYTES:
            _refuse(rule, f"path {path[:40]!r}… has {size:,} bytes; at most {MAX_KEY_BYTES:,} are allowed")
        if path.endswith("*") or path.startswith("/"):
            _refuse(
                rule,
                f"path {path!r} is a prefix, as 'tables/orders/': without wildcards, and without a slash before it",
            )


def _check_text(kind: str, text: str, most: int, rule: str) -> None:
    """Check that a text has 1 to ``most`` bytes and is printable, without spaces around it."""
    size = len(utf8(kind, text))
    if not 0 < size <= most or not text.isprintable() or text != text.strip():
        raise InvalidError(
            f"{kind} in {rule} is {text[:80]!r}; it must be 1 to {most:,} bytes of printable text without spaces around it"
        )


def _refuse(rule: Rule, reason: str) -> NoReturn:
    raise InvalidError(f"rule {rule.name!r} was refused: {reason}")
