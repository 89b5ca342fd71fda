"""Access keys with their roles and limits, which lakeFS's own user operations lack. Beyond its API."""

from graveler.access.keys import AccessKey
from graveler.api.call import Call
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.requests.base import Permission
from graveler.wire.access_documents import AccessKeyCreation, AccessKeyDocument, AccessKeyList, AccessKeyWithSecret
from graveler.wire.documents import MAX_PER_PAGE, Pagination
from graveler.wire.error_documents import Error

routes = Routes("keys")

_KEYS = "/auth/keys"
_KEY = "/auth/keys/{key}"


@routes.get(_KEYS, "listAccessKeys", Permission.ADMIN, responses={200: AccessKeyList, 401: Error})
def list_keys(call: Call, query: PageQuery) -> Response:
    """List the access keys that are not revoked, by ID."""
    keys = call.access.keys()
    matching = [key for key in keys if key.key_id.startswith(query.prefix) and key.key_id > query.after]
    ordered = sorted(matching, key=lambda key: key.key_id)
    page = ordered[: query.limit]
    more = len(ordered) > len(page)
    pagination = Pagination(more, page[-1].key_id if more else "", len(page), MAX_PER_PAGE)
    return json_response(AccessKeyList(pagination, [_document(key) for key in page]))


@routes.post(_KEYS, "createAccessKey", Permission.ADMIN, responses={201: AccessKeyWithSecret, 400: Error, 401: Error})
def create_key(call: Call, body: AccessKeyCreation) -> Response:
    """Create an access key. Its secret is not stored, so a repeated request creates another key, whatever its Idempotency-Key."""
    created = call.access.create_key(body.name, body.role, body.repositories, body.branches, body.statuses, s3=body.s3)
    key = created.key
    document = AccessKeyWithSecret(
        key.key_id,
        key.name,
        key.role,
        list(key.repositories),
        list(key.branches),
        key.created,
        key.s3,
        list(key.statuses),
        secret_access_key=created.secret,
    )
    return json_response(document, 201)


@routes.get(_KEY, "getAccessKey", Permission.ADMIN, responses={200: AccessKeyDocument, 401: Error, 404: Error})
def get_key(call: Call, key: str) -> Response:
    """Describe an access key."""
    return json_response(_document(call.access.key(key)))


@routes.delete(_KEY, "revokeAccessKey", Permission.ADMIN, responses={204: None, 401: Error, 404: Error})
def revoke_key(call: Call, key: str) -> Response:
    """Revoke a key, and all tokens issued for it, permanently."""
    call.access.revoke(key)
    return no_content()


def _document(key: AccessKey) -> AccessKeyDocument:
    return AccessKeyDocument(
        key.key_id,
        key.name,
        key.role,
        list(key.repositories),
        list(key.branches),
        key.created,
        key.s3,
        list(key.statuses),
    )
