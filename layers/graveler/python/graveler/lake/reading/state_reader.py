"""States of a repository, by ref: the commit, its tree, and the changes staged on a branch."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from msgspec.structs import replace

from graveler.errors import (
    InvalidError,
    RefNotFoundError,
)
from graveler.history.expressions import Resolved, is_base, keys_of, resolve
from graveler.history.reflog import LogEntry
from graveler.lake.opening.repositories import check_same, repository_key
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.snapshot import Snapshot
from graveler.lake.settings.repository_settings import decode_settings, protecting
from graveler.model import (
    Branch,
    Commit,
    CommitID,
    Page,
    RefDescription,
    Repository,
    Status,
    Tag,
    Token,
)
from graveler.storage.tables.port import Item, Key
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    pass


T = TypeVar("T")


class StateReader:
    """Resolves refs of one repository, and reads the commits and trees behind them."""

    def __init__(self, parts: RepositoryParts) -> None:
        self.parts = parts
        """The parts, for functions that change the repository."""
        self.leases = parts.leases
        """The lake's leases as this process has seen them."""
        self.skew = parts.skew
        """Seconds by which clocks of the lake's writers may differ."""
        self.grace = parts.grace
        """The grace period in seconds: garbage collection leaves younger files alone."""
        self.table_grace = parts.table_grace
        """The same for files in the folders of tables."""
        self.tables = parts.tables
        """The tables, in which the rooms above keep items of this repository too."""
        self.namespace = parts.objects
        """The objects stored in the repository's namespace."""
        self.clock = parts.clock
        self.repository: Repository = parts.record.repository
        self.locate_outside = parts.locate_external
        """Returns the object store and the key there of an address outside of the namespace. Can be sent to tasks."""
        self._objects = parts.objects
        self._outside = parts.locate_external
        self.codec: Final = parts.codec
        """Decodes the repository's records."""
        self._renderer = parts.renderer
        self._trees = parts.trees
        self._commits = parts.commits
        self._reflog = parts.reflog
        self._refs = parts.refs
        self._staged = parts.staged
        self._branches = parts.branches
        self._memos = parts.memos
        self._latest: tuple[CommitID, Tree] | None = None

    def keys_of(self, ref: str) -> list[Key]:
        """Return the keys that are read first to resolve a ref, for :meth:`with_prefetched`. No request."""
        return keys_of(ref, self._refs, self._commits)

    def with_prefetched(self, items: Mapping[Key, Item | None]) -> Self:
        """Return this repository for one reader that resolves a ref whose :meth:`keys_of` was just read. No request."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)  # as copy.copy, which takes several times as long
        view._refs = self._refs.with_prefetched(items)
        view.parts = replace(self.parts, refs=view._refs)
        return view

    def pinned_to(self, ref: str, state: str = "") -> tuple[Self, str]:
        """Return this repository for one reader that resolves ``ref``, a branch's name, to the ``state`` that an earlier call
        returned, or to the present one; and that state as text, empty for any other ref. Cost and errors as of
        :func:`graveler.lake.reading.states.pinned_items`."""
        from graveler.lake.reading.states import pinned_items  # servers list in states

        items, text = pinned_items(self.parts, ref, state)
        return self.with_prefetched(items), text

    def commit_of(self, ref: str) -> Commit:
        """Return the commit that a ref points at, without uncommitted changes. Cost: resolving, one commit."""
        return self._branches.commit(resolve(ref, self._refs, self._commits).commit_id)

    def statuses(self, ref: str) -> tuple[Status, ...]:
        """Return the statuses of a ref's commit and of its tree that count, in the order in which they were posted: they have not
        expired, and their posters' keys are not revoked. Cost: resolving, one commit, two table reads, one without statuses."""
        from graveler.lake.gates.posting import statuses_of  # not on the path of a cold start

        return statuses_of(self.parts, self.commit_of(ref))

    def describe_ref(self, ref: str) -> RefDescription:
        """Return what a ref is, its commit, and what may be done with it. Cost: resolving, together with which the repository's
        settings are read; the commit; for a branch's name one table read for each staging token and shard. Errors as of
        :func:`graveler.history.expressions.resolve`; :class:`RepositoryNotFoundError`."""
        repository, keys = self.repository, self.keys_of(ref)
        item, *items = self.tables.get_many([repository_key(repository.name), *keys])
        settings = decode_settings(repository.name, check_same(repository.uid, repository.name, item))
        refs = self._refs.with_prefetched(dict(zip(keys, items, strict=True))) if keys else self._refs
        resolved = resolve(ref, refs, self._commits)
        commit, branch = self._branches.commit(resolved.commit_id), resolved.branch
        if branch is not None:
            protected = not branch.hidden and protecting(ref, settings.protected) is not None
            uncommitted = self._staged.exists(staging_tokens(resolved))
            return RefDescription(ref, "branch", commit, uncommitted, protected, settings.read_only)
        kind: Literal["tag", "commit", "expression"] = (
            "tag" if resolved.tag is not None else "commit" if is_base(ref) else "expression"
        )
        return RefDescription(ref, kind, commit, None, protected=False, read_only=settings.read_only)

    def branch(self, name: str) -> Branch:
        """Return the branch. Cost: one table read. :class:`RefNotFoundError`."""
        state = self._branches.state(name)
        return Branch(state.name, state.commit_id, state.hidden)

    def branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[Branch]:
        """Return a page of branches, by name. Cost: about one table read for each of 16 shards."""
        return self._branches.page(prefix, after, amount, show_hidden=show_hidden)

    def tag(self, name: str) -> Tag:
        """Return the tag. Cost: one table read. :class:`RefNotFoundError`."""
        tag = self._refs.tag(name)
        if tag is None:
            raise RefNotFoundError(name, kind="tag")
        return tag

    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]:
        """Return a page of tags, by name. Cost: about one table read for each of 16 shards."""
        return self._refs.list_tags(prefix, after, amount)

    def reflog(self, branch: str, amount: int = 100) -> list[LogEntry]:
        """Return where a branch pointed before, and what moved it, newest first; also for a deleted branch. Cost: one table
        read."""
        return self._reflog.entries("branch", branch, amount)

    def _tree(self, commit_id: CommitID) -> Tree:
        latest = self._latest  # most lookups are in the commit of the one before
        if latest is None or latest[0] != commit_id:
            latest = self._latest = commit_id, self._tree_of(self._branches.commit(commit_id))
        return latest[1]

    def _get(self, commit_id: CommitID, key: bytes) -> bytes | None:
        """Return the packed record of a key in a commit, or None, without loading the commit's tree for it."""
        latest = self._latest
        if latest is not None and latest[0] == commit_id:
            return latest[1].get(key)
        name = self._branches.commit(commit_id).metarange
        record = self._trees.get(name, key)
        tree = self._trees.loaded(name)  # a small one is loaded by a lookup
        if tree is not None:
            self._latest = commit_id, tree
        return record

    def _tree_of(self, commit: Commit) -> Tree:
        return self._trees.load(commit.metarange)

    def _snapshot(self, ref: str) -> Snapshot:
        return self._state(ref)[0]

    def _state(self, ref: str) -> tuple[Snapshot, CommitID]:
        """Return the state that a ref shows, and the commit below the staged changes."""
        return self._snapshot_of(resolve(ref, self._refs, self._commits))

    def _snapshot_of(self, resolved: Resolved) -> tuple[Snapshot, CommitID]:
        tokens = staging_tokens(resolved)
        load, get = partial(self._tree, resolved.commit_id), partial(self._get, resolved.commit_id)
        return Snapshot(load, get, self._staged, tokens), resolved.commit_id


def staging_tokens(resolved: Resolved) -> tuple[Token, ...]:
    """Return a branch's staging tokens, from the newest on."""
    state = resolved.branch
    return () if state is None else (state.open, *state.sealed[::-1])


def at_least_one(amount: int) -> int:
    """Return the amount. :class:`InvalidError` if it is less than 1."""
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")
    return amount
