"""Branches: the objects on them, and operations on a branch as a whole."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from graveler import requests
from graveler.errors import AlreadyExistsError
from graveler.files.transaction import expect_text
from graveler.model import Commit, MergeStrategies, MergeStrategy
from graveler.requests.base import CommitInfo
from graveler.sdk.reference import Reference, ReferenceType, read_strategies, ref_of
from graveler.sdk.writable import WritableReference
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.system.tracebacks import ShortBlock, short_traceback, short_tracebacks

if TYPE_CHECKING:
    from graveler.requests.importing import Imported, ListingOptions
    from graveler.sdk.import_manager import ImportManager
    from graveler.sdk.transaction import Transaction


@short_tracebacks("import_data", "transact")
class Branch(WritableReference):
    """A branch, by name. It need not exist yet."""

    def create(self, source_reference: ReferenceType, exist_ok: bool = False, *, hidden: bool = False) -> "Branch":
        """Create the branch at the commit of ``source_reference``. With ``exist_ok``, leave an existing branch as it is.

        Cost: resolving the ref and one transaction, whatever the lake's size. :class:`AlreadyExistsError`, :class:`InvalidError`.
        """
        try:
            request = requests.refs.CreateBranch(name=self._id, source=ref_of(source_reference), hidden=hidden)
            self._access.repository.run(request, self._context)
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Delete the branch and its uncommitted changes. Cost: one table read, one transaction. :class:`ForbiddenError` for the
        default branch."""
        self._access.repository.run(requests.refs.DeleteBranch(name=self._id), self._context)

    def rename(self, branch_id: str) -> "Branch":
        """Rename the branch, along with its uncommitted changes, and return the new handle. Cost and errors as
        :class:`RenameBranch`."""
        self._access.repository.run(requests.refs.RenameBranch(old=self._id, new=branch_id), self._context)
        return Branch(self._access, branch_id)

    @property
    @short_traceback
    def head(self) -> Reference:
        """The branch's current commit. Cost: one table read."""
        return Reference(self._access, self._access.repository.branch(self._id).commit_id)

    def commit(
        self,
        message: str,
        metadata: Mapping[str, str] | None = None,
        *,
        allow_empty: bool = False,
        date: int | None = None,
        request_id: str = "",
        progress: ObjectProgress = no_object_progress,
    ) -> Reference:
        """Commit all uncommitted changes atomically. ``date`` is in Unix seconds.

        ``progress`` is called with numbers of changes and bytes that the commit has taken; behind a server, never.
        With a ``request_id``, a repeated call returns the commit of the first one. Cost and errors as :class:`Commit`:
        :class:`NoChangesError`, :class:`BusyError`.
        """
        expect_text(message)
        info = CommitInfo(message, self._access.user, metadata or {}, date, request_id)
        request = requests.committing.Commit(branch=self._id, info=info, allow_empty=allow_empty)
        commit = self._access.repository.run(request, replace(self._context, progress=progress))
        return Reference(self._access, commit.id)

    def revert(
        self,
        reference: ReferenceType,
        parent_number: int = 0,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies | str = MergeStrategy.NONE,
        allow_empty: bool = False,
    ) -> Commit:
        """Undo the changes of one commit with a new commit. ``parent_number`` (from 1) selects the parent to compare a merge
        commit with. ``strategy`` decides conflicts as in :meth:`Reference.merge_into`: with ``"source-wins"``, the objects become
        those before the commit, with ``"dest-wins"`` they stay as they are on the branch.

        Cost and errors as :class:`Revert`.
        """
        return self._access.repository.run(
            requests.merging.Revert(
                branch=self._id,
                ref=ref_of(reference),
                parent_number=parent_number,
                info=CommitInfo(message, self._access.user, metadata or {}),
                strategies=read_strategies(strategy),
                allow_empty=allow_empty,
            ),
            self._context,
        )

    def cherry_pick(
        self,
        reference: ReferenceType,
        parent_number: int = 0,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies | str = MergeStrategy.NONE,
        allow_empty: bool = False,
    ) -> Commit:
        """Apply the changes of one commit to this branch, with that commit's message and metadata. ``strategy`` decides conflicts
        as in :meth:`Reference.merge_into`. Cost and errors as :class:`CherryPick`."""
        return self._access.repository.run(
            requests.merging.CherryPick(
                branch=self._id,
                ref=ref_of(reference),
                parent_number=parent_number,
                info=CommitInfo(message, self._access.user, metadata or {}),
                strategies=read_strategies(strategy),
                allow_empty=allow_empty,
            ),
            self._context,
        )

    def hard_reset(self, reference: ReferenceType) -> Reference:
        """Move the branch to the commit of any ref and return the new head. Cost and errors as :class:`HardReset`."""
        request = requests.refs.HardReset(branch=self._id, ref=ref_of(reference))
        moved = self._access.repository.run(request, self._context)
        return Reference(self._access, moved.commit_id)

    def undo(self) -> Reference:
        """Undo the branch's last move and return the new head. Cost and errors as :class:`Undo`."""
        moved = self._access.repository.run(requests.refs.Undo(branch=self._id), self._context)
        return Reference(self._access, moved.commit_id)

    def import_data(self, commit_message: str = "", metadata: Mapping[str, str] | None = None) -> "ImportManager":
        """Import existing objects without copying, from several locations in one commit: add the locations, then call
        ``run()``."""
        from graveler.sdk.import_manager import ImportManager  # few programs import

        return ImportManager(self._access, self._id, commit_message, metadata)

    def import_listing(
        self,
        listing: str | Path,
        options: "ListingOptions | None" = None,
        *,
        commit_message: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        dry_run: bool = False,
    ) -> "Imported":
        """Import the objects named by a listing (CSV, Parquet, S3 Inventory) without copying them, as one commit. The result,
        ``allow_empty`` and ``dry_run`` are those of :meth:`ImportManager.run`. Cost and errors as :class:`ImportListing`."""
        return self._access.repository.run(
            requests.importing.ImportListing(
                branch=self._id,
                listing=(Path(listing).expanduser(),),
                options=options or requests.importing.ListingOptions(),
                info=CommitInfo(commit_message, self._access.user, metadata or {}),
                allow_empty=allow_empty,
                dry_run=dry_run,
            ),
            self._context,
        )

    def transaction(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        tag: str | None = None,
        keep_on_error: bool = False,
    ) -> "AbstractContextManager[Transaction]":
        """Make several changes atomic: a ``with`` block whose changes all reach the branch when it ends, or none of them do.

        The block works on a hidden branch. At its end that branch is committed, merged into this one and deleted; ``tag`` names
        the merge commit. If any exception leaves the block, KeyboardInterrupt included, the hidden branch is deleted (unless
        ``keep_on_error``) and this branch is unchanged. Nothing is locked: a concurrent change to the same objects on this branch
        causes a :class:`MergeConflictError`.

        Cost: :meth:`uncommitted`, to check that it is empty, and :meth:`create`; at the end a commit, a merge and the deletion of
        a branch. :class:`DirtyBranchError` before the block or at its end; :class:`NoChangesError` if the block changed nothing;
        the errors of :class:`Merge`.
        """
        from graveler.files.transaction import transaction  # few programs need one
        from graveler.sdk.transaction import Transaction

        return ShortBlock(
            transaction(
                self._access,
                self._id,
                lambda name: Transaction(self._access, name, self._id, message, metadata, tag),
                keep_on_error=keep_on_error,
            )
        )

    def transact(
        self,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
        delete_branch_on_error: bool = True,
        tag: str | None = None,
    ) -> "AbstractContextManager[Transaction]":
        """Start a :meth:`transaction`, with the argument names of the package ``lakefs``."""
        return self.transaction(
            commit_message, metadata=commit_metadata, tag=tag, keep_on_error=not delete_branch_on_error
        )
