"""``with fs.transaction:``, whose writes become one commit of one branch, or none.

fsspec hands out one filesystem for the same options in all threads of a process, so several threads may have transactions of it
at once. One belongs to the context that began it (``contextvars``): a thread, or a task of an event loop and the threads in which
its work runs. Libraries also write from threads that they keep, which have no context of their own. Their writes belong to the
only transaction there is; while there are several, nobody can tell which of them is meant, and they are refused.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from threading import local
from types import TracebackType
from typing import TYPE_CHECKING, Final

from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction

from graveler.errors import InvalidError, NoChangesError
from graveler.files.transaction import HiddenBranch, transaction
from graveler.filesystem.lakes import OpenedLake
from graveler.system.forks import new_lock
from graveler.system.tracebacks import ShortBlock

if TYPE_CHECKING:
    from graveler.files.writer import ObjectWriter

MESSAGE = "Write files in a transaction"
"""The message of the commit, unless :attr:`CommitTransaction.message` says another."""

_OWN_INSTANCE: Final = "use a filesystem of its own, with skip_instance_cache=True"

_context_transactions: "Final[ContextVar[tuple[CommitTransaction, ...]]]" = ContextVar("transactions", default=())
"""The transactions that this context began, of any filesystem, ended ones among them."""


class CommitTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """A transaction on the branch that is written to first: a hidden branch that is committed and merged at the end, or deleted.

    Writes and reads of that branch go to the hidden one meanwhile; other refs are read as ever. ``message`` may be set until the
    end. ``ValueError`` refuses a second branch; at the end a file that is still open, or that a thread is still writing; and a
    second transaction of the same filesystem in the same thread before this one has ended. Threads that began none share it, as
    long as it is the only one. See :meth:`graveler.sdk.branch.Branch.transaction` for costs and errors.
    """

    def __init__(self, fs: AbstractFileSystem, transactions: "Transactions") -> None:
        super().__init__(fs)
        self._transactions = transactions
        self.message = MESSAGE
        self._branch: tuple[str, str] | None = None
        self._block: AbstractContextManager[HiddenBranch] | None = None
        self._work: HiddenBranch | None = None
        self._lock = new_lock()
        self._begun = False
        self.is_new = True
        """Whether it has never begun."""
        self._changes = 0
        """Changes in progress, in any thread."""

    @property
    def transactions(self) -> "Transactions":
        """All transactions of the filesystem."""
        return self._transactions

    @property
    def in_progress(self) -> bool:
        """True from its beginning to its end."""
        return self._begun

    def start(self) -> None:
        """Begin: writes of the calling thread belong to this transaction from now on."""
        self._transactions.begin(self)

    def began(self) -> None:
        """Take writes from now on."""
        self.files.clear()
        self._begun, self.is_new = True, False

    @property
    def hidden(self) -> str | None:
        """The hidden branch, if it has begun one."""
        work = self._work
        return None if work is None else work.id

    def reading(self, repository: str, ref: str) -> str | None:
        """Return the hidden branch instead of a ref, if this transaction writes there; else None."""
        return self.hidden if self._branch == (repository, ref) else None

    @contextmanager
    def changing(self, repository: str, branch: str) -> Iterator[str]:
        """Run a block that changes the hidden branch, whose name it gets, instead of ``branch``. The first begins it."""
        with self._lock:
            if not self._begun:
                raise InvalidError("the transaction has ended; begin another one")
            if self._branch is None:
                access = self._transactions.opened.access(repository)
                make = partial(HiddenBranch, source_id=branch, commit_message=self.message)
                block = ShortBlock(transaction(access, branch, make))
                self._work = block.__enter__()
                self._block, self._branch = block, (repository, branch)
            if self._branch != (repository, branch) or self._work is None:
                raise InvalidError(
                    f"the transaction writes to {'/'.join(self._branch)!r}, and one commit cannot also write to "
                    f"{repository}/{branch}; use a transaction of its own"
                )
            hidden = self._work.id
            self._changes += 1
        try:
            yield hidden
        finally:
            with self._lock:
                self._changes -= 1

    def add(self, file: "ObjectWriter") -> None:
        """Note a file that was opened in it, and has to be closed before its end."""
        with self._lock:
            if self._begun:
                self.files.append(file)
                return
        file.discard()
        raise InvalidError("the transaction has ended; begin another one")

    def complete(self, commit: bool = True) -> None:
        """Commit and merge, or delete, what was written."""
        with self._lock:
            block, work, changes = self._block, self._work, self._changes
            self._block = self._work = self._branch = None
            self._begun = False
            still_open = [file for file in self.files if not file.closed]
            self.files.clear()
        self._transactions.end(self)
        for file in still_open:
            file.discard()
        if block is None or work is None:
            return
        work.commit_message = self.message
        error: BaseException | None = None
        if not commit:
            error = _DiscardedError()
        elif still_open:
            error = ValueError(
                f"{still_open[0].name!r} was still open at the end of the transaction; nothing was written"
            )
        elif changes:
            error = ValueError("a thread was still writing at the end of the transaction; nothing was written")
        _leave(block, error)
        if commit and error is not None:
            raise error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.complete(commit=kind is None)


class Transactions:
    """The transactions of one filesystem, whose ``opened`` lake they change."""

    def __init__(self, fs: AbstractFileSystem, opened: OpenedLake) -> None:
        self.opened = opened
        self._fs = fs
        self._lock = new_lock()
        self._in_progress: list[CommitTransaction] = []
        self._next = local()

    @property
    def of_this_context(self) -> CommitTransaction:
        """The transaction that this thread has begun, else that which it will begin next."""
        begun = self._begun()
        if begun is not None:
            return begun
        following: CommitTransaction | None = getattr(self._next, "transaction", None)
        if following is None or not following.is_new:
            following = self._next.transaction = CommitTransaction(self._fs, self)
        return following

    @property
    def current(self) -> CommitTransaction | None:
        """The transaction to which a change in this thread belongs. :class:`InvalidError` if it began none of several."""
        if not self._in_progress:
            return None
        begun = self._begun()
        if begun is not None:
            return begun
        candidates = self.open_transactions()
        if len(candidates) > 1:
            raise InvalidError(
                f"this filesystem has {len(candidates)} transactions now, and this thread, which writes, began none of them; "
                f"for each transaction {_OWN_INSTANCE}"
            )
        return candidates[0] if candidates else None

    def reading(self, repository: str, ref: str) -> str | None:
        """Return the hidden branch that this thread reads instead of a ref, if one of its transactions writes there.
        :class:`InvalidError` if several do, and it began none of them."""
        if not self._in_progress:
            return None
        begun = self._begun()
        candidates = self.open_transactions() if begun is None else [begun]
        branches = [branch for tx in candidates if (branch := tx.reading(repository, ref)) is not None]
        if len(branches) > 1:
            raise InvalidError(
                f"{len(branches)} transactions of this filesystem write to {f'{repository}/{ref}'!r} now, and this thread, which "
                f"reads it, began none of them; for each transaction {_OWN_INSTANCE}"
            )
        return branches[0] if branches else None

    def is_hidden(self, ref: str) -> bool:
        """Return whether a ref is the hidden branch of one of them."""
        return any(transaction.hidden == ref for transaction in self.open_transactions())

    def begin(self, transaction: CommitTransaction) -> None:
        """Begin one. ``ValueError`` if this thread has one, or it has begun already."""
        with self._lock:
            if transaction.in_progress or self._begun() is not None:
                raise ValueError(
                    "this filesystem has a transaction already, and one cannot begin before it ends; for another one "
                    f"{_OWN_INSTANCE}"
                )
            transaction.began()
            self._in_progress.append(transaction)
            self._fs._intrans = True
        _context_transactions.set((*_still_open(), transaction))

    def end(self, transaction: CommitTransaction) -> None:
        """Forget one that has ended."""
        with self._lock:
            if transaction in self._in_progress:
                self._in_progress.remove(transaction)
            self._fs._intrans = bool(self._in_progress)
        _context_transactions.set(_still_open())

    def open_transactions(self) -> list[CommitTransaction]:
        """Return the transactions in progress."""
        with self._lock:
            return list(self._in_progress)

    def _begun(self) -> CommitTransaction | None:
        """Return the transaction of this filesystem that this context began."""
        return next((transaction for transaction in _still_open() if transaction.transactions is self), None)


def _still_open() -> tuple[CommitTransaction, ...]:
    """Return the transactions that this context began, without those that have ended."""
    return tuple(transaction for transaction in _context_transactions.get() if transaction.in_progress)


class _DiscardedError(Exception):
    """The caller gives the transaction up."""


def _leave(block: "AbstractContextManager[HiddenBranch]", error: BaseException | None) -> None:
    if error is None:
        try:
            block.__exit__(None, None, None)
        except NoChangesError:
            return  # the branch has these objects already
        return
    try:
        block.__exit__(type(error), error, None)
    except BaseException as raised:
        if raised is not error:
            raise
