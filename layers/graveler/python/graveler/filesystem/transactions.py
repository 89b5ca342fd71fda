"""``with fs.transaction:``, whose writes become one commit of one branch, or none."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from fsspec.transaction import Transaction

from graveler.errors import InvalidError, NoChangesError
from graveler.forks import new_lock

if TYPE_CHECKING:
    from graveler.filesystem.lakes import OpenedLake
    from graveler.sdk.transaction import Transaction as LakeTransaction

MESSAGE = "Write files in a transaction"
"""The message of the commit, unless :attr:`CommitTransaction.message` says another."""


_starting: Final = new_lock()


class Transacted(Protocol):
    """What a transaction needs of its filesystem, as fsspec's own transactions do."""

    opened: "OpenedLake"
    _intrans: bool
    _transaction: object


class CommitTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """A transaction on the branch that is written to first: a hidden branch that is committed and merged at the end, or deleted.

    Writes and reads of that branch go to the hidden one meanwhile; other refs are read as ever. ``message`` may be set until the
    end. A second branch is refused with ``ValueError``, as is a file that is still open at the end, and a second transaction of
    the same filesystem before this one has ended. Threads that share the filesystem share its transaction. See
    :meth:`graveler.sdk.branch.Branch.transaction` for costs and errors.
    """

    def __init__(self, fs: Transacted, **options: Any) -> None:
        super().__init__(fs, **options)
        self._fs = fs
        self.message = MESSAGE
        self._branch: tuple[str, str] | None = None
        self._block: AbstractContextManager[LakeTransaction] | None = None
        self._work: LakeTransaction | None = None
        self._lock = new_lock()
        self._begun = False

    def start(self) -> None:
        """Begin: writes of the filesystem belong to this transaction from now on."""
        with _starting:
            if self._fs._intrans:
                raise ValueError(
                    "this filesystem has a transaction already, and one cannot begin before it ends; use another instance, with "
                    "skip_instance_cache=True"
                )
            super().start()
            self._fs._transaction = self
            self._begun = True

    def reading(self, repository: str, ref: str) -> str | None:
        """Return the hidden branch instead of a ref, if this transaction writes there; else None."""
        return self._work.id if self._work is not None and self._branch == (repository, ref) else None

    def writing(self, repository: str, branch: str) -> str:
        """Return the hidden branch to write to instead of ``branch``. The first call begins the transaction."""
        with self._lock:
            if not self._begun:
                raise InvalidError("the transaction has ended; begin another one")
            if self._branch is None:
                block = self._fs.opened.repository(repository).branch(branch).transaction(self.message)
                self._work = block.__enter__()
                self._block, self._branch = block, (repository, branch)
            if self._branch != (repository, branch) or self._work is None:
                raise InvalidError(
                    f"the transaction writes to {'/'.join(self._branch)!r}, and one commit cannot also write to "
                    f"{repository}/{branch}; use a transaction of its own"
                )
            return self._work.id

    def complete(self, commit: bool = True) -> None:
        """Commit and merge, or delete, what was written."""
        fs = self._fs
        with self._lock:
            block, work = self._block, self._work
            self._block = self._work = self._branch = None
            self._begun = False
        still_open = [file for file in self.files if not file.closed]
        for file in still_open:
            file.discard()
        self.files.clear()
        fs._intrans = False
        fs._transaction = None
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
        _leave(block, error)
        if still_open and commit and error is not None:
            raise error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.complete(commit=kind is None)


class _DiscardedError(Exception):
    """The caller gives the transaction up."""


def _leave(block: "AbstractContextManager[LakeTransaction]", error: BaseException | None) -> None:
    if error is None:
        try:
            block.__exit__(None, None, None)
        except NoChangesError:
            return  # what was written was there before
        return
    try:
        block.__exit__(type(error), error, None)
    except BaseException as raised:
        if raised is not error:
            raise
