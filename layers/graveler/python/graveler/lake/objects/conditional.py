"""Conditional changes: staging an object, or a delete, on condition of what the branch has at its path.

First, look at everything below: the open token, the sealed ones, the commit; a tombstone hides what is below it. Then one
transaction stages the record on condition that the open token's item for the path is exactly as read, and so is the branch: head,
open and sealed tokens. Without the second condition two writers can win, one of them in a token that a commit is taking out.
A late write in a sealed token is not acknowledged yet, so nothing else below can have changed. If such a one is replaced, the
transaction marks it, so that its writer does not put it again (:mod:`graveler.lake.objects.late_puts`).

The transaction also marks the branch. A merge reads what is staged, and then publishes on condition of the branch; without the
mark, it could publish another version of the object below the staged record, and neither would have seen the other.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from graveler.errors import (
    AlreadyExistsError,
    ObjectChangedError,
    ObjectNotFoundError,
    UnavailableError,
)
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.deadline import Deadline
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Token
from graveler.requests.staging import ANY_OBJECT, Condition
from graveler.staging.changes import Staged, may_be_put_again, record_of
from graveler.storage.tables.port import ConditionFailedError, Item, Write

Change = Callable[[bytes | None], bytes | None]
"""Takes the packed record that a branch has at a path, and returns the one to stage there, None each for no object. Raises if the
condition fails, or if there is nothing to change."""


class Basis(Struct, frozen=True):
    """The contents of a branch at a path: the packed record (None: no object). ``state`` is the branch as it was then, ``top``
    the change under its open token. ``late`` is the token and the item of a put that may be too late, if the contents are its."""

    state: BranchState
    top: Staged | None
    packed: bytes | None
    late: tuple[Token, Item] | None = None


def change_on(
    condition: Condition, repository: RepositoryParts, branch: str, path: str, key: bytes, packed: bytes | None
) -> Change:
    """Return the change to ``packed`` (None: a delete) under a condition. A delete of no object is success. The change raises
    :class:`AlreadyExistsError`, :class:`ObjectNotFoundError`, :class:`ObjectChangedError`."""

    def decide(current: bytes | None) -> bytes | None:
        if condition.if_absent and current is not None:
            raise AlreadyExistsError(
                "object", path, "delete it first, or write without the condition that it does not exist"
            )
        if condition.if_match and current is None and packed is not None:
            raise ObjectNotFoundError(path, branch)
        if condition.if_match not in ("", ANY_OBJECT) and current is not None:
            checksum = repository.codec.decode(key, current).checksum
            if checksum != condition.if_match:
                raise ObjectChangedError(path, branch, condition.if_match, checksum)
        return packed

    return decide


def look(repository: RepositoryParts, branch: str, key: bytes, *, force: bool = False) -> Basis:
    """Return what a branch has at a key. Two table reads; unless something is staged for it, the commit, its metarange, one range
    at most. :class:`RefNotFoundError`, :class:`ForbiddenError`."""
    state = repository.branches.state(branch, Intent(direct=True, force=force))
    tokens = (state.open, *state.sealed[::-1])
    for token, item in zip(tokens, repository.staged.items(tokens, key), strict=True):
        if item is not None:
            packed = record_of(item)
            if token == state.open:
                return Basis(state, Staged(packed), packed)
            return Basis(state, None, packed, (token, item) if may_be_put_again(item) else None)
    return Basis(state, None, repository.trees.get(repository.branches.commit(state.commit_id).metarange, key))


def stage_change(
    repository: RepositoryParts,
    branch: str,
    path: str,
    key: bytes,
    change: Change,
    deadline: Deadline,
    basis: Basis | None = None,
    *,
    force: bool = False,
    also: Sequence[Write] = (),
) -> bytes | None:
    """Stage a change of what the branch has at a path, and return the staged record (None: a tombstone). ``basis`` is what
    :func:`look` returned, however long ago; ``deadline`` is the deadline of the work that made the object: :class:`BusyError`
    past it, or if others keep changing the branch. ``also`` is written in the same transaction: :class:`ConditionFailedError` if
    a condition there fails, perhaps on an earlier attempt of this very call.

    A look, unless there was one, and one transaction; both again after losing a race, as long as ``change`` does not raise.
    Finding one's own record after an attempt is success: the response to that attempt was lost. A tombstone shows no owner, and
    its writer may still take it back, so a delete with a lost response is staged again.
    """
    if basis is None:
        basis = look(repository, branch, key, force=force)
    backoff = Backoff(repository.clock)
    while True:
        record = change(basis.packed)
        deadline.check(f"changing {path!r} on branch {branch!r}")
        lost: UnavailableError | None = None
        writes: list[Write] = [
            repository.staged.put_write(basis.state.open, key, record, basis.top),
            repository.refs.conditional_write(basis.state),
        ]
        if basis.late is not None:
            writes.append(repository.staged.replaced_write(basis.late[0], key, basis.late[1]))
        try:
            repository.tables.transact([*writes, *also])
            return record
        except ConditionFailedError as error:
            if max(error.failures) >= len(writes):
                raise
        except UnavailableError as error:
            lost = error
        basis = look(repository, branch, key, force=force)
        if record is not None and basis.packed == record:
            return record
        if lost is not None and (record is not None or basis.packed is not None):
            raise lost
        if not backoff.wait():
            raise busy(branch)
