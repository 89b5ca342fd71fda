"""The hidden branch that a transaction works on: it exists as long as the transaction, and belongs to it.

The transaction holds the branch's lease (:mod:`graveler.history.owners`), which a thread renews. A killed process stops
renewing it, and the garbage collector deletes the branch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread
from typing import Final, Protocol, TypeVar
from uuid import uuid4

from graveler.errors import GravelerError, NotFoundError, TransactionGoneError
from graveler.history.owners import RENEWAL
from graveler.lake.context import UNLIMITED, Context
from graveler.model import Branch
from graveler.requests.base import Request
from graveler.requests.refs import CreateBranch, DeleteBranch, ReleaseBranch, RenewBranch

T = TypeVar("T")

HIDDEN: Final = "tx-"
"""The prefix of the names of transactions' branches."""


class BranchVerbs(Protocol):
    """The verbs that a transaction needs of its repository, local or behind a server."""

    def branch(self, name: str) -> Branch: ...
    def run(self, request: Request[T], context: Context = UNLIMITED) -> T: ...


def hidden_name() -> str:
    """Return an unused name for a hidden branch."""
    return f"{HIDDEN}{uuid4()}"


@contextmanager
def hidden_branch(
    verbs: BranchVerbs, source: str, by: str, *, keep_on_error: bool = False, name: str = "", start: str = ""
) -> Iterator[str]:
    """Create a hidden branch of ``source`` for a ``with`` block, and yield its name. It is deleted when the block ends; with
    ``keep_on_error``, a block that ends by an exception leaves it to the user, and so does an error with this branch as its
    :attr:`GravelerError.kept`. ``name`` is one that :func:`hidden_name` returned; ``start`` is the commit to begin with, instead
    of the head of ``source``.

    Cost: creating and deleting a branch, and a table write (a request to a server) every :data:`RENEWAL` seconds.
    :class:`TransactionGoneError` if the branch was deleted during the block; errors of creating it.
    """
    name, owner, process = name or hidden_name(), token_hex(16), os.getpid()
    try:
        verbs.run(CreateBranch(name=name, source=start or source, hidden=True, owner=owner), Context(by=by))
        with lease_kept(verbs, name, owner), _told_if_gone(verbs, name, source):
            yield name
    except BaseException as error:
        if os.getpid() != process:  # a forked child: the branch is its parent's
            raise
        if keep_on_error:
            with suppress(GravelerError):
                verbs.run(ReleaseBranch(name=name, owner=owner))
        elif isinstance(error, GravelerError) and error.kept == name:
            try:
                verbs.run(ReleaseBranch(name=name, owner=owner))
            except GravelerError:
                error.kept = ""  # its lease expires, and a collector deletes it: promise nothing
        else:
            _forget(verbs, name, by)
        raise
    _forget(verbs, name, by)


@contextmanager
def lease_kept(verbs: BranchVerbs, name: str, owner: str, *, seconds: float = RENEWAL) -> Iterator[None]:
    """Renew the lease of a hidden branch every ``seconds`` until the block ends, in a thread that ends with the process."""
    over, process = Event(), os.getpid()

    def keep() -> None:
        while not over.wait(seconds):
            try:
                verbs.run(RenewBranch(name=name, owner=owner))
            except NotFoundError:
                return  # the block finds out when it next uses the branch; or the server does not know leases
            except GravelerError:
                continue  # the next renewal comes before the lease expires

    thread = Thread(target=keep, name="graveler-transaction", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if os.getpid() == process:  # a forked child does not have that thread, but maybe its locks
            over.set()
            thread.join()


@contextmanager
def _told_if_gone(verbs: BranchVerbs, name: str, source: str) -> Iterator[None]:
    """Raise :class:`TransactionGoneError` if the thing that the block did not find is the branch itself."""
    try:
        yield
    except NotFoundError as error:
        if not _is_gone(verbs, name):
            raise
        raise TransactionGoneError(name, source) from error


def _is_gone(verbs: BranchVerbs, name: str) -> bool:
    try:
        verbs.branch(name)
    except NotFoundError:
        return True
    except GravelerError:
        return False  # unknown, so the block's own error stands
    return False


def _forget(verbs: BranchVerbs, name: str, by: str) -> None:
    """Delete the hidden branch. If this fails, the lease expires, and the collector deletes the branch (promise C5); the failure
    must not hide the transaction's outcome."""
    with suppress(GravelerError):
        verbs.run(DeleteBranch(name=name), Context(by=by))
