"""Authentication: login, the current user, and users as holders of access keys.

Users do not exist apart from keys: a user is the holder of keys, under the name in them. Roles and limits belong to keys, so
groups and policies are not implemented.
"""

import time
from collections.abc import Sequence

from graveler.access.audit import AuditLine, record
from graveler.access.keys import AccessKey
from graveler.access.tokens import LIFETIME, SESSION_LIFETIME
from graveler.api.call import Call
from graveler.api.errors import ApiError, status_and_error
from graveler.api.origins import expect_no_other_page
from graveler.api.queries import PageQuery
from graveler.api.response import Response, cookie, json_response, no_content
from graveler.api.routing import Routes
from graveler.errors import GravelerError
from graveler.requests.base import Permission
from graveler.wire.access_documents import (
    AuthCapabilities,
    AuthenticationToken,
    Credentials,
    CredentialsList,
    CredentialsWithSecret,
    CurrentUserRights,
    LoginInformation,
    SessionEnd,
    User,
    UserCreation,
    UserList,
)
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error

routes = Routes("auth")


@routes.post("/auth/login", "login", None, responses={200: AuthenticationToken, 400: Error, 401: Error})
def login(call: Call, body: LoginInformation) -> Response:
    """Exchange an access key and its secret for a bearer token, which is also set as a cookie."""
    expect_no_other_page(call.headers)
    lifetime = LIFETIME if body.session is None else SESSION_LIFETIME
    try:
        token = call.access.login(body.access_key_id, body.secret_access_key, call.source_ip, lifetime)
    except GravelerError as error:
        _audit_login(call, body.access_key_id, str(status_and_error(error)[0]))
        raise
    _audit_login(call, body.access_key_id, "200")
    answer = json_response(AuthenticationToken(token.token, token.expires))
    max_age = None if body.session is SessionEnd.WINDOW else lifetime
    answer.cookies = (_session_cookie(call, token.token, max_age),)
    return answer


@routes.post("/auth/logout", "logout", Permission.READ, responses={204: None, 401: Error})
def logout(call: Call) -> Response:
    """End the session: delete its cookie and revoke the request's token, which all processes refuse within five seconds."""
    call.access.logout(call.headers.get("authorization"), call.cookies)
    answer = no_content()
    answer.cookies = (_session_cookie(call, "", 0),)
    return answer


@routes.get("/auth/capabilities", "getAuthCapabilities", None, responses={200: AuthCapabilities})
def get_capabilities(call: Call) -> Response:
    """Describe what a login page can offer."""
    return json_response(AuthCapabilities(access_keys=call.access.takes_keys))


@routes.get("/user", "getCurrentUser", Permission.READ, responses={200: CurrentUserRights, 401: Error})
def get_current_user(call: Call) -> Response:
    """Describe the current user, and what they may."""
    who = call.identity
    user = User(who.name, call.access.created(who), who.name)
    return json_response(
        CurrentUserRights(
            user,
            role=who.role,
            repositories=list(who.repositories),
            branches=list(who.branches),
            expires=who.expires,
        )
    )


@routes.get("/auth/users", "listUsers", Permission.ADMIN, responses={200: UserList, 401: Error})
def list_users(call: Call, query: PageQuery) -> Response:
    """List the holders of access keys by name."""
    holders: dict[str, list[AccessKey]] = {}
    keys = call.access.keys()
    for key in keys:
        holders.setdefault(key.name, []).append(key)
    names, paging = _page(sorted(holders), query)
    return json_response(UserList(paging, [_user(holders[name]) for name in names]))


@routes.post("/auth/users", "createUser", Permission.ADMIN, responses={409: Error, 501: Error})
def create_user(call: Call, body: UserCreation) -> Response:
    """Refuse: a user is created with their first access key."""
    keys = call.access.keys()
    if any(key.name == body.id for key in keys):
        raise ApiError(409, "Already exists", detail=f"user {body.id!r} already has an access key")
    raise ApiError(
        501,
        "a user is the name of one or more access keys, and there are none without a key; create the first with "
        "`graveler keys create NAME --role ROLE`, and further ones as credentials of the user",
    )


@routes.get("/auth/users/{user}", "getUser", Permission.READ, responses={200: User, 401: Error, 404: Error})
def get_user(call: Call, user: str) -> Response:
    """Describe a holder of access keys: anyone for an admin, otherwise only oneself."""
    return json_response(_user(_keys_of(call, user, Permission.READ)))


@routes.delete("/auth/users/{user}", "deleteUser", Permission.ADMIN, responses={204: None, 401: Error, 404: Error})
def delete_user(call: Call, user: str) -> Response:
    """Revoke all access keys of a user."""
    for key in _keys_of(call, user, Permission.ADMIN):
        call.access.revoke(key.key_id)
    return no_content()


@routes.get(
    "/auth/users/{user}/credentials",
    "listUserCredentials",
    Permission.READ,
    responses={200: CredentialsList, 401: Error, 404: Error},
)
def list_credentials(call: Call, user: str, query: PageQuery) -> Response:
    """List the access keys of a user by ID: anyone's for an admin, otherwise only one's own."""
    keys = {key.key_id: key for key in _keys_of(call, user, Permission.READ)}
    ids, paging = _page(sorted(keys), query)
    return json_response(CredentialsList(paging, [Credentials(key_id, keys[key_id].created) for key_id in ids]))


@routes.post(
    "/auth/users/{user}/credentials",
    "createCredentials",
    Permission.ADMIN,
    responses={201: CredentialsWithSecret, 401: Error, 404: Error},
)
def create_credentials(call: Call, user: str) -> Response:
    """Create another access key for a user, with the role and limits of the user's oldest key."""
    oldest = min(_keys_of(call, user, Permission.ADMIN), key=lambda key: (key.created, key.key_id))
    created = call.access.create_key(user, oldest.role, oldest.repositories, oldest.branches)
    return json_response(CredentialsWithSecret(created.key.key_id, created.secret, created.key.created), 201)


@routes.get(
    "/auth/users/{user}/credentials/{key}",
    "getCredentials",
    Permission.READ,
    responses={200: Credentials, 401: Error, 404: Error},
)
def get_credentials(call: Call, user: str, key: str) -> Response:
    """Describe one access key of a user: anyone's for an admin, otherwise only one's own."""
    access_key = _key_of(call, user, key, Permission.READ)
    return json_response(Credentials(access_key.key_id, access_key.created))


@routes.delete(
    "/auth/users/{user}/credentials/{key}",
    "deleteCredentials",
    Permission.ADMIN,
    responses={204: None, 401: Error, 404: Error},
)
def delete_credentials(call: Call, user: str, key: str) -> Response:
    """Revoke one access key of a user."""
    call.access.revoke(_key_of(call, user, key, Permission.ADMIN).key_id)
    return no_content()


def _keys_of(call: Call, user: str, needed: Permission) -> list[AccessKey]:
    """Return the live keys of a user. For other users than the caller, admins only."""
    call.identity.require(needed if user == call.identity.name else Permission.ADMIN)
    keys = call.access.keys()
    of_user = [key for key in keys if key.name == user]
    if not of_user:
        raise ApiError(
            404,
            "user not found",
            detail=f"no user called {user!r} has an access key; `graveler keys create` creates the first",
        )
    return of_user


def _key_of(call: Call, user: str, key_id: str, needed: Permission) -> AccessKey:
    for key in _keys_of(call, user, needed):
        if key.key_id == key_id:
            return key
    raise ApiError(404, "credentials not found", detail=f"user {user!r} has no access key {key_id!r}")


def _session_cookie(call: Call, token: str, max_age: int | None) -> str:
    """Return the cookie of a session; an empty token with an age of 0 removes it."""
    return cookie(call.access.cookie, token, max_age=max_age, secure=_is_secure(call), path=call.settings.base_path)


def _is_secure(call: Call) -> bool:
    """Return whether the client speaks TLS, with this API or with a proxy in front. A client that lies gets a cookie it will not
    send."""
    return call.settings.secure_cookies or call.headers.get("x-forwarded-proto", "").strip().lower() == "https"


def _user(keys: Sequence[AccessKey]) -> User:
    return User(keys[0].name, min(key.created for key in keys), keys[0].name)


def _page(names: list[str], query: PageQuery) -> tuple[list[str], Pagination]:
    """Return the names on a page; ``names`` are in order."""
    matching = [name for name in names if name.startswith(query.prefix) and name > query.after]
    shown = matching[: query.limit]
    more = len(matching) > len(shown)
    return shown, Pagination(more, shown[-1] if more else "", len(shown))


def _audit_login(call: Call, key_id: str, outcome: str) -> None:
    # The caller has no identity yet: the line names the attempted key.
    record(
        AuditLine(
            time=time.time(),
            action="login",
            outcome=outcome,
            key_id=key_id[:128],
            source=call.source_ip,
            request_id=call.request_id,
        )
    )
