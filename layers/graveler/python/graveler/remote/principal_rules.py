"""Rules about AWS principals of a lake behind the HTTP API. For admins."""

from collections.abc import Sequence

from graveler.access.permissions import Role
from graveler.access.principal_rules import PrincipalRule
from graveler.remote.connection import Connection
from graveler.wire.access_documents import PrincipalRuleCreation, PrincipalRuleDocument, PrincipalRuleList
from graveler.wire.mapping import mapped

_RULES = ("auth", "principals")


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
        statuses: Sequence[str] = (),
    ) -> PrincipalRule:
        """Admit the AWS principals that match a pattern. :class:`InvalidError` for an unusable name or pattern;
        :class:`ConflictError` if the pattern already has a rule."""
        document = PrincipalRuleCreation(principal, name, role, list(repositories), list(branches), list(statuses))
        created = self._connection.call("POST", _RULES, None, document).read(PrincipalRuleDocument)
        return mapped(PrincipalRule, created, rule_id=created.id)

    def rules(self) -> list[PrincipalRule]:
        """Return the rules, by ID. Cost: one request per thousand."""
        return [
            mapped(PrincipalRule, rule, rule_id=rule.id)
            for page in self._connection.pages(_RULES, PrincipalRuleList)
            for rule in page.results
        ]

    def rule(self, rule_id: str) -> PrincipalRule:
        """Return one rule. :class:`NotFoundError`."""
        document = self._connection.get((*_RULES, rule_id), PrincipalRuleDocument)
        return mapped(PrincipalRule, document, rule_id=document.id)

    def remove_rule(self, rule_id: str) -> None:
        """Remove a rule and invalidate its tokens. :class:`NotFoundError`."""
        self._connection.call("DELETE", (*_RULES, rule_id))
