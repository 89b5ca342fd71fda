"""The namespaces whose bytes a server serves: those of the lake's repositories, and of its import sources.

A presigned URL names a namespace. Its signature proves that this lake signed it, not that the repository still exists, and a
reader of the secret could sign for any folder. So the server looks namespaces up, and caches them for some seconds: then the URLs
of a deleted repository end.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import NotFoundError
from graveler.lake.opening.folder import ServedFolders
from graveler.lake.opening.repositories import Repositories
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Tables

BELIEVED: Final = 5.0
"""Cache lifetime in seconds, as for access keys."""
_KEPT: Final = 1_000


class Namespaces(Protocol):
    """The lookup of a namespace's objects."""

    def at_hand(self, namespace: str) -> Objects | None:
        """Return its objects, if that needs no request."""

    def look_up(self, namespace: str) -> Objects:
        """Return its objects. :class:`NotFoundError` for a namespace that is not served."""


class _Known(Struct):
    store: Objects
    expires: float


class ServedNamespaces:
    """The namespaces of the lake in ``folders``, whose repositories are in ``tables``."""

    def __init__(self, folders: ServedFolders, tables: Tables, now: Callable[[], float] = time.monotonic) -> None:
        self._folders = folders
        self._repositories = Repositories(tables)
        self._now = now
        self._known: dict[str, _Known] = {}

    def at_hand(self, namespace: str) -> Objects | None:
        """Return its objects, if it is a source, or was looked up within the last :data:`BELIEVED` seconds."""
        cached = self._known.get(namespace)
        if cached is not None and self._now() < cached.expires:
            return cached.store
        return self._folders.source(namespace)

    def look_up(self, namespace: str) -> Objects:
        """Return its objects. One table read. :class:`NotFoundError` if no repository has this namespace."""
        expires = self._now() + BELIEVED
        if not self._repositories.has_namespace(namespace):
            self._known.pop(namespace, None)
            raise NotFoundError(
                f"{namespace[:200]} is neither the storage namespace of a repository nor an import source of this server"
            )
        cached = self._known.get(namespace)
        if cached is not None:
            cached.expires = expires
            return cached.store
        if len(self._known) >= _KEPT:
            self._known.clear()
        cached = self._known[namespace] = _Known(self._folders.store(namespace), expires)
        return cached.store
