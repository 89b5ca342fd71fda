"""The commits' records in the object store: second copies of what the table holds, in case it is lost.

A record exists before the table names its commit, even if a process is killed at any point. Only a dump, and a rebuild of the
table, rely on it after a power cut. So where syncing a file costs as much as the transaction that publishes
(:class:`UnsyncedObjects`, a folder), a record is written and not synced, and the transaction that publishes its commit queues
the commit's ID in the table: until it leaves the queue, a power cut may lose the record, which is then written again from the
table. A dump empties the queue first, so what it relies on is durable; and one commit in :data:`_ONE_IN` syncs what has been
queued for longer than :data:`_LATER` seconds, which the system has mostly written by then.
"""

from contextlib import suppress
from typing import Final

from graveler.errors import GravelerError
from graveler.history.commits import CommitStore, encode_commit
from graveler.model import Commit, CommitID
from graveler.storage.objects.port import ObjectMissingError, Objects, UnsyncedObjects
from graveler.storage.tables.port import Delete, Key, Put, Tables, Write

COMMITS_FOLDER: Final = "_graveler/commits"

_LATER: Final = 60.0
"""Linux writes data older than half a minute by itself."""
_ONE_IN: Final = 16
_TIME_BYTES: Final = 8
_MOST: Final = 100
"""The maximum number of records that a commit syncs: more than are queued until the next such commit, on average."""


class CommitRecords:
    """The records of one repository's commits. ``now`` is in Unix seconds."""

    def __init__(self, tables: Tables, objects: Objects, commits: CommitStore) -> None:
        self._tables = tables
        self._objects = objects
        self._unsynced = objects if isinstance(objects, UnsyncedObjects) else None
        self._commits = commits
        self._queue = f"{commits.uid}/unsynced-records"

    def put(self, commit: Commit, now: float) -> list[Write]:
        """Write a record, and return the writes for the transaction that publishes its commit. One object write."""
        key, data = record_key(commit.id), encode_commit(commit)
        if self._unsynced is None:
            self._objects.put(key, data)
            return []
        self._unsynced.put_unsynced(key, data)
        return [Put(Key(self._queue, _sort_key(now) + bytes.fromhex(commit.id)), {"unsynced": True})]

    def settle_some(self, commit: Commit, now: float) -> None:
        """Make old records durable after one published commit in :data:`_ONE_IN`, chosen by its ID. A failure is retried
        later."""
        if self._unsynced is not None and int(commit.id[:8], 16) % _ONE_IN == 0:
            with suppress(GravelerError):
                self.settle(now - _LATER, _MOST)

    def settle(self, before: float | None = None, limit: int = 1000) -> None:
        """Make queued records durable: at most ``limit`` of those from before the time ``before``; without one, all of them.
        Afterwards they are in the object store, even after a power cut. No request where records are durable at once; else one
        table read for each thousand queued, one for each hundred of the commits, one write; an object read and a sync for
        each."""
        if self._unsynced is None:
            return
        start, end = b"", None if before is None else _sort_key(before)
        while True:
            page = self._tables.query(self._queue, start=start, end=end, limit=limit)
            sorts = [sort for sort, _ in page.items]
            ids = [CommitID(sort[_TIME_BYTES:].hex()) for sort in sorts]
            cached = self._commits.read(ids)
            self._make_durable(self._unsynced, [cached[cid].commit for cid in ids if cid in cached])
            self._tables.write_many([Delete(Key(self._queue, sort)) for sort in sorts])
            if not page.more or before is not None:
                return
            start = sorts[-1]

    def _make_durable(self, objects: UnsyncedObjects, commits: list[Commit]) -> None:
        good = []
        for commit in commits:
            key, data = record_key(commit.id), encode_commit(commit)
            try:
                if self._objects.get(key) == data:
                    good.append(key)
                    continue
            except ObjectMissingError:
                pass
            self._objects.put(key, data)
        failed = objects.sync(good)
        by_key = {record_key(commit.id): commit for commit in commits}
        for key in failed:  # the system may have dropped what it could not write
            self._objects.put(key, encode_commit(by_key[key]))


def record_key(cid: CommitID) -> str:
    """Return the key of a commit's record."""
    return f"{COMMITS_FOLDER}/{cid}"


def _sort_key(time: float) -> bytes:
    """Return the position in the queue of a record written at ``time``."""
    return int(time * 1000).to_bytes(_TIME_BYTES, "big")
