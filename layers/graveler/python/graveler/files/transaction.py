"""Transactions: a hidden branch that is committed, merged and deleted, or only deleted."""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from graveler import requests
from graveler.errors import AlreadyExistsError, DirtyBranchError, InvalidError, NoChangesError, RefNotFoundError
from graveler.files.repository import RepositoryAccess
from graveler.history.names import check_tag
from graveler.lake.context import Context
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.model import CommitID
from graveler.requests.base import CommitInfo

B = TypeVar("B", bound="HiddenBranch")


class HiddenBranch:
    """The hidden branch of a transaction. Message, metadata and tag may be set until the transaction ends."""

    def __init__(
        self,
        branch_id: str,
        source_id: str,
        commit_message: str,
        commit_metadata: Mapping[str, str] | None = None,
        tag: str | None = None,
    ) -> None:
        self._id = branch_id
        self.commit_message = commit_message
        self.commit_metadata = commit_metadata
        self.tag = tag
        self._source_id = source_id
        self.merged: CommitID | None = None
        """The ID of the merge commit, once the block has ended successfully."""

    @property
    def id(self) -> str:
        """The name of the hidden branch."""
        return self._id

    @property
    def source_id(self) -> str:
        """The branch that the transaction merges into."""
        return self._source_id


@contextmanager
def transaction(
    access: RepositoryAccess, branch_id: str, make: Callable[[str], B], *, keep_on_error: bool = False
) -> Generator[B]:
    """Run a transaction on a branch; ``make`` returns the object for the name of its hidden branch. See
    :meth:`graveler.sdk.branch.Branch.transaction`."""
    repository, context = access.repository, Context(by=access.user)
    if repository.uncommitted(branch_id, amount=1).results:
        raise DirtyBranchError(branch_id, "a transaction on it")  # or its merge would be refused, after all the work
    with hidden_branch(repository, branch_id, access.user, keep_on_error=keep_on_error) as name:
        work = make(name)
        process = os.getpid()
        yield work
        if os.getpid() != process:
            raise InvalidError(
                f"this process was forked in a transaction on {branch_id!r}, which ends in its parent; nothing was committed "
                "here. End the child inside the block, with sys.exit() or os._exit()"
            )
        if work.tag is not None:
            _expect_no_tag(access, work.tag)
        expect_text(work.commit_message)
        info = CommitInfo(work.commit_message, access.user, work.commit_metadata or {})
        try:
            repository.run(requests.committing.Commit(branch=name, info=info), context)
        except NoChangesError:  # it names the hidden branch, which means nothing to the user
            raise NoChangesError(
                f"nothing to commit in the transaction on {branch_id!r}: its block changed nothing"
            ) from None
        message = f"Merge transaction: {work.commit_message}" if work.commit_message else "Merge transaction"
        info = CommitInfo(message, access.user, work.commit_metadata or {})
        commit = repository.run(requests.merging.Merge(source=name, destination=branch_id, info=info), context)
        work.merged = CommitID(commit.id)
    if work.tag is not None:
        repository.run(requests.refs.CreateTag(name=work.tag, ref=work.merged), context)


def expect_text(message: object) -> None:
    """Refuse a commit message of another type. ``TypeError``."""
    if not isinstance(message, str):
        raise TypeError(f"a commit message must be text, not {type(message).__name__}")


def _expect_no_tag(access: RepositoryAccess, tag: str) -> None:
    """Check before the merge that its tag can be created: the merge cannot be undone afterwards."""
    check_tag(tag)
    with suppress(RefNotFoundError):
        access.repository.tag(tag)
        raise AlreadyExistsError("tag", tag)
