"""Access keys of a lake behind the HTTP API. For admins."""

from collections.abc import Sequence

from msgspec import Struct

from graveler.access.keys import AccessKey, KeyWithSecret
from graveler.access.permissions import Role
from graveler.remote.connection import Connection
from graveler.remote.reading import PAGE
from graveler.wire.documents import Pagination

_KEYS = ("auth", "keys")


class _Key(Struct, frozen=True):
    access_key_id: str
    name: str
    role: Role
    repositories: tuple[str, ...]
    branches: tuple[str, ...]
    created: int
    secret_access_key: str = ""
    s3: bool = False

    def value(self) -> AccessKey:
        """Return it as the lake's own value."""
        return AccessKey(
            self.access_key_id, self.name, self.role, self.repositories, self.branches, self.created, self.s3
        )


class _Page(Struct, frozen=True):
    pagination: Pagination
    results: list[_Key]


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
        *,
        s3: bool = False,
    ) -> KeyWithSecret:
        """Create a key and its secret, which the lake stores sealed for ``s3``. If the response is lost and the request sent
        again, another key exists whose secret is unknown: revoke it. :class:`InvalidError` for an empty name or pattern."""
        document = {
            "name": name,
            "role": role.value,
            "repositories": list(repositories),
            "branches": list(branches),
            "s3": s3,
        }
        made = self._connection.call("POST", _KEYS, None, document).read(_Key)
        return KeyWithSecret(made.value(), made.secret_access_key)

    def keys(self) -> list[AccessKey]:
        """Return the keys that are not revoked, by ID. Cost: one request per thousand."""
        found: list[AccessKey] = []
        after: str | None = ""
        while after is not None:
            page = self._connection.get(_KEYS, _Page, {"after": after, "amount": PAGE})
            found += [key.value() for key in page.results]
            after = page.pagination.next_after
        return found

    def key(self, key_id: str) -> AccessKey:
        """Return one key. :class:`NotFoundError`."""
        return self._connection.get((*_KEYS, key_id), _Key).value()

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good. :class:`NotFoundError`."""
        self._connection.call("DELETE", (*_KEYS, key_id))
