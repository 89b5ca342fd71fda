"""Tokens: names for one generation of uncommitted changes, and their outcomes.

A token's item in the table is ``sealed`` while a commit works on it, with the commit's operation id and a lease, and afterwards
records the outcome: ``published`` in a commit, ``dropped`` since nothing in it was a change, ``reset``, ``deleted`` with its
branch, or ``renamed`` with it. If its changes are staged again under another token, ``into`` names that. The outcome is written
in the very transaction that brings it about, so a process that loses a race or a response reads the truth here. A lease is a
*beat* that changes with every renewal, and a length; it holds no time (:mod:`graveler.lake.leases`). It only keeps others from
doing the same work at the same time, and no other promise than C5 depends on it.
"""

from enum import Enum
from secrets import token_hex
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.model import CommitID, RepositoryUID, Token
from graveler.storage.tables.port import Absent, Item, Key, Matches, Put, Tables, Value
from graveler.system.random_bytes import random_bytes

MAX_SHARDS: Final = 64
OUTCOME_TTL: Final = 7 * 86_400
"""Seconds for which an outcome is kept after it is decided: far longer than any client repeats a request."""

LEASE: Final = 6.0
"""Seconds for which a sealed token stays its owner's without a new beat."""


_LINE: Final = 16
"""Number of first digits of a token that all tokens of one branch share as long as it has one name."""


def new_token(shards: int = 1) -> Token:
    """Return the first token of a branch. ``shards`` spreads its items over that many partitions: one takes 1,000 write units a
    second."""
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"shards must be between 1 and {MAX_SHARDS}, got {shards}")
    return Token(f"{random_bytes(16).hex()}-{shards}")


def next_token(token: Token, shards: int = 1) -> Token:
    """Return a fresh token for the branch that has ``token``, with at least ``shards`` shards and never fewer than before:
    programs configured with different numbers work on one branch. A branch that is created or renamed begins with a
    :func:`new_token` instead."""
    return Token(f"{token[:_LINE]}{token_hex(16 - _LINE // 2)}-{max(shards, shard_count(token))}")


def life_of(token: Token) -> str:
    """Return what all tokens of a branch share as long as it has one name, and those of no other branch have."""
    return token[:_LINE]


def same_branch(token: Token, other: Token) -> bool:
    """Return whether two tokens belong to one branch under one name. False for two tokens of one branch if the version before
    this one made the newer of them."""
    return life_of(token) == life_of(other)


def shard_count(token: Token) -> int:
    """Return the number of partitions for the token's items. :class:`CorruptError` for a malformed token."""
    count = token.rpartition("-")[2]
    if not (len(count) <= 2 and count.isascii() and count.isdecimal() and 1 <= int(count) <= MAX_SHARDS):
        raise CorruptError(f"{token[:80]!r} is not a staging token; restore the table from a copy")
    return int(count)


class TokenState(str, Enum):
    """The state of a token that is not open any more."""

    SEALED = "sealed"
    PUBLISHED = "published"
    DROPPED = "dropped"
    RESET = "reset"
    DELETED = "deleted"
    RENAMED = "renamed"
    RESTAGED = "restaged"


_STATES: Final = frozenset(state.value for state in TokenState)


class TokenOutcome(Struct, frozen=True):
    """A token's item. ``beat`` is the owner's last one, empty if the lease has no holder (it was given back, or the token is
    decided), and ``seconds`` the lease's length; ``request`` the id of the request that the owner works for, if any;
    ``commit_id`` the commit that the changes were published in, if any."""

    state: TokenState
    owner: str
    beat: str = ""
    seconds: float = 0.0
    commit_id: CommitID | None = None
    request: str = ""
    into: Token | None = None
    is_held: bool = False
    """True if the owner is a candidate (``docs/design/0023-gates.md``), which holds the token until it ends."""
    alone: bool = False
    """True if nothing but the head lay below its changes: the branch had no older token when it was dropped."""


class Outcomes:
    """The tokens' items of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._uid = uid

    def get_many(self, tokens: tuple[Token, ...]) -> list[TokenOutcome | None]:
        """Return the known outcome of each token, or None. One table read for each 100."""
        return list(map(self.decode, self._tables.get_many([*map(self.key, tokens)])))

    def get(self, token: Token) -> TokenOutcome | None:
        """Return the known outcome of one token, or None. One table read."""
        return self.decode(self._tables.get(self.key(token)))

    @staticmethod
    def decode(item: Item | None) -> TokenOutcome | None:
        """Return the outcome in the item at :meth:`key`; None without an item. No request. :class:`CorruptError`."""
        return None if item is None else _decode(item)

    def follow(self, token: Token) -> tuple[Token, TokenOutcome | None]:
        """Return the token under which the changes of ``token`` are now, or were last, and its outcome (None: it is open). One
        table read, and one for each time that they were staged again."""
        outcome = self.get(token)
        while outcome is not None and outcome.into is not None:
            token = outcome.into
            outcome = self.get(token)
        return token, outcome

    def seal_write(self, token: Token, owner: str, seconds: float, request: str = "") -> Put:
        """Return the write that claims a token that is being sealed, with a lease of this length; part of that transaction. With
        0 seconds, the lease has no holder."""
        return Put(self.key(token), _sealed(owner, seconds, request), Absent())

    def renew_write(self, token: Token, owner: str, seconds: float, request: str = "") -> Put:
        """Return the write of a new beat of the owner's lease, which from now on has this length; 0 seconds give it back. On
        condition that the token is still its own and undecided."""
        condition = Matches({"state": TokenState.SEALED.value, "owner": owner})
        return Put(self.key(token), _sealed(owner, seconds, request), condition)

    def hold_write(self, token: Token, outcome: TokenOutcome, candidate: str) -> Put:
        """Return the write by which a candidate holds a sealed token, whose ``outcome`` was read just now, until it ends. On
        condition that no other owner has it."""
        item = {**_sealed(candidate, 0.0, outcome.request), "candidate": True}
        condition = Matches({"state": TokenState.SEALED.value, "owner": outcome.owner})
        return Put(self.key(token), item, condition)

    def decide_write(
        self,
        token: Token,
        state: TokenState,
        owner: str,
        now: float,
        commit_id: CommitID | None,
        into: Token | None = None,
        *,
        alone: bool = False,
    ) -> Put:
        """Return the write that records a token's outcome; part of the transaction that takes it from its branch. ``into`` is the
        token under which its changes are staged again; ``alone``: the branch had no older one."""
        item: dict[str, Value] = {"state": state.value, "owner": owner, "expires": int(now) + OUTCOME_TTL}
        if commit_id is not None:
            item["commit"] = commit_id
        if into is not None:
            item["into"] = into
        if alone:
            item["alone"] = True
        return Put(self.key(token), item)

    def key(self, token: Token) -> Key:
        """Return the key of the token's item."""
        return Key(f"{self._uid}/token/{token}", b"outcome")


def _sealed(owner: str, seconds: float, request: str) -> dict[str, Value]:
    item: dict[str, Value] = {"state": TokenState.SEALED.value, "owner": owner}
    if seconds > 0:
        item |= {"beat": token_hex(8), "length_ms": int(seconds * 1000)}
    else:
        item["given_back"] = True
    if request:
        item["request"] = request
    return item


def _decode(item: Item) -> TokenOutcome:
    state, owner, commit, request, into = (item.get(name) for name in ("state", "owner", "commit", "request", "into"))
    if not (isinstance(state, str) and state in _STATES and isinstance(owner, str)):
        raise CorruptError(f"the item of a staging token has no state and owner: {dict(item)!r}")
    beat, seconds = _lease(item) if state == TokenState.SEALED.value else ("", 0.0)
    return TokenOutcome(
        TokenState(state),
        owner,
        beat,
        seconds,
        CommitID(commit) if isinstance(commit, str) else None,
        request if isinstance(request, str) else "",
        Token(into) if isinstance(into, str) else None,
        item.get("candidate") is True,
        item.get("alone") is True,
    )


def _lease(item: Item) -> tuple[str, float]:
    """Return the beat and the length of a sealed token's lease; an empty beat if it has no holder."""
    beat, length = item.get("beat"), item.get("length_ms")
    if isinstance(beat, str) and isinstance(length, int):
        return beat, length / 1000
    # Earlier versions wrote when the lease ends, by the owner's clock: a new time is a new beat, and 0 gives it back.
    until = item.get("lease_ms", 0)
    return (str(until), LEASE) if until else ("", 0.0)
