"""The writes of applications to branches: each row names a commit that its branch has, or had."""

from functools import partial
from typing import Final

from graveler.errors import CorruptError, InvalidError, LaterVersionError, RefNotFoundError
from graveler.history.commits import CommitStore
from graveler.history.graph import merge_base
from graveler.history.reflog import RefLog
from graveler.history.refs import BranchState
from graveler.lake.committing.applications import Applications, LastVersion, check_application, decode_last
from graveler.lake.fsck.findings import AffectedRef, FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.model import Application, Commit, CommitID
from graveler.storage.tables.port import ConditionFailedError, Item, Key, Matches, Tables

_PAGE: Final = 1000
_UNREADABLE: Final = (
    "The application cannot write to the branch. Restore the table from a copy, or check the branch's log for the last write and "
    "continue with another application ID"
)
_GONE: Final = "It is ignored, so this version is written again if it is repeated; run again with repair"
_FOREIGN: Final = (
    "This version is written again if it is repeated; check the branch's log for it, and if it is there, restore the table from "
    "a copy"
)


class ApplicationCheck:
    """A check of the application rows of one repository.

    A row is valid if its branch had the commit once, according to its reference log: the branch was reset, or undone, and
    the write is made again if it is repeated. A row of a branch that does not exist is valid too.
    """

    def __init__(
        self, tables: Tables, applications: Applications, log: RefLog, commits: CommitStore, *, repair: bool
    ) -> None:
        self._tables = tables
        self._applications = applications
        self._log = log
        self._commits = commits
        self._repair = repair

    def run(self, branches: list[BranchState]) -> list[Damage]:
        """Return the damages. With ``repair``, rows that name no commit are removed. One table read for each thousand rows, one
        or two for each row of a branch, and the walk from its head to the commit; for rows that are no longer in the history, the
        branch's reference log."""
        heads = {branch.name: branch.commit_id for branch in branches}
        damages = []
        for sort, item in scan(self._tables, self._applications.partition):
            name = sort.decode("utf-8", "backslashreplace")
            if isinstance(item, DamagedItem) and item.rest:
                damages.append(unreadable_rest(self._applications.partition, repr(name), item))
            elif (damage := self._look(sort, name, item, heads)) is not None:
                damages.append(damage)
        return damages

    def _look(self, sort: bytes, name: str, item: Item | DamagedItem, heads: dict[str, CommitID]) -> Damage | None:
        branch, _, application = name.partition("\0")
        subject = f"the row of application {application!r} on branch {branch!r}"
        refs = (AffectedRef("branch", branch),) if branch in heads else ()
        damage = partial(Damage, FindingKind.APPLICATION, subject, refs=refs)
        if isinstance(item, DamagedItem):
            return damage(f"cannot be read: {item.reason}", _UNREADABLE)
        try:
            last = decode_last(name, item)
            check_application(Application(application, last.version))
        except (CorruptError, InvalidError):
            return damage("has neither a version nor a commit", _UNREADABLE)
        head = heads.get(branch)
        if head is None:
            return None
        try:
            commit = self._commits.get(last.commit_id)
        except RefNotFoundError:
            if last.commit_id in self._logged(branch)[0]:
                return None
            removable = damage(
                f"names commit {last.commit_id!r} for version {last.version}, which does not exist", _GONE
            )
            if self._repair and self._removed(Key(self._applications.partition, sort), last):
                removable.mark_repaired("Removed")
            return removable
        except (CorruptError, LaterVersionError):
            return None  # the check of the commits reports it
        try:
            if self._is_or_was_on(branch, head, commit):
                return None
        except LaterVersionError:
            return None  # what the branch had is unknown, which the check of the commits reports
        return damage(f"names commit {commit.id} for version {last.version}, which the branch never had", _FOREIGN)

    def _is_or_was_on(self, branch: str, head: CommitID, commit: Commit) -> bool:
        """Return whether the branch has the commit, or had it; also if its reference log does not go back far enough to tell."""
        if self._leads(commit, head):
            return True
        logged, whole = self._logged(branch)
        return not whole or any(self._leads(commit, commit_id) for commit_id in logged)

    def _leads(self, commit: Commit, head: CommitID) -> bool:
        try:
            return merge_base(self._commits, commit.id, head) == commit.id
        except (RefNotFoundError, CorruptError):
            return False  # the check of the commits reports the head, or what it leads to

    def _logged(self, branch: str) -> tuple[dict[CommitID, None], bool]:
        """Return the commits that the branch's log names, the newest first; and whether it begins with the branch's creation."""
        commit_ids: dict[CommitID, None] = {}
        whole = False
        try:
            for row in self._log.rows("branch", branch, _PAGE):
                commit_ids |= dict.fromkeys(commit_id for commit_id in (row.new, row.old) if commit_id is not None)
                whole = row.old is None
        except CorruptError:
            whole = False  # the check of the logs reports the row
        return commit_ids, whole

    def _removed(self, key: Key, last: LastVersion) -> bool:
        """Remove the row, if it is as it was read."""
        try:
            self._tables.delete(key, Matches(dict(last.item)))
        except ConditionFailedError:
            return False
        return True
