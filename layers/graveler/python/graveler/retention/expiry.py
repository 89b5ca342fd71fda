"""The expiry of commits, in two steps: first a commit's item is *marked*, and from then on no ref can point at it; a grace period
later, if the decision is still the same, it is *dead*: its item is sealed, what only it held is swept, and if nothing reaches it,
it is forgotten. Each step is a conditional write, so neither concurrent collectors nor writers undo one another's."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec.structs import replace

from graveler.errors import BusyError
from graveler.history.commits import CommitStore
from graveler.lake.clock import Clock
from graveler.lake.opening.repositories import Repositories
from graveler.model import CommitID, Repository
from graveler.retention.roots import RootReader, Roots
from graveler.retention.rules import KnownCommit, Verdict, judge
from graveler.storage.tables.port import ConditionFailedError, Delete, Matches, Tables

_RECORD: Final = ("record", "line")
"""The attributes of a commit's item that describe the commit itself."""


class Expiry:
    """The operations that mark, seal and forget commits of one repository. ``alive`` is called after each."""

    def __init__(self, repository: Repository, tables: Tables, clock: Clock, alive: Callable[[], None]) -> None:
        self._repository = repository
        self._tables = tables
        self._clock = clock
        self._alive = alive
        self._commits = CommitStore(tables, repository.uid)

    def judge(
        self,
        commits: Mapping[CommitID, KnownCommit],
        branches: Mapping[str, CommitID],
        pinned: Collection[CommitID],
        now: float,
    ) -> Verdict:
        """Decide by the current rules. One table read."""
        rules = Repositories(self._tables).get(self._repository.name).repository.settings.retention
        return judge(commits, branches, pinned, rules, now)

    def mark(
        self, roots: Roots, verdict: Verdict, old: Collection[CommitID], reader: RootReader, now: float
    ) -> tuple[int, int]:
        """Mark those ``old`` commits that nothing keeps; revert the mark of those that are held after all. Returns both numbers.
        A table read and a write each, one reading of the refs."""
        expired: list[KnownCommit] = []
        revived = 0
        for commit in roots.commits.values():
            if commit.id in verdict.kept:
                revived += commit.expired is not None and not commit.swept and self._revive(commit)
            elif commit.expired is None and commit.id in old:
                moment = int(self._clock.now()) + 1
                if self._change(commit, {"expired": moment}, {"expired": None}):
                    expired.append(replace(commit, expired=moment))
            self._alive()
        if expired:
            branches, pinned = reader.refs_now()
            again = self.judge(roots.commits, branches, {*roots.pinned, *pinned}, now)
            revived += sum(self._revive(commit) for commit in expired if commit.id in again.kept)
        return len(expired), revived

    def seal(self, dead: Collection[KnownCommit]) -> None:
        """Record for each dead commit that its objects may be gone: this is irreversible. A table read and a write for each new
        one. :class:`BusyError` if one was revived."""
        for commit in dead:
            assert commit.expired is not None
            attributes: dict[str, int | bool] = {"expired": commit.expired, "swept": True}
            if not commit.swept and not self._change(commit, attributes, {"expired": commit.expired, "swept": None}):
                raise BusyError(f"commit {commit.id[:16]} was unmarked by another collector meanwhile; run again")
            self._alive()

    def forget(self, commits: Collection[tuple[CommitID, int]]) -> int:
        """Remove the items of sealed commits, each with the time of its mark, and return their number. One transaction each."""
        forgotten = 0
        for cid, expired in commits:
            try:
                self._tables.transact([Delete(self._commits.key(cid), Matches({"expired": expired, "swept": True}))])
                forgotten += 1
            except ConditionFailedError:  # an earlier attempt did it
                continue
            finally:
                self._alive()
        return forgotten

    def _revive(self, commit: KnownCommit) -> bool:
        return self._change(commit, {}, {"expired": commit.expired, "swept": None})

    def _change(self, commit: KnownCommit, attributes: dict[str, int | bool], expected: dict[str, int | None]) -> bool:
        """Replace the attributes of a commit's item besides its record, on condition of their current values. One table read, one
        write."""
        key = self._commits.key(commit.id)
        item = self._tables.get(key)
        if item is None:
            return False
        record = {name: value for name, value in item.items() if name in _RECORD}
        try:
            self._tables.put(key, {**record, **attributes}, Matches(expected))
        except ConditionFailedError as error:
            stored = error.failures.get(0) or {}
            return all(stored.get(name) == attributes.get(name) for name in ("expired", "swept"))  # by a lost response
        return True
