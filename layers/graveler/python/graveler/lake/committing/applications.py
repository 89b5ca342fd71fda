"""Numbered writes of applications: a write that is repeated after any time has the effect of one (promise C4).

A stream numbers its batches, and after a failure repeats the last one, perhaps a week later. The result of a request with an ID
(:mod:`graveler.lake.committing.request_results`) has expired by then. So a branch remembers for each application the last
version that was written to it, for ever, and the commit: an item that is replaced in the transaction that publishes a version.
(Delta's equivalent is its ``SetTransaction``.)

**A version counts as long as its commit is in the branch's history.** After a reset, an undo, or a deletion and re-creation of
the branch, the write is no longer on it, and is written again when it is repeated.

Items: partition ``<repository uid>/applications``, sort key the branch's name, a zero byte and the application's ID, in UTF-8;
attributes ``version``, ``commit`` and ``earlier`` (texts ``version commit``, the newest first). A rename copies them; items of a
deleted branch have no effect, since their commits are in no branch of that name.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from graveler.errors import AlreadyExistsError, CorruptError, InvalidError, RefNotFoundError
from graveler.history.commits import CommitStore
from graveler.history.graph import merge_base
from graveler.history.names import check_branch
from graveler.history.refs import Refs
from graveler.model import Application, Commit, CommitID, RepositoryUID
from graveler.storage.limits import text_key
from graveler.storage.tables.port import (
    MAX_TRANSACTION_WRITES,
    Absent,
    Check,
    Condition,
    ConditionFailedError,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Value,
)
from graveler.storage.tables.walking import pages

_LONGEST_ID: Final = 200
LARGEST_VERSION: Final = 2**63 - 1
_PAGE: Final = 1000
_TOGETHER: Final = MAX_TRANSACTION_WRITES - 1


_EARLIER: Final = 8
"""The number of remembered versions before the last one."""


class LastVersion(Struct, frozen=True):
    """The last version that an application has written to a branch: its commit, and its table item; ``earlier`` are the versions
    before it, the newest first."""

    version: int
    commit_id: CommitID
    item: Item
    earlier: tuple[tuple[int, CommitID], ...] = ()

    def since(self, version: int) -> list[CommitID]:
        """Return the commits of this version and later ones, the nearest version first; for each, its newest commit. No
        request."""
        versions = ((self.version, self.commit_id), *self.earlier)
        later = [(written, commit_id) for written, commit_id in versions if written >= version]
        return [commit_id for _, commit_id in sorted(later, key=lambda pair: pair[0])]


class Applications:
    """The records of what applications have written to the branches of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID, refs: Refs, commits: CommitStore) -> None:
        self._tables = tables
        self._refs = refs
        self._commits = commits
        self.partition: Final = f"{uid}/applications"

    def last(self, branch: str, application: Application) -> LastVersion | None:
        """Return what the application wrote to the branch last; None if nothing. One table read. :class:`InvalidError` for an
        invalid ID or version; :class:`CorruptError`."""
        key = self._key(branch, application.id)
        item = self._tables.get(key)
        return None if item is None else decode_last(text_key(key.partition, key.sort), item)

    def covers(self, last: LastVersion | None, application: Application, head: CommitID) -> Commit | None:
        """Return the commit in the history of ``head`` that ``last`` names for this version, or for the nearest later one; None
        if there is none. No request for a new version; else as :func:`graveler.history.graph.merge_base`, for each commit that
        has left the history."""
        for commit_id in [] if last is None else last.since(application.version):
            try:
                commit = self._commits.get(commit_id)
            except RefNotFoundError:
                continue  # forgotten, so no branch leads to it any more
            if merge_base(self._commits, commit.id, head) == commit.id:
                return commit
        return None

    def look(self, branch: str, application: Application) -> tuple[LastVersion | None, Commit | None]:
        """Return the last version, and the commit in which the branch got this version or a later one (None if it did not). One
        table read; for a version that is not new another one, and the walk from the branch's head to the commit."""
        last = self.last(branch, application)
        if last is None or not last.since(application.version):
            return last, None
        state = self._refs.branch(branch)
        return last, None if state is None else self.covers(last, application, state.commit_id)

    def write(self, branch: str, application: Application, commit_id: CommitID, last: LastVersion | None) -> Put:
        """Return the write that records the version, for the transaction that publishes its commit. Its condition is that the
        last version is still ``last``, so only one of two concurrent writers of one version publishes it."""
        condition: Condition = Absent() if last is None else Matches(dict(last.item))
        item: dict[str, Value] = {"version": application.version, "commit": commit_id}
        if last is not None:
            earlier = [(last.version, last.commit_id), *last.earlier][:_EARLIER]
            item["earlier"] = [f"{version} {commit}" for version, commit in earlier]
        return Put(self._key(branch, application.id), item, condition)

    def copy(self, old: str, new: str) -> None:
        """Copy the items of branch ``old`` to ``new``, its future name. One table read for each thousand applications, one
        transaction for each 99. :class:`AlreadyExistsError` if a branch ``new`` exists: its own items count."""
        free = Check(self._refs.branch_key(new), Absent())
        begin = len(old.encode())
        for items in self._pages(old.encode() + b"\0"):
            puts = [Put(Key(self.partition, new.encode() + sort[begin:]), item) for sort, item in items]
            for start in range(0, len(puts), _TOGETHER):
                try:
                    self._tables.transact([*puts[start : start + _TOGETHER], free])
                except ConditionFailedError:
                    raise AlreadyExistsError("branch", new) from None

    def all(self) -> Iterator[tuple[str, Item]]:
        """Yield every item, with its sort key. One table read for each thousand."""
        for items in self._pages(b""):
            for sort, item in items:
                yield text_key(self.partition, sort), item

    def restore_write(self, name: str, item: Item) -> Put:
        """Return the write that restores an item of :meth:`all`."""
        return Put(Key(self.partition, name.encode()), item)

    def _pages(self, prefix: bytes) -> Iterator[list[tuple[bytes, Item]]]:
        return pages(self._tables, self.partition, start=prefix, end=prefix[:-1] + b"\1" if prefix else None)

    def _key(self, branch: str, application_id: str) -> Key:
        return Key(self.partition, f"{check_branch(branch)}\0{application_id}".encode())


def check_application(application: Application) -> None:
    """Check an application's ID and version; :class:`InvalidError` if they are invalid."""
    if not 1 <= len(application.id) <= _LONGEST_ID or not application.id.isprintable():
        raise InvalidError(
            f"application {application.id!r}: an application ID must have 1 to {_LONGEST_ID} printable characters"
        )
    if not 0 <= application.version <= LARGEST_VERSION:
        raise InvalidError(
            f"version {application.version} of application {application.id!r}: versions must be numbers from 0 to 2^63 - 1"
        )


def decode_last(name: str, item: Item) -> LastVersion:
    """Decode an item. No request. :class:`CorruptError` if it is invalid."""
    version, commit, earlier = item.get("version"), item.get("commit"), item.get("earlier", [])
    try:
        if isinstance(version, int) and isinstance(commit, str) and isinstance(earlier, list):
            return LastVersion(version, CommitID(commit), item, tuple(map(_decode_earlier, earlier)))
    except ValueError:
        pass
    branch, _, application = name.partition("\0")
    raise CorruptError(
        f"the table's item of application {application!r} on branch {branch!r} cannot be read. Restore the table from a copy, or "
        "check the branch's log for the last write and continue with another application ID"
    )


def _decode_earlier(text: str) -> tuple[int, CommitID]:
    """Decode one earlier version. :class:`ValueError` if it is invalid."""
    version, commit = text.split(" ")
    return int(version), CommitID(commit)
