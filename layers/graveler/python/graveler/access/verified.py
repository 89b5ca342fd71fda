"""Recently verified credentials, so that a request does not cost a read of the table.

An entry is found by a keyed digest of the whole credential, under a key that is made anew in each process: memory holds no secret
and no token in clear. Only successes are kept, for a few seconds: a revoked key ends in every other process within that time, and
in the process that revoked it at once.
"""

from collections.abc import Callable
from hashlib import blake2b
from secrets import token_bytes
from typing import Final

from msgspec import Struct

from graveler.access.permissions import Identity
from graveler.system.forks import new_lock

KEEP: Final = 5.0
"""Seconds for which a credential counts as verified."""
MAX_ENTRIES: Final = 10_000


class _Entry(Struct, frozen=True):
    identity: Identity
    since: float
    expires: float


class Verified:
    """Credentials that were good, each for at most ``keep`` seconds. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float], keep: float = KEEP, entries: int = MAX_ENTRIES) -> None:
        self._clock, self._keep, self._most = clock, keep, entries
        self._secret = token_bytes(32)
        self._entries: dict[bytes, _Entry] = {}
        self._ended: set[str] = set()
        """IDs of keys that were revoked here; none becomes valid again."""
        self._lock = new_lock()

    def find(self, credential: str) -> Identity | None:
        """Return the identity of this credential, if it was verified lately."""
        entry = self._entries.get(self._digest(credential))
        # A clock that was set back must not lengthen anything.
        if entry is None or not entry.since <= self._clock() < entry.expires:
            return None
        return entry.identity

    def keep(self, credential: str, identity: Identity, verified: float, expires: float | None = None) -> None:
        """Remember a credential that was good at the time ``verified``, at most until it ``expires``; the oldest one makes room.

        ``verified`` is when the table was asked, not when it responded: a key that was revoked between is not accepted longer
        because of this, and not at all if it was revoked here.
        """
        expires = verified + self._keep if expires is None else min(verified + self._keep, expires)
        digest = self._digest(credential)
        with self._lock:
            if identity.key_id in self._ended:
                return
            self._entries.pop(digest, None)
            while len(self._entries) >= self._most:
                del self._entries[next(iter(self._entries))]
            self._entries[digest] = _Entry(identity, verified, expires)

    def drop(self, credential: str) -> None:
        """Drop a credential: it was ended."""
        with self._lock:
            self._entries.pop(self._digest(credential), None)

    def forget(self, key_id: str) -> None:
        """Drop all credentials of a key, for good: it was revoked."""
        with self._lock:
            self._ended.add(key_id)
            for digest in [digest for digest, entry in self._entries.items() if entry.identity.key_id == key_id]:
                del self._entries[digest]

    def _digest(self, credential: str) -> bytes:
        return blake2b(credential.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=32).digest()
