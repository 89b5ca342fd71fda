"""Sources for lost ranges and metaranges. No source is trusted: its file counts only if the recomputed name is
the lost file's, and an undamaged file is never overwritten.

Sources, in order: the copy in the cache; for a range, the trees of the commits before and after those that have it, if they
hold the same records under another split; and for both, the merge that made the commit, repeated: its parents determine its
result. A file that no source has is lost, unless a copy of the namespace exists.
"""

from typing import Final

import msgspec

from graveler.errors import UNREADABLE, GravelerError, NotFoundError
from graveler.history.commits import CommitStore
from graveler.history.graph import merge_base
from graveler.history.split_parameters import split_of
from graveler.lake.committing.resplit import as_cut
from graveler.lake.fsck.files import open_file
from graveler.lake.fsck.history import History
from graveler.lake.merging.merge import strategy_of
from graveler.model import Commit, MetarangeName, SplitParameters
from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.objects.tree_files import FOLDER
from graveler.tree.merge import merge
from graveler.tree.range_info import RangeInfo
from graveler.tree.recomputed_name import names_of
from graveler.tree.sstable import MalformedTableError, write_table
from graveler.tree.store import RANGES, TreeFiles, TreeStore
from graveler.tree.tail import Label, with_label
from graveler.tree.tree import Tree

_FAILURES: Final = (GravelerError, *UNREADABLE)
"""The exceptions of a source that is itself damaged."""
_TRIES: Final = 16
"""The number of neighbouring trees, and merges, that are tried for one file."""


class Recovered(msgspec.Struct, frozen=True):
    """A lost file's bytes, and in words where they come from."""

    data: bytes
    source: str


class Rebuilder:
    """A finder of lost files. ``copies`` are the tree's files through the cache, None if there is no cache."""

    def __init__(
        self,
        history: History,
        objects: Objects,
        copies: TreeFiles | None,
        commits: CommitStore,
        split: SplitParameters,
    ) -> None:
        self._history = history
        self._objects = objects
        self._copies = copies
        self._commits = commits
        self._split = split

    def copy(self, kind: str, name: str) -> Recovered | None:
        """Return the cache's copy, if it is undamaged. No request if it exists; one object read if not."""
        if self._copies is None:
            return None
        try:
            data = self._copies.get(kind, name)
            open_file(kind, name, data)
        except _FAILURES:
            return None
        return Recovered(data, "the copy in the cache")

    def range(self, info: RangeInfo, metaranges: set[int]) -> Recovered | None:
        """Return a range that these metaranges name. Reads the neighbours' metaranges and the ranges in its interval."""
        tried: set[tuple[bytes, ...]] = set()
        for tree, commit in self._near(metaranges):
            try:
                covering = _covering(tree, info)
                if covering in tried:
                    continue
                tried.add(covering)
                keys: list[bytes] = []
                packed: list[bytes] = []
                for some_keys, some_packed in tree.blocks(info.first, info.last + b"\0"):
                    keys += some_keys
                    packed += some_packed
                    if len(keys) > info.count:
                        break
                if info.name in names_of(keys, packed):
                    data = with_label(write_table(keys, packed, tree.store.scratch), Label.of(RANGES, info.name))
                    return Recovered(data, f"commit {commit}, which has its records")
            except _FAILURES:
                continue
        return self._merged_again(RANGES, info.name, metaranges)

    def metarange(self, name: MetarangeName, metarange: int) -> Recovered | None:
        """Return a metarange. Reads what merging its commit's parents reads."""
        return self._merged_again("metaranges", name, {metarange})

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Put the file in its place, unless an undamaged one is there by now. One object read, one write."""
        key = f"{FOLDER}/{kind}/{name}"
        try:
            open_file(kind, name, self._objects.get(key))
        except ObjectMissingError:
            self._objects.put(key, data)
        except MalformedTableError:
            self._objects.put(key, data)

    def _near(self, metaranges: set[int]) -> list[tuple[Tree, str]]:
        """Return trees of the commits next to those that have ``metaranges``; unreadable ones are omitted."""
        history = self._history
        having = [number for metarange in metaranges for number in history.with_metarange(metarange)]
        store = TreeStore(_Sound(self._objects), LocalRuntime())
        trees: dict[int, tuple[Tree, str]] = {}
        for number in history.neighbours(having):
            metarange = history.metarange[number]
            if metarange < 0 or metarange in metaranges or metarange in trees:
                continue
            try:
                tree = Tree.load(store, history.metaranges[metarange])
            except _FAILURES:
                continue
            trees[metarange] = tree, history.id(number)
            if len(trees) == _TRIES:
                break
        return list(trees.values())

    def _merged_again(self, kind: str, name: str, metaranges: set[int]) -> Recovered | None:
        history = self._history
        having = [number for metarange in metaranges for number in history.with_metarange(metarange)]
        merges = [number for number in having if len(history.parents[number]) == 2]
        for number in merges[:_TRIES]:
            files = _Sound(self._objects, intercepted=name)
            try:
                commit = self._commits.get(history.id(number))
                tree = self._merge(commit, TreeStore(files, LocalRuntime()))
            except _FAILURES:
                continue
            if tree is None:
                continue
            data = files.written
            if kind != RANGES and tree.name() == name:
                data = tree.file()
            if data is not None:
                return Recovered(data, f"the merge of commit {commit.id}, done again")
        return None

    def _merge(self, commit: Commit, store: TreeStore) -> Tree | None:
        destination, source = self._commits.get_many(commit.parents)
        base = merge_base(self._commits, source.id, destination.id)
        if base is None:
            return None
        before, theirs, ours = (
            Tree.load(store, state.metarange) for state in (self._commits.get(base), source, destination)
        )
        split = split_of(destination, self._split)
        return merge(
            before, as_cut(theirs, split_of(source, self._split), split), ours, split, strategy_of(commit)
        ).tree


class _Sound:
    """The tree's files as the store has them, each checked against its name. Writes are intercepted, and only that of the file
    ``intercepted`` is kept."""

    def __init__(self, objects: Objects, intercepted: str = "") -> None:
        self._objects = objects
        self._intercepted = intercepted
        self.written: bytes | None = None

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:  # noqa: ARG002
        """Return the file's bytes. :class:`NotFoundError` if it is damaged."""
        data = self._objects.get(f"{FOLDER}/{kind}/{name}")
        try:
            open_file(kind, name, data)
        except MalformedTableError as error:
            raise NotFoundError(f"{kind[:-1]} {name} is damaged ({error})") from None
        return data

    def put(self, kind: str, name: str, data: bytes) -> None:  # noqa: ARG002
        """Keep the file if it is the intercepted one."""
        if name == self._intercepted:
            self.written = data


def _covering(tree: Tree, info: RangeInfo) -> tuple[bytes, ...]:
    """Return the ranges of a tree that hold the keys of ``info``."""
    return tuple(
        tree.packed[number]
        for number in range(len(tree))
        if tree.lasts[number] >= info.first and tree.info(number).first <= info.last
    )
