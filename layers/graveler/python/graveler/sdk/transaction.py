"""Transactions: a hidden branch that is committed, merged and deleted, or only deleted."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

from graveler.errors import AlreadyExistsError, DirtyBranchError, InvalidError, NoChangesError, RefNotFoundError
from graveler.history.names import check_tag
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.model import CommitID
from graveler.sdk.access import RepositoryAccess
from graveler.sdk.writable import WritableReference, commit_branch


class Transaction(WritableReference):
    """The hidden branch of a transaction, inside its ``with`` block. Message, metadata and tag may be set until the
    block ends."""

    def __init__(
        self,
        repository: RepositoryAccess,
        branch_id: str,
        source_id: str,
        commit_message: str,
        commit_metadata: Mapping[str, str] | None,
        tag: str | None,
    ) -> None:
        super().__init__(repository, branch_id)
        self.commit_message = commit_message
        self.commit_metadata = commit_metadata
        self.tag = tag
        self._source_id = source_id
        self.merged: CommitID | None = None
        """The ID of the merge commit, once the block has ended successfully."""

    @property
    def source_id(self) -> str:
        """The branch that the transaction merges into."""
        return self._source_id


@contextmanager
def transaction(
    repository: RepositoryAccess,
    branch_id: str,
    message: str,
    metadata: Mapping[str, str] | None,
    tag: str | None,
    *,
    keep_on_error: bool,
) -> Generator[Transaction]:
    """Run a transaction. See :meth:`graveler.sdk.branch.Branch.transaction`."""
    source = WritableReference(repository, branch_id)
    if next(source.uncommitted(max_amount=1), None) is not None:
        raise DirtyBranchError(branch_id, "a transaction on it")  # or its merge would be refused, after all the work
    with hidden_branch(repository.verbs, branch_id, repository.user, keep_on_error=keep_on_error) as name:
        work = Transaction(repository, name, branch_id, message, metadata, tag)
        process = os.getpid()
        yield work
        if os.getpid() != process:
            raise InvalidError(
                f"this process was forked in a transaction on {branch_id!r}, which ends in its parent; nothing was committed "
                "here. End the child inside the block, with sys.exit() or os._exit()"
            )
        if work.tag is not None:
            _refuse_taken(repository, work.tag)
        try:
            commit_branch(repository, name, work.commit_message, work.commit_metadata)
        except NoChangesError:  # it names the hidden branch, which means nothing to the user
            raise NoChangesError(
                f"nothing to commit in the transaction on {branch_id!r}: its block changed nothing"
            ) from None
        commit = work.merge_into(
            source,
            message=f"Merge transaction: {work.commit_message}" if work.commit_message else "Merge transaction",
            metadata=work.commit_metadata,
        )
        work.merged = CommitID(commit.id)
    if work.tag is not None:
        repository.verbs.create_tag(work.tag, work.merged, by=repository.user)


def _refuse_taken(repository: RepositoryAccess, tag: str) -> None:
    """Check before the merge that its tag can be created: the merge cannot be undone afterwards."""
    check_tag(tag)
    with suppress(RefNotFoundError):
        repository.verbs.tag(tag)
        raise AlreadyExistsError("tag", tag)
