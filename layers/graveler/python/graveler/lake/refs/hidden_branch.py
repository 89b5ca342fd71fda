"""The hidden branch that a transaction works on: it is there as long as the transaction, and belongs to it.

The transaction holds the branch's lease (:mod:`graveler.history.owners`), which a thread renews. A process that is killed renews
nothing any more, and the collector of garbage deletes the branch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread
from typing import Final, Protocol
from uuid import uuid4

from graveler.errors import GravelerError, NotFoundError, TransactionGoneError
from graveler.history.owners import RENEWAL
from graveler.model import Branch

HIDDEN: Final = "tx-"
"""What the names of transactions' branches begin with."""


class BranchVerbs(Protocol):
    """What a transaction needs of its repository, here or behind a server."""

    def branch(self, name: str) -> Branch: ...
    def create_branch(
        self, name: str, source: str, *, by: str = "", hidden: bool = False, force: bool = False, owner: str = ""
    ) -> Branch: ...
    def renew_branch(self, name: str, owner: str) -> None: ...
    def release_branch(self, name: str, owner: str) -> None: ...
    def delete_branch(self, name: str, *, by: str = "", force: bool = False) -> None: ...


def hidden_name() -> str:
    """A name for a hidden branch that nobody has used."""
    return f"{HIDDEN}{uuid4()}"


@contextmanager
def hidden_branch(
    verbs: BranchVerbs, source: str, by: str, *, keep_on_error: bool = False, name: str = "", at: str = ""
) -> Iterator[str]:
    """A hidden branch of ``source`` for a ``with`` block: its name. It is deleted when the block ends; with ``keep_on_error``, a
    block that ends by an exception leaves it to the user, and so does an error that says that it is :attr:`GravelerError.kept`.
    ``name`` is one that :func:`hidden_name` gave before; ``at`` is the commit to begin with, instead of the head of ``source``.

    Cost: creating and deleting a branch, and a table write (a request to a server) every :data:`RENEWAL` seconds.
    :class:`TransactionGoneError` if the branch was deleted during the block; errors of creating it.
    """
    name, owner, process = name or hidden_name(), token_hex(16), os.getpid()
    try:
        verbs.create_branch(name, at or source, by=by, hidden=True, owner=owner)
        with lease_kept(verbs, name, owner), _told_if_gone(verbs, name, source):
            yield name
    except BaseException as error:
        if os.getpid() != process:  # a forked child: the branch is its parent's
            raise
        if keep_on_error:
            with suppress(GravelerError):
                verbs.release_branch(name, owner)
        elif isinstance(error, GravelerError) and error.kept == name:
            try:
                verbs.release_branch(name, owner)
            except GravelerError:
                error.kept = ""  # its lease runs out, and a collector deletes it: promise nothing
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
                verbs.renew_branch(name, owner)
            except NotFoundError:
                return  # the block is told when it next asks for the branch; or the server knows no leases
            except GravelerError:
                continue  # the next renewal comes before the lease runs out

    thread = Thread(target=keep, name="graveler-transaction", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if os.getpid() == process:  # a forked child has no such thread, and maybe its locks
            over.set()
            thread.join()


@contextmanager
def _told_if_gone(verbs: BranchVerbs, name: str, source: str) -> Iterator[None]:
    """Say so if what the block did not find is the branch itself."""
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
        return False  # nobody knows, and what the block came to is the answer
    return False


def _forget(verbs: BranchVerbs, name: str, by: str) -> None:
    """Delete the hidden branch. Where this fails, the lease runs out, and the collector deletes the branch (promise C5); it must
    not hide what the transaction came to."""
    with suppress(GravelerError):
        verbs.delete_branch(name, by=by)
