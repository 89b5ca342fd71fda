"""Rules about AWS principals of a lake behind the HTTP API. For admins."""

from collections.abc import Sequence

from msgspec import Struct

from graveler.access.permissions import Role
from graveler.access.principal_rules import PrincipalRule
from graveler.remote.connection import Connection
from graveler.remote.reading import PAGE
from graveler.wire.documents import Pagination

_RULES = ("auth", "principals")


class _Rule(Struct, frozen=True):
    id: str
    principal: str
    name: str
    role: Role
    repositories: tuple[str, ...]
    branches: tuple[str, ...]
    created: int

    def value(self) -> PrincipalRule:
        """Return it as the lake's own value."""
        return PrincipalRule(
            self.id, self.principal, self.name, self.role, self.repositories, self.branches, self.created
        )


class _Page(Struct, frozen=True):
    pagination: Pagination
    results: list[_Rule]


class RemotePrincipals:
    """The principal rules of a lake, with the rule verbs of :class:`graveler.access.authentication.Access`. Each is one request
    unless stated otherwise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create_rule(
        self,
        principal: str,
        name: str,
        role: Role,
        repositories: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> PrincipalRule:
        """Admit the AWS principals that match a pattern. :class:`InvalidError` for an unusable name or pattern;
        :class:`ConflictError` if the pattern already has a rule."""
        document = {
            "principal": principal,
            "name": name,
            "role": role.value,
            "repositories": list(repositories),
            "branches": list(branches),
        }
        return self._connection.call("POST", _RULES, None, document).read(_Rule).value()

    def rules(self) -> list[PrincipalRule]:
        """Return the rules, by ID. Cost: one request per thousand."""
        found: list[PrincipalRule] = []
        after: str | None = ""
        while after is not None:
            page = self._connection.get(_RULES, _Page, {"after": after, "amount": PAGE})
            found += [rule.value() for rule in page.results]
            after = page.pagination.next_after
        return found

    def rule(self, rule_id: str) -> PrincipalRule:
        """Return one rule. :class:`NotFoundError`."""
        return self._connection.get((*_RULES, rule_id), _Rule).value()

    def remove_rule(self, rule_id: str) -> None:
        """Remove a rule and invalidate its tokens. :class:`NotFoundError`."""
        self._connection.call("DELETE", (*_RULES, rule_id))
