"""Branches and tags of one repository: made, moved and removed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.history.expressions import resolve
from graveler.lake.context import Context
from graveler.lake.verbs.base import VerbsBase
from graveler.model import Branch, CommitID, Tag
from graveler.requests import refs
from graveler.requests.base import Request


class RefVerbs(VerbsBase):
    """Does what requests about refs ask for."""

    def _create_branch(self, request: refs.CreateBranch, context: Context) -> Branch:
        commit = self._resolved(request.source)
        hidden, owner = request.hidden, request.owner
        return self._branches.create(request.name, commit, context.by, hidden=hidden, force=request.force, owner=owner)

    def _renew_branch(self, request: refs.RenewBranch, _: Context) -> None:
        self._branches.renew(request.name, request.owner)

    def _release_branch(self, request: refs.ReleaseBranch, _: Context) -> None:
        self._branches.release(request.name, request.owner)

    def _delete_branch(self, request: refs.DeleteBranch, context: Context) -> None:
        self._branches.delete(request.name, context.by, force=request.force, at=request.at)

    def _rename_branch(self, request: refs.RenameBranch, context: Context) -> Branch:
        return self._renamer.rename(request.old, request.new, context.by, force=request.force)

    def _hard_reset(self, request: refs.HardReset, context: Context) -> Branch:
        commit = self._resolved(request.ref)
        return self._mover.hard_reset(request.branch, commit, context.by, force=request.force)

    def _undo(self, request: refs.Undo, context: Context) -> Branch:
        return self._mover.undo(request.branch, context.by, force=request.force, request_id=request.request_id)

    def _create_tag(self, request: refs.CreateTag, context: Context) -> Tag:
        return self._branches.create_tag(request.name, self._resolved(request.ref), context.by, force=request.force)

    def _delete_tag(self, request: refs.DeleteTag, context: Context) -> None:
        self._branches.delete_tag(request.name, context.by, force=request.force)

    def _resolved(self, ref: str) -> CommitID:
        return resolve(ref, self._refs, self._commits).commit_id


REF_RUNS: Final[Mapping[type[Request[Any]], Callable[[RefVerbs, Any, Context], Any]]] = {
    refs.CreateBranch: RefVerbs._create_branch,
    refs.RenewBranch: RefVerbs._renew_branch,
    refs.ReleaseBranch: RefVerbs._release_branch,
    refs.DeleteBranch: RefVerbs._delete_branch,
    refs.RenameBranch: RefVerbs._rename_branch,
    refs.HardReset: RefVerbs._hard_reset,
    refs.Undo: RefVerbs._undo,
    refs.CreateTag: RefVerbs._create_tag,
    refs.DeleteTag: RefVerbs._delete_tag,
}
