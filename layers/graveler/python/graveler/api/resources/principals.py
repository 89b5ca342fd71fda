"""Login as an AWS principal, as lakeFS's clients do it; and, beyond its API, the rules that admit principals."""

import time

from graveler.access.audit import AuditLine, record
from graveler.access.principal_rules import PrincipalRule
from graveler.access.refusals import IdentityRefusedError
from graveler.api.call import Call
from graveler.api.errors import NOT_IMPLEMENTED, ApiError, bad_request, status_and_error
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.errors import GravelerError
from graveler.requests.base import Permission
from graveler.wire.access_documents import (
    AuthenticationToken,
    ExternalLoginInformation,
    PrincipalRuleCreation,
    PrincipalRuleDocument,
    PrincipalRuleList,
)
from graveler.wire.documents import MAX_PER_PAGE, Pagination
from graveler.wire.error_documents import Error

routes = Routes("principals")

_RULES = "/auth/principals"
_RULE = "/auth/principals/{rule}"


@routes.post(
    "/auth/external/principal/login",
    "externalPrincipalLogin",
    None,
    responses={200: AuthenticationToken, 400: Error, 401: Error, 501: Error},
)
def login(call: Call, body: ExternalLoginInformation) -> Response:
    """Exchange a signed request to AWS STS, which proves who signed it, for a bearer token."""
    if not call.access.takes_aws:
        raise ApiError(
            501,
            NOT_IMPLEMENTED,
            detail="AWS principals cannot log in here: its operator has not configured a name for that, with `graveler serve "
            "--aws-login NAME` or with the setting aws_login of a deployment",
        )
    seconds = body.token_expiration_duration
    if seconds is not None and seconds < 1:
        raise bad_request(f"token_expiration_duration {seconds} must be at least 1 second")
    try:
        token = call.access.login_with_aws(body.identity_request.identity_token, call.source_ip, seconds)
    except GravelerError as error:
        who = error.who if isinstance(error, IdentityRefusedError) else ""
        _audit(call, str(status_and_error(error)[0]), principal=who)
        raise
    _audit(call, "200", key_id=token.rule.rule_id, name=token.name, principal=token.principal.arn)
    return json_response(AuthenticationToken(token.token.token, token.token.expires))


@routes.get(_RULES, "listPrincipalRules", Permission.ADMIN, responses={200: PrincipalRuleList, 401: Error})
def list_rules(call: Call, query: PageQuery) -> Response:
    """List the rules for AWS principals, by ID."""
    rules = [
        rule for rule in call.access.rules() if rule.rule_id.startswith(query.prefix) and rule.rule_id > query.after
    ]
    ordered = sorted(rules, key=lambda rule: rule.rule_id)
    page = ordered[: query.limit]
    more = len(ordered) > len(page)
    pagination = Pagination(more, page[-1].rule_id if more else "", len(page), MAX_PER_PAGE)
    return json_response(PrincipalRuleList(pagination, [_document(rule) for rule in page]))


@routes.post(
    _RULES,
    "createPrincipalRule",
    Permission.ADMIN,
    responses={201: PrincipalRuleDocument, 400: Error, 401: Error, 409: Error},
)
def create_rule(call: Call, body: PrincipalRuleCreation) -> Response:
    """Let AWS principals log in whose ARN matches a pattern."""
    rule = call.access.create_rule(
        body.principal, body.name, body.role, body.repositories, body.branches, body.statuses
    )
    return json_response(_document(rule), 201)


@routes.get(_RULE, "getPrincipalRule", Permission.ADMIN, responses={200: PrincipalRuleDocument, 401: Error, 404: Error})
def get_rule(call: Call, rule: str) -> Response:
    """Describe a rule for AWS principals."""
    return json_response(_document(call.access.rule(rule)))


@routes.delete(_RULE, "removePrincipalRule", Permission.ADMIN, responses={204: None, 401: Error, 404: Error})
def remove_rule(call: Call, rule: str) -> Response:
    """Remove a rule, and invalidate all tokens issued under it."""
    call.access.remove_rule(rule)
    return no_content()


def _document(rule: PrincipalRule) -> PrincipalRuleDocument:
    return PrincipalRuleDocument(
        rule.rule_id,
        rule.principal,
        rule.name,
        rule.role,
        list(rule.repositories),
        list(rule.branches),
        rule.created,
        list(rule.statuses),
    )


def _audit(call: Call, outcome: str, *, key_id: str = "", name: str = "", principal: str = "") -> None:
    # The request came without an identity: the line names the one it established.
    record(
        AuditLine(
            time=time.time(),
            action=call.operation,
            outcome=outcome,
            key_id=key_id,
            name=name,
            source=call.source_ip,
            request_id=call.request_id,
            principal=principal,
        )
    )
