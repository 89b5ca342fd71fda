"""Access keys of a lake behind the HTTP API. For admins."""

from collections.abc import Sequence

from graveler.access.keys import AccessKey, KeyWithSecret
from graveler.access.permissions import Role
from graveler.remote.connection import Connection
from graveler.wire.access_documents import AccessKeyCreation, AccessKeyDocument, AccessKeyList, AccessKeyWithSecret
from graveler.wire.mapping import mapped

_KEYS = ("auth", "keys")


class RemoteKeys:
    """The keys of a lake, with the key verbs of :class:`graveler.access.authentication.Access`. Each is one request unless stated
    otherwise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create_key(
        self,
        name: str,
        role: Role,
        repositories: Sequence[str] = (),
        branches: Sequence[str] = (),
        statuses: Sequence[str] = (),
        *,
        s3: bool = False,
    ) -> KeyWithSecret:
        """Create a key and its secret, which the lake stores sealed for ``s3``. If the response is lost and the request sent
        again, another key exists whose secret is unknown: revoke it. :class:`InvalidError` for an unusable name or pattern."""
        document = AccessKeyCreation(name, role, list(repositories), list(branches), s3, list(statuses))
        created = self._connection.call("POST", _KEYS, None, document).read(AccessKeyWithSecret)
        return KeyWithSecret(mapped(AccessKey, created, key_id=created.access_key_id), created.secret_access_key)

    def keys(self) -> list[AccessKey]:
        """Return the keys that are not revoked, by ID. Cost: one request per thousand."""
        return [
            mapped(AccessKey, key, key_id=key.access_key_id)
            for page in self._connection.pages(_KEYS, AccessKeyList)
            for key in page.results
        ]

    def key(self, key_id: str) -> AccessKey:
        """Return one key. :class:`NotFoundError`."""
        document = self._connection.get((*_KEYS, key_id), AccessKeyDocument)
        return mapped(AccessKey, document, key_id=document.access_key_id)

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good. :class:`NotFoundError`."""
        self._connection.call("DELETE", (*_KEYS, key_id))
