"""The configuration of a catalog, and tokens for its clients."""

import time
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Annotated, Final
from urllib.parse import parse_qsl

from msgspec import Meta

from graveler.access.refusals import AuthenticationError
from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.iceberg.table_access import offered_access
from graveler.api.queries import Query
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.history.expressions import resolve
from graveler.lake.committing.request_results import REQUEST_TTL
from graveler.requests.base import Permission

routes = Routes("catalog")

_WRITE_ENDPOINTS: Final = (
    "POST /v1/{prefix}/namespaces",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
)
_READ_ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
)
_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name of the standard
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_SECONDS: Final = 12 * 3600
"""Seconds for which a token is valid."""
_KEY_LIFETIME: Final = f"P{REQUEST_TTL // 86_400 - 1}D"
"""The time for which clients may repeat a request under its key: a day less than its result is kept. Iceberg's own client, from
1.11 on, sends keys only if the catalog states this time, and then repeats changes whose outcome is unknown."""


class ConfigQuery(Query, frozen=True, kw_only=True):
    """The catalog that a client opens."""

    warehouse: Annotated[
        str,
        Meta(
            description="`repository`, or `repository@ref`: the default branch, another one, a tag, a commit, `main~3`"
        ),
    ] = ""


@routes.get("/v1/config", "getCatalogConfig", Permission.READ, responses={200: None}, function="read")
def get_config(call: Call, query: ConfigQuery) -> Response:
    """Return the prefix of a catalog, and the endpoints that it offers. One table read for the repository, and resolving the
    ref."""
    name, _, ref = query.warehouse.partition("@")
    if not name:
        raise bad_request(
            "no warehouse is named; name a repository, such as 'sales', or a repository and a ref: 'sales@main', 'sales@main~3'"
        )
    call.identity.require(Permission.READ, name, "")
    parts = call.lake.repository(name).parts
    resolved = resolve(ref or parts.default_branch, parts.refs, parts.commits)
    endpoints: tuple[str, ...]
    if resolved.branch is not None:
        prefix, endpoints = f"{name}/{resolved.branch.name}", _READ_ENDPOINTS + _WRITE_ENDPOINTS
    else:
        prefix, endpoints = f"{name}/{parts.branches.commit(resolved.commit_id).id}", _READ_ENDPOINTS
    endpoints += offered_access(call, parts.namespace)
    document = {
        "defaults": {},
        "overrides": {"prefix": prefix},
        "endpoints": endpoints,
        "idempotency-key-lifetime": _KEY_LIFETIME,
    }
    return json_response(document)


@routes.post("/v1/oauth/tokens", "getCatalogToken", None, responses={200: None}, raw_body=True, function="write")
def get_token(call: Call) -> Response:
    """Exchange an access key and its secret for a token, as OAuth2's client credentials; or a token for itself, as long as it is
    valid. One table read."""
    form = dict(parse_qsl(call.body_bytes().decode("utf-8", "replace"), keep_blank_values=True))
    grant = form.get("grant_type", "")
    if grant == _EXCHANGE:
        return _exchange(call, form.get("subject_token", ""))
    if grant != "client_credentials":
        return _oauth_error(
            400, "unsupported_grant_type", f"grant_type {grant[:80]!r} is neither client_credentials nor {_EXCHANGE}"
        )
    key_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    if not key_id:
        key_id, secret = _basic(call.headers.get("authorization", "")) or ("", secret)
    try:
        token = call.access.login(key_id, secret, call.source_ip, _TOKEN_SECONDS)
    except AuthenticationError:
        return _oauth_error(
            401, "invalid_client", "client_id and client_secret are not a valid access key and its secret"
        )
    return _token(token.token, _TOKEN_SECONDS)


def _exchange(call: Call, token: str) -> Response:
    """Return the token itself, for the rest of its time: an exchange extends nothing."""
    try:
        identity = call.access.authenticate(f"Bearer {token}", None, call.source_ip)
    except AuthenticationError:
        return _oauth_error(401, "invalid_grant", "subject_token is no valid token; log in again")
    rest = _TOKEN_SECONDS if identity.expires is None else int(identity.expires - time.time())
    return _token(token, max(0, rest))


def _token(token: str, seconds: int) -> Response:
    document = {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": seconds,
        "issued_token_type": _TOKEN_TYPE,
    }
    return json_response(document, 200, {"cache-control": "no-store"})


def _basic(authorization: str) -> tuple[str, str] | None:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        key_id, _, secret = b64decode(encoded, validate=True).decode().partition(":")
    except (Base64Error, UnicodeDecodeError):
        return None
    return key_id, secret


def _oauth_error(status: int, error: str, description: str) -> Response:
    return json_response({"error": error, "error_description": description}, status)
