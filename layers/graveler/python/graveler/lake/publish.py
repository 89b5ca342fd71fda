"""The one moment at which a commit appears: a transaction that moves the branch (promise C2)."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from graveler.errors import GravelerError, RefNotFoundError, UnavailableError
from graveler.history.commits import CommitStore, encode_commit
from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches
from graveler.lake.deadline import Deadline
from graveler.model import Commit, CommitID, RepositoryUID, Token
from graveler.staging.tokens import TokenState
from graveler.storage.objects import Objects
from graveler.storage.tables import Absent, ConditionFailedError, Item, Key, Put, Tables, Write

COMMITS_FOLDER = "_graveler/commits"
REQUEST_TTL = 7 * 86_400
"""Seconds for which the result of a request with an id is kept."""


class AlreadyDoneError(Exception):
    """The request's id has a result already: this commit. For the verbs of this room only; no caller of theirs sees it."""

    def __init__(self, commit_id: CommitID) -> None:
        self.commit_id = commit_id
        super().__init__(commit_id)


class HeadMovedError(Exception):
    """The branch is not as it was when the work began: read it again. For the verbs of this room only."""


class Publisher:
    """Publishes commits of one repository."""

    def __init__(
        self,
        uid: RepositoryUID,
        tables: Tables,
        objects: Objects,
        refs: Refs,
        commits: CommitStore,
        branches: Branches,
    ) -> None:
        self._uid = uid
        self._tables = tables
        self._objects = objects
        self._refs = refs
        self._commits = commits
        self._branches = branches

    def done_before(self, request_id: str) -> CommitID | None:
        """The commit that a request with this id has made already (promise C4). One table read, none without an id."""
        if not request_id:
            return None
        item = self._tables.get(self._request_key(request_id))
        return None if item is None else CommitID(str(item["commit"]))

    def commit_of(self, request_id: str) -> Commit | None:
        """The commit of :meth:`done_before`, read."""
        done = self.done_before(request_id)
        return None if done is None else self._commits.get(done)

    def once(self, request_id: str, make: Callable[[], Commit]) -> Commit:
        """The commit that ``make`` makes, or the one that a request with this id has made already (promise C4).

        One table read, none without an id. One more when ``make`` fails: another try of the same request may have been faster,
        and have taken away what this one looked for.
        """
        done = self.done_before(request_id)
        if done is not None:
            return self._commits.get(done)
        try:
            return make()
        except AlreadyDoneError as error:
            return self._commits.get(error.commit_id)
        except GravelerError:
            done = self.done_before(request_id)
            if done is None:
                raise
            return self._commits.get(done)

    def publish(
        self,
        state: BranchState,
        commit: Commit,
        verb: str,
        deadline: Deadline,
        *,
        applied: tuple[Token, ...] = (),
        sources: Sequence[CommitID] = (),
        request_id: str = "",
        adopted: AbstractSet[str] = frozenset(),
        besides: Sequence[Write] = (),
    ) -> None:
        """Move the branch from ``state`` to ``commit``, and take ``applied``, its oldest sealed tokens, from it. ``sources`` are
        parents that no branch is known to hold: they must not have expired (:class:`RefNotFoundError`). ``request_id`` and
        ``adopted``, of requests whose tokens are taken over, get this commit as their result (promise C4). ``deadline`` is that
        of the work: from before the first file was written, or found. ``besides``, without conditions, is written in the same
        transaction.

        One object write (the commit record, before anything names it), one transaction. The condition is the whole state of
        the branch as it was read: the head that was built on, and the sealed tokens. :class:`HeadMovedError` if it changed,
        :class:`AlreadyDoneError` if another try of the same request was faster, :class:`BusyError` past the
        deadline. A lost answer is resolved by looking whether the commit is in the table, not by repeating.
        """
        assert state.sealed[: len(applied)] == applied
        self._objects.put(f"{COMMITS_FOLDER}/{commit.id}", encode_commit(commit))
        event = self._branches.event(verb, commit.committer, commit.operation)
        after = msgspec.structs.replace(state, commit_id=commit.id, sealed=state.sealed[len(applied) :])
        writes: list[Write] = [*self._refs.move_branch_writes(state, after, event), self._commits.put_write(commit)]
        for token in applied:
            writes += self._branches.drop_token_writes(token, TokenState.PUBLISHED, commit.operation, commit.id)
        alive = range(len(writes), len(writes) + len(sources))
        writes += map(self._commits.alive_check, sources)
        writes += besides
        # From now on, not from the commit's time, which its maker may choose.
        result: Item = {"commit": commit.id, "expires": event.time_ns // 1_000_000_000 + REQUEST_TTL}
        writes += [Put(self._request_key(id_), result, Absent()) for id_ in self._undone(adopted - {request_id})]
        if request_id:
            writes.append(Put(self._request_key(request_id), result, Absent()))
        deadline.check(f"{verb} on branch {state.name!r}")
        try:
            self._tables.transact(writes)
        except ConditionFailedError as error:
            if request_id and len(writes) - 1 in error.failures:
                item = error.failures[len(writes) - 1]
                assert item is not None
                raise AlreadyDoneError(CommitID(str(item["commit"]))) from None
            if self._published(commit):
                return  # a repeated request of the adapter found its own first try
            for number in alive:
                if number in error.failures:
                    raise RefNotFoundError(
                        sources[number - alive[0]], "the commit has expired; nothing was changed"
                    ) from None
            raise HeadMovedError from None
        except UnavailableError:
            if self._published(commit):
                return
            raise

    def _undone(self, requests: AbstractSet[str]) -> list[str]:
        """Those that have no result yet. One table read, none for none."""
        ids = sorted(requests)
        items = self._tables.get_many([self._request_key(id_) for id_ in ids]) if ids else []
        return [id_ for id_, item in zip(ids, items, strict=True) if item is None]

    def drop(self, state: BranchState, applied: tuple[Token, ...], operation: str) -> None:
        """Take ``applied``, its oldest sealed tokens, from the branch: nothing in them is a change of the head. One transaction.
        :class:`HeadMovedError`."""
        assert state.sealed[: len(applied)] == applied
        after = msgspec.structs.replace(state, sealed=state.sealed[len(applied) :])
        writes = self._refs.move_branch_writes(state, after, None)
        for token in applied:
            writes += self._branches.drop_token_writes(token, TokenState.DROPPED, operation)
        try:
            self._tables.transact(writes)
        except ConditionFailedError:
            raise HeadMovedError from None

    def _published(self, commit: Commit) -> bool:
        """Did the transaction happen whose answer is unknown? Its commit item says so: the ID holds this operation's id."""
        return bool(self._commits.read([commit.id]))

    def _request_key(self, request_id: str) -> Key:
        return Key(f"{self._uid}/request/{request_id}", b"result")
