"""Branches and tags of one repository: made, moved and removed."""

from graveler.history.expressions import resolve
from graveler.lake.verbs.base import VerbsBase
from graveler.model import Branch, CommitID, Tag


class RefVerbs(VerbsBase):
    """Verbs about refs."""

    def create_branch(
        self, name: str, source: str, *, by: str = "", hidden: bool = False, force: bool = False, owner: str = ""
    ) -> Branch:
        """Point a new branch at the commit of ``source``. Cost: resolving, one table read and one transaction, whatever the
        lake's size.

        With an ``owner``, a hidden branch belongs to the transaction of this name, which has to call :meth:`renew_branch` every
        :data:`graveler.history.owners.RENEWAL` seconds: otherwise the collector of garbage deletes the branch.

        :class:`AlreadyExistsError`, :class:`InvalidError` for the name, :class:`RefNotFoundError`.
        """
        commit_id = resolve(source, self._refs, self._commits).commit_id
        return self._branches.create(name, commit_id, by, hidden=hidden, force=force, owner=owner)

    def renew_branch(self, name: str, owner: str) -> None:
        """Show that the transaction ``owner`` still works on its hidden branch. Cost: one table write. :class:`RefNotFoundError`
        if the branch is gone, or is not the owner's any more."""
        self._branches.renew(name, owner)

    def release_branch(self, name: str, owner: str) -> None:
        """Keep a hidden branch when the transaction ``owner`` ends: no collector deletes it from then on. Cost: one table
        write."""
        self._branches.release(name, owner)

    def delete_branch(self, name: str, *, by: str = "", force: bool = False, at: CommitID | None = None) -> None:
        """Remove a branch and its uncommitted changes; with ``at``, only if that commit is its head. Cost: one table read, one
        transaction. :class:`ForbiddenError` for the default branch and for a protected one, :class:`MovedError` for another
        head."""
        self._branches.delete(name, by, force=force, at=at)

    def rename_branch(self, old: str, new: str, *, by: str = "", force: bool = False) -> Branch:
        """Give a branch another name; its uncommitted changes go with it. The reference log of before stays under the old name.
        What is staged is staged again under a token that the old name never had, so that a process which still knows the old name
        cannot change it. Cost: three table reads, two transactions, and one read for each token of the branch and its shards; one
        table write for each 25 staged, one read for each thousand. While that lasts, changes of the branch wait. A commit or
        merge at work on it fails, and loses nothing.

        :class:`ForbiddenError` for the default branch, :class:`AlreadyExistsError`, :class:`InvalidError` for the new name.
        """
        return self._renamer.rename(old, new, by, force=force)

    def hard_reset(self, branch: str, ref: str, *, by: str = "", force: bool = False) -> Branch:
        """Move a branch to the commit of any ref. What was committed since stays in the table, and :meth:`undo` goes back to it.

        Cost: resolving, the branch; one table read for each token and shard to see that nothing is staged; the head's commit and
        metarange if something is; one transaction; nothing at all if the branch is there already. Waits for a commit that is at
        work. :class:`DirtyBranchError` while there are uncommitted changes, :class:`RefNotFoundError` also for a commit that has
        expired, :class:`BusyError`.
        """
        return self._mover.hard_reset(branch, resolve(ref, self._refs, self._commits).commit_id, by, force=force)

    def undo(self, branch: str, *, by: str = "", force: bool = False, request_id: str = "") -> Branch:
        """Move a branch back to where it was before what moved it last, as its reference log has it: a commit, merge, import,
        hard reset, or an undo itself. With a ``request_id``, a repeated call changes nothing, and returns what the first one did,
        while the branch was not moved a hundred times since.

        Cost: two table reads, and :meth:`hard_reset`. :class:`NotFoundError` if nothing has moved it since it was created, as far
        back as the log goes; :class:`PreconditionError` if it is being moved right now; those of :meth:`hard_reset`.
        """
        return self._mover.undo(branch, by, force=force, request_id=request_id)

    def create_tag(self, name: str, ref: str, *, by: str = "", force: bool = False) -> Tag:
        """Name the commit of ``ref``. Cost: resolving and one transaction. Errors as :meth:`create_branch`."""
        return self._branches.create_tag(name, resolve(ref, self._refs, self._commits).commit_id, by, force=force)

    def delete_tag(self, name: str, *, by: str = "", force: bool = False) -> None:
        """Remove a tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""
        self._branches.delete_tag(name, by, force=force)
