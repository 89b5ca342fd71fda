"""Results of requests with an ID: a repeated request has the effect of one (promise C4).

A request's item names the commit that it made. It is written in the transaction that publishes the commit. If the changes that
a request had sealed were staged again under another token (:mod:`graveler.lake.committing.restage`), the item names that token
instead: the request's result is the commit that takes the token.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from graveler.model import CommitID, RepositoryUID, Token
from graveler.staging.tokens import Outcomes, TokenState
from graveler.storage.tables.port import Absent, Check, Condition, Item, Key, Matches, Put, Tables

REQUEST_TTL: Final = 7 * 86_400
"""Seconds for which the result of a request with an ID is kept."""


class RequestResults:
    """The results of one repository's requests."""

    def __init__(self, tables: Tables, uid: RepositoryUID, outcomes: Outcomes) -> None:
        self._tables = tables
        self._uid = uid
        self._outcomes = outcomes

    def find(self, request_id: str) -> CommitID | None:
        """Return the commit that a request with this ID has already made. One table read, none without an ID; more if its changes
        were staged again."""
        return self.look(request_id)[0] if request_id else None

    def find_many(self, request_ids: Sequence[str]) -> list[CommitID | None]:
        """Return the commits of several requests, as :meth:`find`. One table read for each hundred."""
        return [*map(self.commit_in, self._tables.get_many([*map(self._key, request_ids)]))] if request_ids else []

    def look(self, request_id: str) -> tuple[CommitID | None, Check]:
        """Return the commit of :meth:`find`, and the condition that the request's item is unchanged since: for a transaction that
        relies on the absence of such a commit."""
        item = self._tables.get(self._key(request_id))
        return self.commit_in(item), Check(self._key(request_id), _as_seen(item))

    def commit_in(self, item: Item | None) -> CommitID | None:
        """Return the commit that a request's item leads to, if there is one yet. No request, unless the item names a token."""
        if item is None:
            return None
        token = item.get("token")
        if not isinstance(token, str):
            return CommitID(str(item["commit"]))
        _, outcome = self._outcomes.follow(Token(token))
        return outcome.commit_id if outcome is not None and outcome.state is TokenState.PUBLISHED else None

    def undone(self, request_ids: Iterable[str]) -> dict[str, Item | None]:
        """Return the requests that have no result yet, with their items. One table read, none for none."""
        ids = sorted(request_ids)
        items = self._tables.get_many([*map(self._key, ids)]) if ids else []
        return {id_: item for id_, item in zip(ids, items, strict=True) if self.commit_in(item) is None}

    def done_write(self, request_id: str, commit_id: CommitID, now: float, previous: Item | None) -> Put:
        """Return the write that records the commit, for the transaction that publishes it. Its condition is that the item is
        still ``previous``."""
        return self._write(request_id, {"commit": commit_id}, now, previous)

    def token_write(self, request_id: str, token: Token, now: float, previous: Item | None) -> Put:
        """Return the write that records where a request's changes are now, for the transaction that moves them there. Its
        condition is that the item is still ``previous``."""
        return self._write(request_id, {"token": token}, now, previous)

    def _write(self, request_id: str, item: Item, now: float, previous: Item | None) -> Put:
        return Put(self._key(request_id), {**item, "expires": int(now) + REQUEST_TTL}, _as_seen(previous))

    def _key(self, request_id: str) -> Key:
        return Key(f"{self._uid}/request/{request_id}", b"result")


def _as_seen(item: Item | None) -> Condition:
    return Absent() if item is None else Matches(dict(item))
