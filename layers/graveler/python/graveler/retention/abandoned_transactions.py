"""Clean-up of transactions whose owner was killed: their hidden branches are deleted, and objects that only these hold become
garbage.

A transaction is over when its lease (:mod:`graveler.history.owners`) stays unchanged for the lease's whole length, by this
process's own monotonic clock. No wall clock is involved. Most collections take less time than that, so this one waits: as long as
some lease has not been renewed, and not at all without leases. The branch is deleted in one transaction, on condition that the
branch and its lease are unchanged since they were read, so an owner that returns at the last moment keeps it.

A hidden branch without a lease was created by its user, or by a transaction of an older version. The two cannot be told apart, so
it stays, and is reported.
"""

from collections.abc import Callable, Iterable
from typing import Final

from graveler.history.commits import CommitStore
from graveler.history.owners import LEASE, RENEWAL, Owners
from graveler.history.reflog import RefLog
from graveler.history.refs import Refs
from graveler.lake.clock import Clock
from graveler.lake.leases import LeaseWatch
from graveler.lake.objects.traces import Traces
from graveler.lake.refs.branches import Branches
from graveler.model import Repository
from graveler.staging.cleanup import CleanupQueue
from graveler.staging.tokens import Outcomes
from graveler.storage.tables.port import Tables

_PAUSE: Final = 5.0
"""Seconds between two polls of the leases."""

Told = Callable[[int, int], None]


class Abandoned:
    """The hidden branches of one repository. ``grace`` in seconds."""

    def __init__(self, repository: Repository, tables: Tables, clock: Clock, grace: float) -> None:
        uid = repository.uid
        self._clock = clock
        self._owners = Owners(tables, uid)
        self._refs = Refs(tables, uid)
        self._branches = Branches(
            repository,
            tables,
            self._refs,
            RefLog(tables, uid),
            CommitStore(tables, uid),
            Outcomes(tables, uid),
            CleanupQueue(tables, uid),
            Traces(repository, tables, clock, grace),
            clock,
            LeaseWatch(clock),
        )

    def ownerless(self, hidden: Iterable[str]) -> list[str]:
        """Return those of these hidden branches that belong to no transaction, sorted. One table read per thousand leases; one
        more for each 100 branches without one."""
        owned = {lease.branch for lease in self._owners.all()}
        suspects = sorted(set(hidden) - owned)
        items = self._refs.read_many([self._refs.branch_key(name) for name in suspects]) if suspects else []
        return [name for name, item in zip(suspects, items, strict=True) if item is not None]

    def end(self, progress: Told) -> int:
        """Delete the branches of transactions that are over, and return their number. ``progress`` receives the seconds watched,
        and those of a lease.

        One table read per thousand leases, repeated every five seconds as long as one of the first poll is unchanged; a read and
        a transaction per deleted branch. Takes five minutes if such a branch exists, and a moment otherwise.
        """
        ended = 0
        watch = LeaseWatch(self._clock)
        watched = {lease.branch: lease for lease in self._owners.all()}
        while watched:
            remaining = max(watch.remaining(lease.branch, lease.beat, LEASE) for lease in watched.values())
            progress(int(LEASE - remaining), int(LEASE))
            if remaining > 0 and self._was_stopped(min(remaining, _PAUSE)):
                watch = LeaseWatch(self._clock)
            current = {lease.branch: lease for lease in self._owners.all()}
            for lease in list(watched.values()):
                if current.get(lease.branch) != lease:
                    del watched[lease.branch]  # it was renewed, so its owner is alive; or it has ended
                elif not watch.is_held(lease.branch, lease.beat, LEASE):
                    del watched[lease.branch]
                    ended += self._branches.end(lease)
        return ended

    def _was_stopped(self, seconds: float) -> bool:
        """Wait. True if that took far longer than requested: this process was stopped, or the machine slept, and perhaps the
        owners of leases on the same machine with it. They could not renew, and have to be watched anew."""
        before = self._clock.monotonic()
        self._clock.sleep(seconds)
        return self._clock.monotonic() - before > seconds + RENEWAL
