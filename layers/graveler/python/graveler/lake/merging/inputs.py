"""The inputs of three-way merges: commits by ref, their trees, and conflicts as users see them."""

from graveler.history.expressions import keys_of, resolve
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, Conflict
from graveler.tree.merge import TreeConflict
from graveler.tree.tree import Tree


def commit_at(repository: RepositoryParts, ref: str) -> Commit:
    """Return the commit that a ref names. Table reads to resolve it, and one for a commit that is not in memory."""
    return repository.branches.commit(resolve(ref, repository.refs, repository.commits).commit_id)


def commit_at_beside(repository: RepositoryParts, ref: str, branch: str) -> Commit:
    """Return the commit that a ref names. The branch is read at the same time, and its commit together with that of the ref, so
    that the next lookup of the branch's head finds it in memory. Cost: as :func:`commit_at`."""
    keys = keys_of(ref, repository.refs, repository.commits)
    if not keys:
        return commit_at(repository, ref)
    keys = list(dict.fromkeys([*keys, key := repository.refs.branch_key(branch)]))
    items = dict(zip(keys, repository.refs.read_many(keys), strict=True))
    commit_id = resolve(ref, repository.refs.with_prefetched(items), repository.commits).commit_id
    state = repository.refs.decode_branch(branch, items[key])
    ids = {commit_id} if state is None else {commit_id, state.commit_id}
    repository.commits.read([id_ for id_ in ids if repository.commits.in_memory(id_) is None])
    return repository.branches.commit(commit_id)


def tree_of(repository: RepositoryParts, commit: Commit | None) -> Tree:
    """Return a commit's tree, with at most one object read; the empty tree for None."""
    return repository.trees.empty() if commit is None else repository.trees.load(commit.metarange)


def trees_of(repository: RepositoryParts, *commits: Commit | None) -> list[Tree]:
    """Return the trees of several commits, as :func:`tree_of`, read concurrently where that helps."""
    trees = iter(repository.trees.load_many([commit.metarange for commit in commits if commit is not None]))
    return [repository.trees.empty() if commit is None else next(trees) for commit in commits]


def conflict_of(repository: RepositoryParts, conflict: TreeConflict) -> Conflict:
    """Return a conflict as a user sees it."""
    base, source, destination = (
        None if packed is None else repository.codec.decode(conflict.key, packed)
        for packed in (conflict.base, conflict.source, conflict.destination)
    )
    return Conflict(conflict.key.decode(), base, source, destination)
