"""Legal holds: commits that keep their objects whatever the rules are, and whatever becomes of their refs.

Items: partition ``<repository uid>/holds``, sort key the commit ID; attributes ``why``, ``by`` and ``at`` (Unix seconds).
"""

from msgspec import Struct

from graveler.errors import CorruptError, ExpiredCommitError, NotFoundError
from graveler.history.commits import CommitStore
from graveler.model import CommitID, RepositoryUID
from graveler.storage.limits import text_key
from graveler.storage.tables.port import ConditionFailedError, Key, Put, Tables
from graveler.storage.tables.walking import items


class Hold(Struct, frozen=True):
    """A held commit. ``at`` in Unix seconds."""

    commit_id: CommitID
    why: str
    by: str
    at: int


class Holds:
    """The legal holds of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._commits = CommitStore(tables, uid)
        self._partition = f"{uid}/holds"

    def add(self, hold: Hold) -> None:
        """Hold a commit; one that is already held gets the new reason. One transaction. :class:`ExpiredCommitError`."""
        write = Put(self._key(hold.commit_id), {"why": hold.why, "by": hold.by, "at": hold.at})
        try:
            self._tables.transact([write, self._commits.alive_check(hold.commit_id)])
        except ConditionFailedError:
            raise ExpiredCommitError(hold.commit_id) from None

    def remove(self, commit_id: CommitID) -> None:
        """Release a commit. One table read, one write. :class:`NotFoundError` if it is not held."""
        if self._tables.get(self._key(commit_id)) is None:
            raise NotFoundError(f"commit {commit_id[:16]} has no legal hold; list the existing ones")
        self._tables.delete(self._key(commit_id))

    def all(self) -> list[Hold]:
        """Return all holds, by commit ID. One table read per thousand."""
        holds: list[Hold] = []
        for sort, item in items(self._tables, self._partition):
            commit_id = text_key(self._partition, sort)
            reason, by, since = item.get("why"), item.get("by"), item.get("at")
            if not (isinstance(reason, str) and isinstance(by, str) and isinstance(since, int)):
                raise CorruptError(f"the legal hold of commit {commit_id} cannot be read; set it again")
            holds.append(Hold(CommitID(commit_id), reason, by, since))
        return holds

    def _key(self, commit_id: CommitID) -> Key:
        return Key(self._partition, commit_id.encode())
