"""Which namespaces' bytes a server hands out and takes: those of the lake's repositories, and of its import sources.

A presigned URL names a namespace. Its signature says that this lake signed it, not that there is still a repository, and whoever
has read the secret could sign for any folder. So a namespace is looked up, and believed for some seconds: a deleted repository's
URLs end then.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import NotFoundError
from graveler.lake.opening.folder import ServedFolders
from graveler.lake.opening.repositories import Repositories
from graveler.storage.objects import Objects
from graveler.storage.tables import Tables

BELIEVED: Final = 5.0
"""Seconds, as for access keys."""
_KEPT: Final = 1_000


class Namespaces(Protocol):
    """What turns a namespace into its objects."""

    def at_hand(self, namespace: str) -> Objects | None:
        """Its objects, if that can be said without a request."""

    def look_up(self, namespace: str) -> Objects:
        """Its objects. :class:`NotFoundError` for one that is not served."""


class _Known(Struct):
    store: Objects
    expires: float


class ServedNamespaces:
    """Those of the lake in ``folders``, whose repositories are in ``tables``."""

    def __init__(self, folders: ServedFolders, tables: Tables, now: Callable[[], float] = time.monotonic) -> None:
        self._folders = folders
        self._repositories = Repositories(tables)
        self._now = now
        self._known: dict[str, _Known] = {}

    def at_hand(self, namespace: str) -> Objects | None:
        """Its objects, if it is a source, or was looked up within the last :data:`BELIEVED` seconds."""
        known = self._known.get(namespace)
        if known is not None and self._now() < known.expires:
            return known.store
        return self._folders.source(namespace)

    def look_up(self, namespace: str) -> Objects:
        """Its objects. One table read. :class:`NotFoundError` for a namespace that is no repository's."""
        expires = self._now() + BELIEVED
        if not self._repositories.has_namespace(namespace):
            self._known.pop(namespace, None)
            raise NotFoundError(
                f"{namespace[:200]} is no repository's storage namespace, and no import source of this server"
            )
        known = self._known.get(namespace)
        if known is not None:
            known.expires = expires
            return known.store
        if len(self._known) >= _KEPT:
            self._known.clear()
        known = self._known[namespace] = _Known(self._folders.store(namespace), expires)
        return known.store
