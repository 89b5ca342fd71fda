"""Create only if absent: staging an object on condition that the branch has none of its path.

First, look at everything below: the open token, the sealed ones, the commit; a tombstone hides what is below it. Then one
transaction stages the record on condition that the open token's item for the path is exactly as read, and so is the branch: head,
open and sealed tokens. Without the second condition two creators can win, one of them in a token that a commit is taking out.
A late write in a sealed token is not acknowledged yet, so nothing else below can have changed.
"""

from msgspec import Struct

from graveler.errors import AlreadyExistsError, UnavailableError
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.deadline import Deadline
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.repository_settings import Intent
from graveler.staging.changes import Staged
from graveler.storage.tables.port import ConditionFailedError


class Vacancy(Struct, frozen=True):
    """A path that has no object: the branch as it was then, and what its open token held for the path (a tombstone, or None)."""

    state: BranchState
    top: Staged | None


def expect_absent(repository: RepositoryParts, branch: str, path: str, key: bytes, *, force: bool = False) -> Vacancy:
    """Check that the branch has no object of this path. Two table reads; unless something is staged for it, the commit, its
    metarange, one range at most. :class:`AlreadyExistsError`, :class:`RefNotFoundError`, :class:`ForbiddenError`."""
    vacancy = _look(repository, branch, key, force=force)
    if not isinstance(vacancy, Vacancy):
        raise _exists(path)
    return vacancy


def stage_if_absent(
    repository: RepositoryParts,
    branch: str,
    path: str,
    key: bytes,
    packed: bytes,
    deadline: Deadline,
    known_vacancy: Vacancy | None = None,
    *,
    force: bool = False,
) -> None:
    """Stage a record if the branch has no object of this path. ``known_vacancy`` is what :func:`expect_absent` returned, however
    long ago; ``deadline`` is the deadline of the work that made the object: :class:`BusyError` past it.

    A look, unless there was one, and one transaction; both again after losing a race.
    Finding one's own record after an attempt is success: the response to that attempt was lost.
    """
    vacancy = known_vacancy or expect_absent(repository, branch, path, key, force=force)
    backoff = Backoff(repository.clock)
    while True:
        state = vacancy.state
        deadline.check(f"creating {path!r} on branch {branch!r}")
        try:
            repository.tables.transact(
                [
                    repository.staged.put_write(state.open, key, packed, vacancy.top),
                    repository.refs.unchanged_check(state),
                ]
            )
            return
        except ConditionFailedError:
            pass
        except UnavailableError:
            if _look(repository, branch, key, force=force) == packed:
                return
            raise
        record = _look(repository, branch, key, force=force)
        if record == packed:
            return
        if not isinstance(record, Vacancy):
            raise _exists(path)
        vacancy = record
        if not backoff.wait():
            raise busy(branch)


def _look(repository: RepositoryParts, branch: str, key: bytes, *, force: bool) -> Vacancy | bytes:
    """Return the record that the branch has for a key, or that it has none."""
    state = repository.branches.state(branch, Intent(direct=True, force=force))
    staged = repository.staged.look((state.open, *state.sealed[::-1]), key)
    newest = next((change for change in staged if change is not None), None)
    trees, branches = repository.trees, repository.branches
    packed = trees.get(branches.commit(state.commit_id).metarange, key) if newest is None else newest.packed
    return Vacancy(state, staged[0]) if packed is None else packed


def _exists(path: str) -> AlreadyExistsError:
    return AlreadyExistsError("object", path, "delete it first, or write without the condition that it does not exist")
