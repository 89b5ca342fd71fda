"""Rules about AWS principals: which may log in with AWS's credentials instead of a key, as whom, and for what.

A rule is an item of the table: partition ``access-principals``, sorted by an ID. IDs are random and begin with ``aws:``, which no
access key's does, so that the ID of a removed rule never returns: tokens issued by it stay invalid. Of several rules that match,
the most exact one counts: the one whose pattern has the most characters besides wildcards, and of those the oldest.
"""

import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct

from graveler.access.aws_principals import AwsPrincipal, literals, matches, principal_pattern
from graveler.access.keys import check_rights
from graveler.access.permissions import Identity, Role
from graveler.access.refusals import PrincipalRuleNotFoundError
from graveler.errors import AlreadyExistsError, CorruptError, InvalidError
from graveler.storage.secrets.credential_ends import end_write
from graveler.storage.tables.port import Absent, ConditionFailedError, Delete, Item, Key, Tables, Value
from graveler.storage.tables.walking import items

MAX_RULES: Final = 1000
"""Maximum number of rules per lake: each login reads them all."""
PREFIX: Final = "aws:"

_PARTITION: Final = "access-principals"
_ID: Final = re.compile(r"aws:[0-9a-f]{16}")
_NAMED: Final = re.compile(r"\{([^{}]*)\}")
_WORDS: Final = ("principal", "session")


class PrincipalRule(Struct, frozen=True):
    """A rule that gives AWS principals matching ``principal``, a pattern of ARNs, this ``role`` within these patterns. They
    commit under ``name``, in which ``{principal}`` and ``{session}`` stand for the name of the role or user, and of the role's
    session. A checker posts the ``statuses`` whose names match. ``created`` is in Unix seconds."""

    rule_id: str
    principal: str
    name: str
    role: Role
    repositories: tuple[str, ...]
    branches: tuple[str, ...]
    created: int
    statuses: tuple[str, ...] = ()

    def name_of(self, principal: AwsPrincipal) -> str:
        """Return the name under which a principal commits."""
        words = {"principal": principal.name, "session": principal.session or principal.name}
        return _NAMED.sub(lambda match: words[match[1]], self.name)

    def identity(self, name: str, principal: str) -> Identity:
        """Return the identity of a caller that logged in by this rule and commits under ``name``. ``principal`` is the name of
        the role or user."""
        return Identity(
            self.rule_id,
            name,
            self.role,
            self.repositories,
            self.branches,
            statuses=self.statuses,
            principal=f"{self.rule_id}/{principal}",
        )


class PrincipalRules:
    """The rules of one lake."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def create(
        self,
        principal: str,
        name: str,
        role: Role,
        repositories: Sequence[str],
        branches: Sequence[str],
        statuses: Sequence[str] = (),
        *,
        now: float,
    ) -> PrincipalRule:
        """Make a rule. One table read, one write. :class:`InvalidError` for an unusable name or pattern, or too many rules;
        :class:`AlreadyExistsError` if a rule with the same pattern exists."""
        pattern = principal_pattern(principal)
        check_rights(name, role, repositories, branches, statuses)
        for word in _NAMED.findall(name):
            if word not in _WORDS:
                raise InvalidError(f"name {name[:256]!r}: {{{word}}} is unknown; use {{principal}} and {{session}}")
        rules = self.all()
        if any(rule.principal == pattern for rule in rules):
            raise AlreadyExistsError("rule for AWS principal", pattern, "remove it first")
        if len(rules) >= MAX_RULES:
            raise InvalidError(f"a lake has at most {MAX_RULES:,} rules for AWS principals; use broader patterns")
        rule_id = f"{PREFIX}{token_hex(8)}"
        rule = PrincipalRule(
            rule_id, pattern, name, role, tuple(repositories), tuple(branches), int(now), tuple(statuses)
        )
        item = _encode(rule)
        try:
            self._tables.put(_address(rule_id), item, Absent())
        except ConditionFailedError as error:
            if error.failures.get(0) != item:  # otherwise a repeated write has found itself
                raise
        return rule

    def all(self) -> list[PrincipalRule]:
        """Return all rules, the most exact ones first. One table read for each megabyte of them."""
        rules = [
            _decode(sort.decode(errors="backslashreplace"), item) for sort, item in items(self._tables, _PARTITION)
        ]
        return sorted(rules, key=lambda rule: (-literals(rule.principal), rule.created, rule.rule_id))

    def get(self, rule_id: str) -> PrincipalRule:
        """Return one rule. One table read. :class:`PrincipalRuleNotFoundError`."""
        return _rule_in(rule_id, self._tables.get(_known_address(rule_id)))

    def get_with(self, rule_id: str, *keys: Key) -> tuple[PrincipalRule, list[Item | None]]:
        """Return a rule and the items under other ``keys`` of the table, from one table read.
        :class:`PrincipalRuleNotFoundError`."""
        item, *items = self._tables.get_many([_known_address(rule_id), *keys])
        return _rule_in(rule_id, item), items

    def remove(self, rule_id: str, *, now: float) -> PrincipalRule:
        """Remove a rule, and end what was said by it; return its last state. One table read, one transaction.
        :class:`PrincipalRuleNotFoundError`."""
        rule = self.get(rule_id)
        self._tables.transact([Delete(_address(rule_id)), end_write(rule_id, now)])
        return rule


def rule_for(rules: Sequence[PrincipalRule], arn: str) -> PrincipalRule | None:
    """Return the first of the rules, in the order of :meth:`PrincipalRules.all`, that matches a principal."""
    return next((rule for rule in rules if matches(rule.principal, arn)), None)


def is_rule(holder: str) -> bool:
    """Return whether this is the ID of a rule, and not of an access key."""
    return holder.startswith(PREFIX)


def _address(rule_id: str) -> Key:
    return Key(_PARTITION, rule_id.encode())


def _known_address(rule_id: str) -> Key:
    """Return the address of a rule's item; for an impossible ID, that of a missing one."""
    return _address(rule_id if _ID.fullmatch(rule_id) else "-")


def _encode(rule: PrincipalRule) -> dict[str, Value]:
    fields = msgspec.structs.asdict(rule)
    del fields["rule_id"], fields["statuses"]
    statuses: Mapping[str, Value] = {"statuses": list(rule.statuses)} if rule.statuses else {}
    lists = {"repositories": list(rule.repositories), "branches": list(rule.branches), **statuses}
    return {**fields, **lists, "role": rule.role.value}


def _rule_in(rule_id: str, item: Item | None) -> PrincipalRule:
    if item is None:
        raise PrincipalRuleNotFoundError(rule_id)
    return _decode(rule_id, item)


def _decode(rule_id: str, item: Item) -> PrincipalRule:
    """Return the rule in an item. :class:`CorruptError` for a malformed one."""
    try:
        return msgspec.convert({"rule_id": rule_id, **item}, PrincipalRule)
    except msgspec.ValidationError as error:
        raise CorruptError(
            f"rule {rule_id!r} for AWS principals cannot be read ({error}); restore the table from a copy"
        ) from None
