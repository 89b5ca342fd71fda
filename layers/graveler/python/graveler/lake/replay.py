"""Revert and cherry-pick: one commit's changes taken back, or made again, on a branch.

Both are three-way merges into the branch. To revert commit ``c`` with parent ``p``: base ``c``, source ``p``. To pick it: base
``p``, source ``c``.
"""

from collections.abc import Mapping

from graveler.errors import InvalidError, MergeConflictError, NoChangesError
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.rules import Intent
from graveler.lake.sides import Sides
from graveler.model import Commit, SplitParameters
from graveler.tree.merge import merge
from graveler.tree.tree import Tree

ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


class Replayer:
    """Replays commits on branches of one repository."""

    def __init__(self, split: SplitParameters, sides: Sides, lander: Lander) -> None:
        self._split = split
        self._sides = sides
        self._lander = lander

    def revert(
        self,
        branch: str,
        ref: str,
        parent_number: int,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        *,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.revert`."""
        landing = Landing(
            branch,
            "revert",
            f"reverting {ref!r} on it",
            message or f"Revert {ref}",
            committer,
            metadata,
            request_id,
            created,
            Intent(direct=False, force=force),
        )
        none = NoChangesError(f"nothing to revert: branch {branch!r} holds nothing of what {ref!r} changed")

        def prepare() -> Build:
            commit = self._sides.at(ref)
            parent = self._parent(commit, ref, parent_number)
            return self._replaying(commit, parent, ref, branch, None if allow_empty else none)

        return self._lander.land(landing, prepare)

    def cherry_pick(
        self,
        branch: str,
        ref: str,
        parent_number: int,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
        *,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.cherry_pick`."""
        done = self._lander.done_before(request_id)  # the ref may be gone by now
        if done is not None:
            return done
        commit = self._sides.at(ref)
        parent = self._parent(commit, ref, parent_number)
        said = {**commit.metadata, **metadata, ORIGIN_KEY: commit.id, COMMITTER_KEY: commit.committer}
        landing = Landing(
            branch,
            "cherry-pick",
            f"picking {ref!r} onto it",
            message or commit.message,
            committer,
            said,
            request_id,
            created,
            Intent(direct=False, force=force),
        )
        none = NoChangesError(f"nothing to pick: branch {branch!r} has all that {ref!r} changed")
        return self._lander.land(
            landing, lambda: self._replaying(parent, commit, ref, branch, None if allow_empty else none)
        )

    def _replaying(
        self, base: Commit | None, source: Commit | None, ref: str, branch: str, none: NoChangesError | None
    ) -> Build:
        def build(_: Commit, before: Tree) -> Draft:
            result = merge(self._sides.tree(base), self._sides.tree(source), before, self._split)
            if result.tree is None:
                raise MergeConflictError(ref, branch, [self._sides.conflict(found) for found in result.conflicts])
            if none is not None and result.tree.id() == before.id():
                raise none
            # Objects of the source come back, which may be a commit whose objects are going.
            return Draft(result.tree, alive=[] if source is None else [source.id])

        return build

    def _parent(self, commit: Commit, ref: str, number: int) -> Commit | None:
        """The parent to compare with: the only one, or the one named; None for the first commit of a history."""
        count = len(commit.parents)
        if number == 0 and count > 1:
            raise InvalidError(
                f"{ref!r} is a merge of {count} commits; say against which parent, 1 (the branch merged into) to {count}"
            )
        if number < 0 or number > count:
            raise InvalidError(f"{ref!r} has {count} parent{'s' if count != 1 else ''}, so there is no parent {number}")
        return self._sides.commit(commit.parents[max(number - 1, 0)]) if count else None
