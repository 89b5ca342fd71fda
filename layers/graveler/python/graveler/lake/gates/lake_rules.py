"""Rules of a lake, for repositories whose names match their patterns.

They are one item of the table, ``lake-rules`` / ``rules`` (not in the partition of secrets, ``lake``): attributes ``version``,
which each change raises, ``rules`` (JSON), and ``copied``, the version that all repositories have. The item of each matching
repository has a copy (:attr:`Rule.of_lake`), so that no verb reads more. A repository that is created has the condition that this
item has the version that was read, in the transaction that creates it; a change lists the repositories afterwards. So each has
the copies when the change returns. A copy is written on the same condition, so an older one never replaces a newer one.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from graveler.errors import UNREADABLE, CorruptError, InvalidError, PreconditionError
from graveler.lake.gates.judgement import matches
from graveler.lake.gates.rule_validation import check_rules
from graveler.model import LakeRule, LakeRules, Rule
from graveler.storage.tables.port import Absent, Check, ConditionFailedError, Item, Key, Matches, Tables

LAKE_RULES: Final = Key("lake-rules", b"rules")

_NOT_IN_REPOSITORIES: Final = re.compile(r"[^a-z0-9*?\[\]!-]")
_MOST_PATTERNS: Final = 50

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(tuple[LakeRule, ...]).decode


def read_lake_rules(tables: Tables) -> LakeRules:
    """Return the rules of the lake. One table read. :class:`CorruptError`."""
    return decode_lake_rules(tables.get(LAKE_RULES))


def decode_lake_rules(item: Item | None) -> LakeRules:
    """Return the rules in the item at :data:`LAKE_RULES`; none without an item. No request. :class:`CorruptError`."""
    if item is None:
        return LakeRules()
    version, text = item.get("version"), item.get("rules")
    try:
        if not (isinstance(version, int) and isinstance(text, str)):
            raise msgspec.ValidationError("an attribute is missing")
        return LakeRules(version, _decode(text), in_force=item.get("copied") == version)
    except UNREADABLE as error:
        raise CorruptError(f"the rules of the lake cannot be read: {error}") from None


def unchanged_check(rules: LakeRules) -> Check:
    """Return the part of a transaction that makes it fail unless the lake has these rules."""
    return Check(LAKE_RULES, Matches({"version": rules.version}) if rules.version else Absent())


def rules_for(rules: Sequence[LakeRule], repository: str) -> tuple[Rule, ...]:
    """Return the copies of the lake's rules that a repository of this name has."""
    return tuple(
        Rule(**{**{name: value for name, value in asdict(rule).items() if name != "repositories"}, "of_lake": True})
        for rule in rules
        if matches(repository, rule.repositories)
    )


def with_lake_rules(rules: Sequence[Rule], copies: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return a repository's rules with other copies of the lake's: these first, then its own."""
    return (*copies, *(rule for rule in rules if not rule.of_lake))


def write_lake_rules(tables: Tables, rules: Sequence[LakeRule], if_match: int | None) -> LakeRules:
    """Replace the rules of the lake, but not yet their copies. One table read, one write; no write if nothing changes.
    :class:`PreconditionError` if they have another version than ``if_match``, and after losing a race; :class:`InvalidError`."""
    checked = check_lake_rules(rules)
    present = read_lake_rules(tables)
    if present.rules == checked:
        return present
    if if_match is not None and present.version != if_match:
        raise _changed(f"they have version {present.version}, and not {if_match}")
    changed = LakeRules(present.version + 1, checked, in_force=False)
    try:
        tables.put(LAKE_RULES, _item(changed), unchanged_check(present).condition)
    except ConditionFailedError:
        if read_lake_rules(tables) != changed:  # else only the answer was lost
            raise _changed("at this moment") from None
    return changed


def note_copied(tables: Tables, rules: LakeRules) -> bool:
    """Note that all repositories have these rules; return False if the lake has others by now. One table write."""
    try:
        tables.put(LAKE_RULES, {**_item(rules), "copied": rules.version}, unchanged_check(rules).condition)
    except ConditionFailedError:
        return False
    return True


def _item(rules: LakeRules) -> Item:
    return {"version": rules.version, "rules": _encode(rules.rules).decode()}


def check_lake_rules(rules: Sequence[LakeRule]) -> tuple[LakeRule, ...]:
    """Return rules as they will be stored. No request. :class:`InvalidError` for one that cannot be."""
    try:
        checked = msgspec.convert(msgspec.to_builtins(rules), tuple[LakeRule, ...])
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        raise InvalidError(f"the rules cannot be stored: {error}") from None
    everywhere = [replace(rule, repositories=("*",)) for rule in checked]
    check_rules(rules_for(everywhere, "any"))
    for rule in checked:
        if rule.of_lake:
            raise InvalidError(f"rule {rule.name!r} says that it is of the lake; omit of_lake, which only copies have")
        if not 1 <= len(rule.repositories) <= _MOST_PATTERNS:
            raise InvalidError(
                f"rule {rule.name!r} has {len(rule.repositories)} patterns of repositories; give it 1 to {_MOST_PATTERNS}, such "
                "as '*'"
            )
        for pattern in rule.repositories:
            if not pattern or _NOT_IN_REPOSITORIES.search(pattern):
                raise InvalidError(
                    f"pattern {pattern[:80]!r} in rule {rule.name!r} matches no repository: their names have lower-case letters, "
                    "digits and '-'; the wildcards are '*', '?' and '[…]'"
                )
    return checked


def _changed(how: str) -> PreconditionError:
    return PreconditionError(f"the rules of the lake were changed by someone else: {how}; read them again")
