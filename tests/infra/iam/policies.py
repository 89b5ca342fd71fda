"""Statements of policies, and the decision about a request within one account.

The rules: a denial in any policy that applies wins; a role is allowed by its own policies or by the resource's, if that names the
role; a service is allowed by the resource's policy only; a key and a role that is assumed are opened by their own policies alone,
or, where a key's names the account, by the role's.

Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics.html and
https://docs.aws.amazon.com/kms/latest/developerguide/key-policies.html. There are no permissions boundaries, session policies or
policies of an organisation in the templates; one would be an :class:`UnknownError`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.infra.iam.conditions import Context, UnknownError, holds, like, like_resource

_ELEMENTS: Final = frozenset(
    ("Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition")
)
_EXCLUSIVE: Final = (("Action", "NotAction"), ("Resource", "NotResource"))
VERSION: Final = "2012-10-17"
"""In older ones, policy variables are no variables."""


@dataclass(frozen=True)
class Principal:
    """Who asks: the ARN of a role, or a service's name, as ``events.amazonaws.com``."""

    name: str

    @property
    def is_service(self) -> bool:
        """Whether it is one of AWS's services, and no role."""
        return not self.name.startswith("arn:")

    @property
    def account(self) -> str:
        """Of a role."""
        return self.name.split(":")[4]


@dataclass(frozen=True)
class Request:
    """One action on one resource (``*``, if the action has none). ``reason`` says what it comes from, for people."""

    principal: Principal
    action: str
    resource: str
    context: Context = field(default_factory=dict)
    reason: str = ""

    def __str__(self) -> str:
        name = self.principal.name.rpartition("/")[2]
        keys = f" with {dict(self.context)}" if self.context else ""
        return f"{name}: {self.action} on {self.resource}{keys}{f' ({self.reason})' if self.reason else ''}"


@dataclass(frozen=True)
class Right:
    """One action on one resource, as a statement of a policy grants it."""

    policy: str
    action: str
    resource: str


@dataclass(frozen=True)
class Statement:
    """A statement, of the policy ``policy``, with all in it resolved."""

    policy: str
    denies: bool
    principals: tuple[tuple[str, str], ...]
    """Kind and name; empty in a policy of a role."""
    actions: tuple[str, ...]
    but_actions: bool
    resources: tuple[str, ...]
    but_resources: bool
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Operator, key, values."""

    def rights(self) -> tuple[Right, ...]:
        """What it grants; nothing if it denies."""
        if self.denies:
            return ()
        return tuple(Right(self.policy, action, resource) for action in self.actions for resource in self.resources)

    def applies(self, request: Request) -> bool:
        """Whether action, resource and conditions match; not who asks."""
        action = any(_is_action(pattern, request.action) for pattern in self.actions)
        if action is self.but_actions:
            return False
        resource = any(self._is_resource(pattern, request) for pattern in self.resources)
        if resource is self.but_resources:
            return False
        return all(holds(operator, key, values, request.context) for operator, key, values in self.conditions)

    def used(self, request: Request) -> Iterable[Right]:
        """Which of its rights a request that it allows uses."""
        return (
            right
            for right in self.rights()
            if _is_action(right.action, request.action) and self._is_resource(right.resource, request)
        )

    def names(self, principal: Principal) -> bool:
        """Whether its element ``Principal`` names who asks, himself."""
        for kind, name in self.principals:
            if name == "*":
                return True
            if kind == "Service" and principal.name == name:
                return True
            if kind == "AWS" and not principal.is_service and principal.name == name:
                return True
        return False

    def names_account(self, principal: Principal) -> bool:
        """Whether it names who asks only by his account, which leaves it to his own policies."""
        return not principal.is_service and any(
            kind == "AWS" and (name == principal.account or name.endswith(f"::{principal.account}:root"))
            for kind, name in self.principals
        )

    def _is_resource(self, pattern: str, request: Request) -> bool:
        return like_resource(pattern, request.resource, request.context, widely=self.denies)


def _is_action(pattern: str, action: str) -> bool:
    return like(pattern.casefold(), action.casefold(), {})


def parse(document: Mapping[str, Any], policy: str) -> tuple[Statement, ...]:
    """The statements of a policy document without intrinsics. :class:`UnknownError` if it holds what is not known."""
    if set(document) - {"Version", "Id", "Statement"} or document.get("Version") != VERSION:
        raise UnknownError(f"{policy}: a document with {dict(document)!r:.200}")
    return tuple(_statement(each, policy) for each in _list(document["Statement"]))


def _statement(document: Mapping[str, Any], policy: str) -> Statement:
    unknown = set(document) - _ELEMENTS
    if unknown:
        raise UnknownError(f"{policy}: element {', '.join(sorted(unknown))}")
    if document["Effect"] not in ("Allow", "Deny") or any(set(pair) <= set(document) for pair in _EXCLUSIVE):
        raise UnknownError(f"{policy}: a statement of {dict(document)}")
    conditions = tuple(
        (operator, key, tuple(map(_text, _list(values))))
        for operator, keys in document.get("Condition", {}).items()
        for key, values in keys.items()
    )
    for operator, key, values in conditions:
        holds(operator, key, values, {})  # unknown ones fail now, whether a request gets to them or not
    actions = _texts(document, "Action") or _texts(document, "NotAction")
    for action in actions:
        service, colon, _ = action.partition(":")
        if action != "*" and (not colon or "*" in service):
            raise UnknownError(f"{policy}: action {action}")
    return Statement(
        policy,
        document["Effect"] == "Deny",
        tuple(_principals(document.get("Principal"), policy)),
        actions,
        "NotAction" in document,
        _texts(document, "Resource") or _texts(document, "NotResource"),
        "NotResource" in document,
        conditions,
    )


def _principals(principal: Any, policy: str) -> Iterable[tuple[str, str]]:
    if principal is None:
        return
    if principal == "*":
        yield "AWS", "*"
        return
    for kind, names in principal.items():
        for name in _list(names):
            if kind not in ("AWS", "Service") or (name != "*" and "*" in name) or (kind == "Service" and name == "*"):
                raise UnknownError(f"{policy}: principal {kind} {name}")
            yield kind, name


def _texts(document: Mapping[str, Any], element: str) -> tuple[str, ...]:
    return tuple(_list(document.get(element, ())))


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Decision:
    """Whether a request is allowed; if not, why; if so, by which rights."""

    refusal: str = ""
    used: frozenset[Right] = frozenset()


@dataclass(frozen=True)
class Policies:
    """Those of roles and those of resources, by ARN. A role's resource policy says who may assume it."""

    roles: Mapping[str, tuple[Statement, ...]]
    resources: Mapping[str, tuple[Statement, ...]]

    def decide(self, request: Request) -> Decision:
        """The decision about a request. :class:`UnknownError` if it comes from a role that is not known."""
        own = self._of_role(request.principal)
        of_resource = [s for s in self._of_resource(request.resource) if s.applies(request)]
        own = tuple(statement for statement in own if statement.applies(request))
        for statement in (*own, *of_resource):
            theirs = (
                statement in own or statement.names(request.principal) or statement.names_account(request.principal)
            )
            if statement.denies and theirs:
                return Decision(f"{request}: denied by {statement.policy}")
        allowing = [s for s in of_resource if not s.denies and s.names(request.principal)]
        delegated = any(not s.denies and s.names_account(request.principal) for s in of_resource)
        only_resource = request.action.startswith("sts:AssumeRole") or (
            _is_key(request.resource) and request.resource in self.resources and not delegated
        )
        if not (request.principal.is_service or only_resource):
            allowing += [s for s in own if not s.denies]
        if not allowing:
            return Decision(f"{request}: no policy allows it")
        return Decision(used=frozenset(right for s in allowing for right in s.used(request)))

    def rights(self) -> frozenset[Right]:
        """All that roles and resources grant."""
        return frozenset(
            right
            for policies in (self.roles, self.resources)
            for statements in policies.values()
            for statement in statements
            for right in statement.rights()
        )

    def _of_role(self, principal: Principal) -> tuple[Statement, ...]:
        if principal.is_service:
            return ()
        if principal.name not in self.roles:
            raise UnknownError(f"role {principal.name}")
        return self.roles[principal.name]

    def _of_resource(self, resource: str) -> tuple[Statement, ...]:
        """An object's is its bucket's."""
        kept = resource.partition("/")[0] if resource.split(":")[2:3] == ["s3"] else resource
        return self.resources.get(kept, ())


def _is_key(resource: str) -> bool:
    return resource.split(":")[2:3] == ["kms"]
