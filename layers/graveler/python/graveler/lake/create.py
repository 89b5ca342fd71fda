"""Create only if absent: staging an object on condition that the branch has none of its path.

Look at everything below: the open token, the sealed ones, the commit; a tombstone hides what is below it. Then one transaction
stages the record on condition that what the open token holds for the path is exactly as looked at, and that the branch is: head,
open and sealed tokens. Without the second condition two creators can win, one of them in a token that a commit is taking out.
What arrives late in a sealed token is not acknowledged yet, so nothing else below can have changed.
"""

from msgspec import Struct

from graveler.errors import AlreadyExistsError, UnavailableError
from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadline
from graveler.lake.rules import Intent
from graveler.staging.changes import Staged, StagedChanges
from graveler.storage.tables import ConditionFailedError, Tables
from graveler.tree.tree import Trees


class Vacancy(Struct, frozen=True):
    """A path that has no object: the branch as it was then, and what its open token held for the path (a tombstone, or None)."""

    state: BranchState
    top: Staged | None


class Creator:
    """Stages records of one repository where there are none yet."""

    def __init__(
        self, tables: Tables, refs: Refs, branches: Branches, staged: StagedChanges, trees: Trees, clock: Clock
    ) -> None:
        self._tables = tables
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._trees = trees
        self._clock = clock

    def look(self, branch: str, path: str, key: bytes, *, force: bool = False) -> Vacancy:
        """See that the branch has no object of this path. Two table reads; unless something is staged for it, the commit, its
        metarange, one range at most. :class:`AlreadyExistsError`, :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        found = self._look(branch, key, force=force)
        if not isinstance(found, Vacancy):
            raise _exists(path)
        return found

    def create(
        self,
        branch: str,
        path: str,
        key: bytes,
        packed: bytes,
        until: Deadline,
        seen: Vacancy | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Stage a record if the branch has no object of this path. ``seen`` is an earlier :meth:`look`, however old;
        ``until`` the deadline of the work that made the object: :class:`BusyError` past it.

        A look, unless there was one, and one transaction; both again after losing a race.
        Finding one's own record after a try is success: that try's answer was lost.
        """
        vacancy = seen or self.look(branch, path, key, force=force)
        backoff = Backoff(self._clock)
        while True:
            state = vacancy.state
            until.check(f"creating {path!r} on branch {branch!r}")
            try:
                self._tables.transact(
                    [
                        self._staged.put_write(state.open, key, packed, vacancy.top),
                        self._refs.unchanged_check(state),
                    ]
                )
                return
            except ConditionFailedError:
                pass
            except UnavailableError:
                if self._look(branch, key, force=force) == packed:
                    return
                raise
            found = self._look(branch, key, force=force)
            if found == packed:
                return
            if not isinstance(found, Vacancy):
                raise _exists(path)
            vacancy = found
            if not backoff.wait():
                raise busy(branch)

    def _look(self, branch: str, key: bytes, *, force: bool) -> Vacancy | bytes:
        """The record that the branch has for a key, or that it has none."""
        state = self._branches.state(branch, Intent(direct=True, force=force))
        staged = self._staged.look((state.open, *state.sealed[::-1]), key)
        newest = next((found for found in staged if found is not None), None)
        packed = self._committed(state, key) if newest is None else newest.packed
        return Vacancy(state, staged[0]) if packed is None else packed

    def _committed(self, state: BranchState, key: bytes) -> bytes | None:
        return self._trees.load(self._branches.commit(state.commit_id).metarange).get(key)


def _exists(path: str) -> AlreadyExistsError:
    return AlreadyExistsError("object", path, "delete it first, or write without the condition that it be absent")
