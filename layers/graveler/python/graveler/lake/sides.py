"""The sides of three-way merges: commits by ref, their trees, and what both changed, as users see it."""

from graveler.history.commits import CommitStore
from graveler.history.expressions import keys_of, resolve
from graveler.history.refs import Refs
from graveler.lake.branches import Branches
from graveler.model import Commit, CommitID, Conflict
from graveler.tree.merge import TreeConflict
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree, Trees


class Sides:
    """Sides of merges in one repository."""

    def __init__(self, refs: Refs, commits: CommitStore, branches: Branches, codec: RecordCodec, trees: Trees) -> None:
        self._refs = refs
        self._commits = commits
        self._branches = branches
        self._codec = codec
        self._trees = trees

    def at(self, ref: str) -> Commit:
        """The commit that a ref names. Table reads to resolve it, and one for a commit that is not near."""
        return self.commit(resolve(ref, self._refs, self._commits).commit_id)

    def at_beside(self, ref: str, branch: str) -> Commit:
        """As :meth:`at`; what the branch is at is read at the same time, and its commit together with that of the ref, so that
        whoever asks for that head next finds it in memory. Cost: as :meth:`at`."""
        keys = keys_of(ref, self._refs, self._commits)
        if not keys:
            return self.at(ref)
        keys = list(dict.fromkeys([*keys, key := self._refs.branch_key(branch)]))
        items = dict(zip(keys, self._refs.read_many(keys), strict=True))
        found = resolve(ref, self._refs.having_read(items), self._commits).commit_id
        state = self._refs.decode_branch(branch, items[key])
        wanted = {found} if state is None else {found, state.commit_id}
        self._commits.read([each for each in wanted if self._commits.in_memory(each) is None])
        return self.commit(found)

    def commit(self, commit_id: CommitID) -> Commit:
        """The commit. At most one table read."""
        return self._branches.commit(commit_id)

    def tree(self, commit: Commit | None) -> Tree:
        """A commit's tree, at most one object read; the empty one for what comes before the first commit."""
        return self._trees.empty() if commit is None else self._trees.load(commit.metarange)

    def trees(self, *commits: Commit | None) -> list[Tree]:
        """As :meth:`tree` of each, read at the same time where that helps."""
        found = iter(self._trees.load_many([commit.metarange for commit in commits if commit is not None]))
        return [self._trees.empty() if commit is None else next(found) for commit in commits]

    def conflict(self, found: TreeConflict) -> Conflict:
        """A conflict as a user sees it."""
        base, source, destination = (
            None if packed is None else self._codec.decode(found.key, packed)
            for packed in (found.base, found.source, found.destination)
        )
        return Conflict(found.key.decode(), base, source, destination)
