"""The syncs of a folder lake: each one of a commit and of a merge, with its reason."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from graveler.history.commits import encode_commit
from graveler.lake.committing import records
from graveler.lake.committing.records import record_key
from graveler.lake.dump.restore import restore
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, ObjectEntry
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Put, Write
from graveler.storage.tables.sqlite import SqliteTables
from tests.lake.support import FakeClock
from tests.support import brittle

LOG: Final = "the table's log"
BYTES: Final = "bytes of a file"
OF_A_COMMIT: Final = {
    LOG: 2,  # the seal, so that nobody stages under the token any more; and the commit itself
    BYTES: 2,  # of the range and of the metarange, before they have names
    "names in ranges": 1,  # before a commit names the range
    "names in metaranges": 1,  # before a commit names the metarange
}
"""The record is in the table, and is not synced (graveler/lake/committing/records.py)."""
OF_A_MERGE: Final = {LOG: 1}
"""Into what has not changed: the source's metarange is there."""


def test_each_sync_of_a_commit_and_of_a_merge_has_its_reason(tmp_path: Path) -> None:
    printed = brittle.run(
        "import sys; from tests.lake.test_syncs import print_syncs; print_syncs(sys.argv[1])", str(tmp_path)
    )
    assert [msgspec.json.decode(line) for line in printed.splitlines()] == [OF_A_COMMIT, OF_A_MERGE] * 3


def print_syncs(folder: str) -> None:
    """In a brittle process: what a commit and a merge sync, three times, when the process has made one of each."""
    repository = new_lake(Path(folder) / "lake")
    for number in range(4):
        branch = f"branch-{number}"
        repository.create_branch(branch, "main" if number == 0 else "empty")
        if number == 0:
            repository.create_branch("empty", "main")
        repository.create_branch(f"{branch}-destination", "empty")
        repository.link(branch, entry(f"{number}"))
        acts = (
            partial(repository.commit, branch, "one object"),
            partial(repository.merge, branch, f"{branch}-destination"),
        )
        for act in acts:
            brittle.begin(brittle.Kind.SYNC, "/lake/", 1 << 30, 1 << 30, 0)
            act()
            synced = brittle.paths()
            brittle.begin(brittle.Kind(0), "", 0, 0, 0)
            if number:
                sys.stdout.buffer.write(msgspec.json.encode(Counter(map(name_of, synced))) + b"\n")


def name_of(path: str) -> str:
    """What it is that is synced."""
    if path.endswith("-wal"):
        return LOG
    return BYTES if "/writes/" in path else f"names in {Path(path).name}"


def new_lake(folder: Path, clock: FakeClock | None = None) -> OpenRepository:
    create_folder_lake(folder).create_repository("repo", "local://repo")
    return open_folder_lake(folder, clock=clock).repository("repo")


def entry(text: str) -> ObjectEntry:
    return ObjectEntry("k", f"s3://elsewhere/{text}", 1, text, 0)


# What a power cut leaves


class Disk:
    """What of a folder a power cut would leave: files whose bytes were synced under names that a folder held when it was
    synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bytes: set[int] = set()
        self._names: set[tuple[Path, int]] = set()
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                folder = Path(f"/proc/self/fd/{descriptor}").readlink()
                self._names.update((each, each.stat().st_ino) for each in folder.iterdir())
            else:
                self._bytes.add(status.st_ino)

        monkeypatch.setattr(os, "fsync", fsync)

    def keeps(self, path: Path, below: Path) -> bool:
        """Whether a file stays, as it is."""
        number = path.stat().st_ino
        chain = [(each, each.stat().st_ino) for each in (path, *path.parents) if each.is_relative_to(below)]
        return number in self._bytes and self._names.issuperset(chain)


def test_when_a_commit_is_published_its_tree_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a transaction names: commits and merges, the first ones of a process and later ones, in two processes' turns."""
    disk = Disk(monkeypatch)
    folder = tmp_path / "lake"
    first = new_lake(folder)
    tree_files = folder / "objects" / "repo" / FOLDER
    published: list[str] = []
    transact = SqliteTables.transact

    def looked(tables: SqliteTables, writes: Sequence[Write]) -> None:
        if any(isinstance(write, Put) and "/commit/" in write.key.partition for write in writes):
            for path in [*tree_files.glob("ranges/*"), *tree_files.glob("metaranges/*")]:
                assert disk.keeps(path, folder / "objects"), f"{path} could be lost"
                published.append(path.name)
        transact(tables, writes)

    monkeypatch.setattr(SqliteTables, "transact", looked)
    second = open_folder_lake(folder).repository("repo")
    for number, repository in enumerate([first, second, second, first]):
        repository.create_branch(f"side-{number}", "main")
        repository.link(f"side-{number}", ObjectEntry(f"{number}", "s3://elsewhere/x", 1, f"{number}", 0))
        repository.commit(f"side-{number}", "one object")
        repository.merge(f"side-{number}", "main")
    assert published


LOST: Final[dict[str, Callable[[Path], object]]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "other bytes": lambda path: path.write_bytes(b"what lay there before"),
}
"""What a power cut may make of a file that was not synced."""


@pytest.fixture
def cut(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[OpenRepository, list[Commit], Path]:
    """A lake in which a power cut took the records of two commits, of three; as a process finds it that begins afterwards."""
    folder = tmp_path / "lake"
    before = new_lake(folder)
    commits = []
    for number in range(3):
        before.link("main", entry(f"{number}"))
        commits.append(before.commit("main", f"number {number}"))
    for commit in commits[:2]:
        LOST[request.param](folder / "objects" / "repo" / record_key(commit.id))
    return open_folder_lake(folder).repository("repo"), commits, folder


ALL_LOSSES: Final = pytest.mark.parametrize("cut", list(LOST), indirect=True)


@ALL_LOSSES
def test_records_that_a_power_cut_took_are_written_again_before_a_dump_relies_on_them(
    cut: tuple[OpenRepository, list[Commit], Path], tmp_path: Path
) -> None:
    repository, commits, folder = cut
    dumped = repository.dump()
    for commit in commits:
        assert (folder / "objects" / "repo" / record_key(commit.id)).read_bytes() == encode_commit(commit)
    restored = restore(MemoryTables(), repository.parts.objects, dumped.id, "again", dumped.created)
    assert (restored.missing, restored.commits) == ((), len(commits) + 1)


@ALL_LOSSES
def test_fsck_names_and_mends_records_that_a_power_cut_took(cut: tuple[OpenRepository, list[Commit], Path]) -> None:
    repository, commits, _ = cut
    found = repository.fsck(repair=True).findings
    assert {damage.what for damage in found} == {f"commit {commit.id}" for commit in commits[:2]}
    assert {damage.kind for damage in found} == {FindingKind.COMMIT_RECORD}
    assert repository.fsck().findings == ()


def test_commits_make_sure_of_older_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_ONE_IN", 1)
    clock = FakeClock()
    folder = tmp_path / "lake"
    repository = new_lake(folder, clock)
    queue = f"{repository.repository.uid}/unsynced-records"

    def commit(text: str) -> Path:
        repository.link("main", entry(text))
        return folder / "objects" / "repo" / record_key(repository.commit("main", text).id)

    disk = Disk(monkeypatch)
    first, second = commit("1"), commit("2")
    assert not disk.keeps(first, folder / "objects"), "or this test shows nothing"
    clock.time += 61
    third = commit("3")
    assert [disk.keeps(path, first.parent) for path in (first, second, third)] == [True, True, False]
    tables = SqliteTables(folder / "tables.sqlite")
    assert len(tables.query(queue).items) == 1
    repository.dump()
    assert tables.query(queue).items == []
    tables.close()
