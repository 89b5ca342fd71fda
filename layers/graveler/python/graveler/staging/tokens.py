"""Tokens: names for one generation of uncommitted changes, and what became of it.

A token's item in the table says ``sealed`` while a commit works on it, with the commit's operation id and a lease, and
afterwards what happened: ``published`` in a commit, ``dropped`` since nothing in it was a change, ``reset``, or ``deleted``
with its branch. It is written in the very transaction that does it, so whoever loses a race or an answer reads here what is
true. A lease only keeps others from doing the same work at the same time; no promise depends on it, nor on any clock.
"""

from enum import Enum
from secrets import token_hex
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.model import CommitID, RepositoryUID, Token
from graveler.storage.tables import Absent, Item, Key, Matches, Put, Tables, Value

MAX_SHARDS: Final = 64
OUTCOME_TTL: Final = 7 * 86_400
"""Seconds for which an outcome is kept after it is decided: far longer than any client repeats a request."""


def new_token(shards: int = 1) -> Token:
    """A fresh token. ``shards`` spreads its items over that many partitions: one takes 1,000 write units a second."""
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"shards must be between 1 and {MAX_SHARDS}, got {shards}")
    return Token(f"{token_hex(16)}-{shards}")


def shard_count(token: Token) -> int:
    """How many partitions the token's items are spread over. :class:`CorruptError` for what is no token."""
    count = token.rpartition("-")[2]
    if not (len(count) <= 2 and count.isascii() and count.isdecimal() and 1 <= int(count) <= MAX_SHARDS):
        raise CorruptError(f"{token[:80]!r} is no staging token; restore the table from a copy")
    return int(count)


class TokenState(str, Enum):
    """What became of a token that is not open any more."""

    SEALED = "sealed"
    PUBLISHED = "published"
    DROPPED = "dropped"
    RESET = "reset"
    DELETED = "deleted"


_STATES: Final = frozenset(state.value for state in TokenState)


class TokenOutcome(Struct, frozen=True):
    """A token's item. ``lease`` is when the owner's claim ends (Unix seconds), ``request`` the id of the request that it works
    for, if there is one; ``commit_id`` where the changes went, if published."""

    state: TokenState
    owner: str
    lease: float = 0.0
    commit_id: CommitID | None = None
    request: str = ""

    def is_claimed(self, now: float) -> bool:
        """Is the owner still at work on it, for all that is known?"""
        return self.state is TokenState.SEALED and self.lease > now


class Outcomes:
    """The tokens' items of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._uid = uid

    def get_many(self, tokens: tuple[Token, ...]) -> list[TokenOutcome | None]:
        """What is known of each. One table read for each 100."""
        return [None if item is None else _decode(item) for item in self._tables.get_many([*map(self.key, tokens)])]

    def get(self, token: Token) -> TokenOutcome | None:
        """What is known of one. One table read."""
        item = self._tables.get(self.key(token))
        return None if item is None else _decode(item)

    def seal_write(self, token: Token, owner: str, lease: float, request: str = "") -> Put:
        """Claims a token that is being sealed; part of that transaction."""
        return Put(self.key(token), _sealed(owner, lease, request), Absent())

    def renew_write(self, token: Token, owner: str, lease: float, request: str = "") -> Put:
        """Prolongs the owner's claim, on condition that the token is still its own and undecided."""
        mine = Matches({"state": TokenState.SEALED.value, "owner": owner})
        return Put(self.key(token), _sealed(owner, lease, request), mine)

    def decide_write(self, token: Token, state: TokenState, owner: str, now: float, commit_id: CommitID | None) -> Put:
        """Says what became of a token; part of the transaction that takes it from its branch."""
        item: dict[str, Value] = {"state": state.value, "owner": owner, "expires": int(now) + OUTCOME_TTL}
        if commit_id is not None:
            item["commit"] = commit_id
        return Put(self.key(token), item)

    def key(self, token: Token) -> Key:
        """Where the token's item is."""
        return Key(f"{self._uid}/token/{token}", b"outcome")


def _sealed(owner: str, lease: float, request: str) -> dict[str, Value]:
    item: dict[str, Value] = {"state": TokenState.SEALED.value, "owner": owner, "lease_ms": int(lease * 1000)}
    if request:
        item["request"] = request
    return item


def _decode(item: Item) -> TokenOutcome:
    state, owner, lease, commit, request = (
        item.get(name) for name in ("state", "owner", "lease_ms", "commit", "request")
    )
    if not (isinstance(state, str) and state in _STATES and isinstance(owner, str)):
        raise CorruptError(f"the item of a staging token has no state and owner: {dict(item)!r}")
    return TokenOutcome(
        TokenState(state),
        owner,
        lease / 1000 if isinstance(lease, int) else 0.0,
        CommitID(commit) if isinstance(commit, str) else None,
        request if isinstance(request, str) else "",
    )
