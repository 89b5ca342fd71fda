"""A real folder lake with a criss-cross history, and ways to damage it."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from graveler.history.commits import CommitStore, encode_commit, new_commit
from graveler.history.refs import Refs
from graveler.lake.fsck.check import fsck
from graveler.lake.fsck.findings import Finding, FindingKind, Report
from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.lake.opening.repositories import Repositories
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, MetarangeName, ObjectEntry, SplitParameters
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.namespaces import locate
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.storage.tables.port import Item, Key, Tables
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system.progress import Progress, no_progress
from graveler.tree.range_info import RangeInfo
from graveler.tree.sstable import write_table
from graveler.tree.store import TreeFiles, TreeStore
from graveler.tree.tree import Tree
from tests.lake.support import FakeClock
from tests.support.trees import ALONE

NAME = "repo"
NAMESPACE = "local://repo"
SPLIT = SplitParameters(min_size=200, max_size=1600, raggedness=3)
OUTSIDE = "s3://nowhere/"


class FolderLake:
    """One client of a lake in a folder, and the parts that fsck takes."""

    def __init__(self, folder: Path, *, cache: Path | None = None) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.tables = SqliteTables(folder / "tables.sqlite")
        self.objects = FolderObjects(folder / "objects" / NAME, NAMESPACE)
        self.cache = None if cache is None else FileCache(cache, 1 << 28, 43_200, self.clock.now)
        self.lake = Lake(self.tables, lambda _: self.objects, clock=self.clock, trees=TreeSettings(cache=self.cache))

    @property
    def repository(self) -> OpenRepository:
        """A client with empty memory."""
        return self.lake.repository(NAME)

    @property
    def uid(self) -> str:
        return self.repository.repository.uid

    def path(self, key: str) -> Path:
        return self.folder / "objects" / NAME / key

    def fsck(
        self,
        *,
        repair: bool = False,
        reflog: bool = True,
        committed_objects: bool = False,
        outside_objects: bool = False,
        outside: Callable[[str], tuple[Objects, str]] = locate,
        tables: Tables | None = None,
        objects: Objects | None = None,
        progress: Progress = no_progress,
    ) -> Report:
        files: TreeFiles | None = None
        if self.cache is not None:
            files = ImmutableFiles(self.objects, self.cache, clock=self.clock.now)
        return fsck(
            Repositories(self.tables).get(NAME),
            tables or self.tables,
            objects or self.objects,
            copies=files,
            repair=repair,
            reflog=reflog,
            committed_objects=committed_objects,
            outside_objects=outside_objects,
            outside=outside,
            progress=progress,
        )

    def commits(self, *refs: str) -> list[Commit]:
        """All commits that the refs reach (all refs, if none is given)."""
        repository = self.repository
        names = refs or (
            *(branch.name for branch in repository.branches(show_hidden=True).results),
            *(tag.name for tag in repository.tags().results),
        )
        found = {commit.id: commit for name in names for commit in repository.log(name, amount=1000).results}
        return list(found.values())

    def tree(self, metarange: MetarangeName) -> Tree:
        return Tree.load(TreeStore(ImmutableFiles(self.objects, None), ALONE), metarange)

    def ranges(self, metarange: MetarangeName) -> list[RangeInfo]:
        tree = self.tree(metarange)
        return [tree.info(number) for number in range(len(tree))]

    def having(self, name: str) -> set[CommitID]:
        """The commits whose tree has a range, by looking at each."""
        return {commit.id for commit in self.commits() if name in {info.name for info in self.ranges(commit.metarange)}}

    def affected(self, commits: Iterable[CommitID]) -> set[tuple[str, bool]]:
        """The refs that show one of ``commits`` now (False) or reach one (True)."""
        bad = set(commits)
        repository = self.repository
        found: set[tuple[str, bool]] = set()
        refs = {branch.name: branch.commit_id for branch in repository.branches(show_hidden=True).results}
        refs |= {tag.name: tag.commit_id for tag in repository.tags().results}
        for name, commit_id in refs.items():
            if commit_id in bad:
                found.add((name, False))
            elif bad & {commit.id for commit in repository.log(name, amount=1000).results}:
                found.add((name, True))
        return found

    def head(self, branch: str) -> Commit:
        return self.repository.commit_of(branch)

    # Damage

    def flip(self, key: str, at: int = -1) -> None:
        path = self.path(key)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 if at < 0 else at] ^= 0x41
        path.write_bytes(bytes(data))

    def empty(self, key: str) -> None:
        self.path(key).write_bytes(b"")

    def truncate(self, key: str) -> None:
        path = self.path(key)
        path.write_bytes(path.read_bytes()[:-7])

    def item(self, key: Key) -> dict[str, object]:
        item = self.tables.get(key)
        assert item is not None
        return dict(item)

    def change_item(self, key: Key, **attributes: object) -> None:
        """Set attributes of an item; None removes one."""
        merged = {**self.item(key), **attributes}
        item: Item = {name: value for name, value in merged.items() if value is not None}  # type: ignore[misc]
        self.tables.put(key, item)

    def smash_item(self, key: Key) -> None:
        """Write bytes over an item that are none."""
        connection = sqlite3.connect(self.folder / "tables.sqlite")
        with connection:
            connection.execute(
                "UPDATE items SET body = x'c1c1c1' WHERE partition = ? AND sort = ?", (key.partition, key.sort)
            )
        connection.close()

    def commit_key(self, commit_id: CommitID) -> Key:
        return CommitStore(self.tables, self.repository.repository.uid).key(commit_id)

    def branch_key(self, name: str) -> Key:
        return Refs(self.tables, self.repository.repository.uid).branch_key(name)

    def tag_key(self, name: str) -> Key:
        return Refs(self.tables, self.repository.repository.uid).tag_key(name)

    # Forgery: what no graveler writes

    def put_range(self, keys: list[bytes], packed: list[bytes], info: RangeInfo) -> None:
        self.put_file("ranges", info.name, keys, packed)

    def put_file(self, kind: str, name: str, keys: list[bytes], packed: list[bytes]) -> None:
        self.objects.put(f"_graveler/{kind}/{name}", write_table(keys, packed, ALONE.scratch))

    def put_tree(self, infos: list[RangeInfo]) -> MetarangeName:
        tree = Tree(
            TreeStore(ImmutableFiles(self.objects, None), ALONE), [i.last for i in infos], [i.pack() for i in infos]
        )
        return tree.save()

    def forge_head(self, branch: str, metarange: MetarangeName, *, generation: int | None = None) -> Commit:
        """A commit with this tree, on top of a branch."""
        head = self.head(branch)
        commit = new_commit([head], metarange, "", "forged", 0, {}, "forged")
        if generation is not None:
            commit = msgspec.structs.replace(commit, generation=generation)
        record = encode_commit(commit)
        self.objects.put(f"_graveler/commits/{commit.id}", record)
        self.tables.put(self.commit_key(commit.id), {"record": record, "line": b""})
        self.change_item(self.branch_key(branch), commit=commit.id)
        return commit


def link(lake: FolderLake, branch: str, values: dict[str, int | None]) -> None:
    """Stage objects that lie elsewhere; None deletes."""
    repository = lake.repository
    repository.link_many(
        branch,
        [
            ObjectEntry(path, f"{OUTSIDE}{path}-{value}", value, f"{value:032x}", 1_700_000_000)
            for path, value in values.items()
            if value is not None
        ],
    )
    gone = [path for path, value in values.items() if value is None]
    if gone:
        repository.delete(branch, gone)


def build(folder: Path) -> FolderLake:
    """A lake whose history has merges, a criss-cross, and several heads; something is staged on ``dev``.

    ::

        start ── m1 ──── M ── m2 ──── N  main          tag v1: m1, tag v0: the first commit with objects
              ╲     ╲  ╱            ╱
               d1 ──── D ──── d2 ──   dev, and a hidden branch at d1
    """
    lake = FolderLake(folder)
    lake.lake.create_repository(NAME, NAMESPACE, split=SPLIT)
    tick = lake.clock
    link(lake, "main", {f"p/{n:03}": n for n in range(150)})
    lake.repository.upload("main", "inside", b"hello")
    lake.repository.commit("main", "start")
    lake.repository.create_tag("v0", "main@")
    lake.repository.create_branch("dev", "main@")
    tick.time += 1
    link(lake, "main", {"p/010": 1010, "p/100": 1100})
    m1 = lake.repository.commit("main", "m1").id
    lake.repository.create_tag("v1", "main@")
    link(lake, "dev", {"p/050": 2050, "p/051": None, "q/new": 1})
    d1 = lake.repository.commit("dev", "d1").id
    lake.repository.create_branch("quiet", d1, hidden=True)
    tick.time += 1
    lake.repository.merge(d1, "main", message="M")
    lake.repository.merge(m1, "dev", message="D")
    tick.time += 1
    link(lake, "main", {"p/140": None, "z/last": 5})
    lake.repository.commit("main", "m2")
    link(lake, "dev", {"p/000": 3000})
    lake.repository.commit("dev", "d2")
    tick.time += 1
    lake.repository.merge("dev", "main", message="N")
    link(lake, "dev", {"p/001": 4001, "p/002": None, "s/nothing": None})
    lake.repository.upload("dev", "staged", b"staged bytes")
    return lake


def kinds(report: Report) -> Counter[FindingKind]:
    """How many findings there are of each kind."""
    return Counter(finding.kind for finding in report.findings)


def one(report: Report) -> Finding:
    """The only finding."""
    assert len(report.findings) == 1, [str(finding) for finding in report.findings]
    return report.findings[0]


def names(finding: Finding) -> set[tuple[str, bool]]:
    return {(ref.name, ref.in_history) for ref in finding.refs}
