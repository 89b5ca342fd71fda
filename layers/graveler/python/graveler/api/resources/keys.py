"""Access keys with their roles and limits, which the field's own operations on users do not know. Beyond its API."""

from msgspec import Struct

from graveler.access.keys import AccessKey
from graveler.access.permissions import Role
from graveler.api.call import Call
from graveler.api.documents import MAX_PER_PAGE, Pagination
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.requests.base import Permission
from graveler.wire.errors import Error

routes = Routes("keys")

_KEYS = "/auth/keys"
_KEY = "/auth/keys/{key}"


class AccessKeyDocument(Struct, frozen=True):
    """An access key. ``name`` is its holder's, who commits; ``repositories`` and ``branches`` are patterns, none for all;
    ``created`` in Unix seconds. The secret of one for ``s3`` is kept, sealed, to verify what it signs."""

    access_key_id: str
    name: str
    role: Role
    repositories: list[str]
    branches: list[str]
    created: int
    s3: bool


class AccessKeyWithSecret(AccessKeyDocument, frozen=True, kw_only=True):
    """An access key just made; its secret cannot be had again."""

    secret_access_key: str


class AccessKeyCreation(Struct, frozen=True):
    """A key to be. Without patterns it is for all repositories and branches."""

    name: str
    role: Role = Role.WRITER
    repositories: list[str] = []
    branches: list[str] = []
    s3: bool = False


class AccessKeyList(Struct, frozen=True):
    """A page of keys, by ID."""

    pagination: Pagination
    results: list[AccessKeyDocument]


@routes.get(_KEYS, "listAccessKeys", Permission.ADMIN, answers={200: AccessKeyList, 401: Error})
def list_keys(call: Call, query: PageQuery) -> Response:
    """List the access keys that are not revoked, by ID."""
    known = call.access.keys()
    behind = [key for key in known if key.key_id.startswith(query.prefix) and key.key_id > query.after]
    found = sorted(behind, key=lambda key: key.key_id)
    page = found[: query.limit]
    more = len(found) > len(page)
    pagination = Pagination(more, page[-1].key_id if more else "", len(page), MAX_PER_PAGE)
    return json_response(AccessKeyList(pagination, [_document(key) for key in page]))


@routes.post(_KEYS, "createAccessKey", Permission.ADMIN, answers={201: AccessKeyWithSecret, 400: Error, 401: Error})
def create_key(call: Call, body: AccessKeyCreation) -> Response:
    """Make an access key. Its secret is kept nowhere, so a repeated request makes another key, whatever its Idempotency-Key."""
    made = call.access.create_key(body.name, body.role, body.repositories, body.branches, s3=body.s3)
    key = made.key
    document = AccessKeyWithSecret(
        key.key_id,
        key.name,
        key.role,
        list(key.repositories),
        list(key.branches),
        key.created,
        key.s3,
        secret_access_key=made.secret,
    )
    return json_response(document, 201)


@routes.get(_KEY, "getAccessKey", Permission.ADMIN, answers={200: AccessKeyDocument, 401: Error, 404: Error})
def get_key(call: Call, key: str) -> Response:
    """Describe an access key."""
    return json_response(_document(call.access.key(key)))


@routes.delete(_KEY, "revokeAccessKey", Permission.ADMIN, answers={204: None, 401: Error, 404: Error})
def revoke_key(call: Call, key: str) -> Response:
    """End a key, and all tokens that were given out for it, for good."""
    call.access.revoke(key)
    return no_content()


def _document(key: AccessKey) -> AccessKeyDocument:
    return AccessKeyDocument(
        key.key_id, key.name, key.role, list(key.repositories), list(key.branches), key.created, key.s3
    )
