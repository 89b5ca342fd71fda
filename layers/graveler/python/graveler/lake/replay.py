"""Revert and cherry-pick: one commit's changes taken back, or made again, on a branch.

Both are three-way merges into the branch. To revert commit ``c`` with parent ``p``: base ``c``, source ``p``. To pick it: base
``p``, source ``c``.
"""

from collections.abc import Mapping

from graveler.errors import InvalidError, MergeConflictError, NoChangesError
from graveler.history.commits import CommitStore
from graveler.history.expressions import resolve
from graveler.history.refs import Refs
from graveler.lake.branches import Branches
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.merge import as_conflict
from graveler.lake.rules import Intent
from graveler.model import Commit, SplitParameters
from graveler.tree.merge import merge
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree, Trees

ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


class Replayer:
    """Replays commits on branches of one repository."""

    def __init__(
        self,
        split: SplitParameters,
        refs: Refs,
        commits: CommitStore,
        branches: Branches,
        codec: RecordCodec,
        lander: Lander,
        trees: Trees,
    ) -> None:
        self._split = split
        self._refs = refs
        self._commits = commits
        self._branches = branches
        self._codec = codec
        self._lander = lander
        self._trees = trees

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
            commit = self._commit(ref)
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
        commit = self._commit(ref)
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
            result = merge(self._tree(base), self._tree(source), before, self._split)
            if result.tree is None:
                raise MergeConflictError(ref, branch, [as_conflict(self._codec, c) for c in result.conflicts])
            if none is not None and result.tree.id() == before.id():
                raise none
            # Objects of the source come back, which may be a commit whose objects are going.
            return Draft(result.tree, alive=[] if source is None else [source.id])

        return build

    def _commit(self, ref: str) -> Commit:
        return self._branches.commit(resolve(ref, self._refs, self._commits).commit_id)

    def _parent(self, commit: Commit, ref: str, number: int) -> Commit | None:
        """The parent to compare with: the only one, or the one named; None for the first commit of a history."""
        count = len(commit.parents)
        if number == 0 and count > 1:
            raise InvalidError(
                f"{ref!r} is a merge of {count} commits; say against which parent, 1 (the branch merged into) to {count}"
            )
        if number < 0 or number > count:
            raise InvalidError(f"{ref!r} has {count} parent{'s' if count != 1 else ''}, so there is no parent {number}")
        return self._branches.commit(commit.parents[max(number - 1, 0)]) if count else None

    def _tree(self, commit: Commit | None) -> Tree:
        return self._trees.empty() if commit is None else self._trees.load(commit.metarange)
