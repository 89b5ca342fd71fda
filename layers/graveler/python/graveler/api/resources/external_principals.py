"""The AWS principals of users, with lakeFS's own operations: rules (:mod:`graveler.api.resources.principals`) that carry the
user's name, with the role and the limits of the user's oldest access key."""

from msgspec import field

from graveler.access.aws_principals import principal_pattern
from graveler.access.keys import AccessKey
from graveler.access.principal_rules import PrincipalRule
from graveler.api.call import Call
from graveler.api.errors import ApiError
from graveler.api.queries import PageQuery, Query, RequiredText
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.requests.base import Permission
from graveler.wire.access_documents import ExternalPrincipal, ExternalPrincipalCreation, ExternalPrincipalList
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error

routes = Routes("external")

_OF_USER = "/auth/users/{user}/external/principals"


class PrincipalQuery(Query, frozen=True, kw_only=True):
    """The principal: its ARN, or a pattern of ARNs."""

    principal: RequiredText = field(name="principalId")


@routes.post(
    _OF_USER,
    "createUserExternalPrincipal",
    Permission.ADMIN,
    responses={201: None, 400: Error, 401: Error, 404: Error, 409: Error},
)
def create(call: Call, user: str, query: PrincipalQuery, body: ExternalPrincipalCreation) -> Response:
    """Let AWS principals log in as a user, with the current role and limits of the user's oldest access key."""
    key = _oldest_key(call, user)
    call.access.create_rule(query.principal, user, key.role, key.repositories, key.branches)
    return no_content(status=201)


@routes.delete(
    _OF_USER, "deleteUserExternalPrincipal", Permission.ADMIN, responses={204: None, 400: Error, 401: Error, 404: Error}
)
def delete(call: Call, user: str, query: PrincipalQuery) -> Response:
    """Stop letting AWS principals log in as a user, and invalidate their tokens."""
    rule = _rule(call, query.principal)
    if rule.name != user:
        raise _not_found(query.principal)
    call.access.remove_rule(rule.rule_id)
    return no_content()


@routes.get(
    f"{_OF_USER}/ls",
    "listUserExternalPrincipals",
    Permission.ADMIN,
    responses={200: ExternalPrincipalList, 401: Error, 404: Error},
)
def list_of_user(call: Call, user: str, query: PageQuery) -> Response:
    """List the AWS principals that can log in as a user, by ARN."""
    principals = {rule.principal for rule in call.access.rules() if rule.name == user}
    if not principals:
        _oldest_key(call, user)
    selected = sorted(name for name in principals if name.startswith(query.prefix) and name > query.after)
    page = selected[: query.limit]
    more = len(selected) > len(page)
    pagination = Pagination(more, page[-1] if more else "", len(page))
    return json_response(ExternalPrincipalList(pagination, [ExternalPrincipal(principal, user) for principal in page]))


@routes.get(
    "/auth/external/principals",
    "getExternalPrincipal",
    Permission.ADMIN,
    responses={200: ExternalPrincipal, 400: Error, 401: Error, 404: Error},
)
def get(call: Call, query: PrincipalQuery) -> Response:
    """Return the user that AWS principals log in as."""
    rule = _rule(call, query.principal)
    return json_response(ExternalPrincipal(rule.principal, rule.name))


def _oldest_key(call: Call, user: str) -> AccessKey:
    keys = call.access.keys()
    held = [key for key in keys if key.name == user]
    if not held:
        raise ApiError(404, "user not found", detail=f"no user called {user!r} has an access key")
    return min(held, key=lambda key: (key.created, key.key_id))


def _rule(call: Call, principal: str) -> PrincipalRule:
    pattern = principal_pattern(principal)
    for rule in call.access.rules():
        if rule.principal == pattern:
            return rule
    raise _not_found(principal)


def _not_found(principal: str) -> ApiError:
    return ApiError(404, "external principal not found", detail=f"there is no rule for {principal[:200]!r}")
