"""Law F5 through the verbs: with any two files of the trees exchanged, answers are right or refused, never wrong or endless."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from graveler.errors import CorruptError, DamagedFileError
from graveler.lake.repository import OpenRepository
from graveler.model import CommonPrefix, MergeStrategy
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import NAME, World, put

Verb = Callable[[OpenRepository], object]
PATHS = [f"d{number % 4}/{number:02}" for number in range(24)]


def history() -> World:
    """Two branches that have diverged, of ranges of a few records."""
    world = World()
    repository = world.main
    put(repository, dict.fromkeys(PATHS, "1"))
    repository.commit("main", "base")
    repository.create_branch("dev", "main")
    put(repository, {"d1/05": "changed", "d2/999": "added"})
    repository.delete("main", ["d3/07"])
    repository.commit("main", "ours")
    put(repository, {"d0/00": "changed"}, "dev")
    repository.commit("dev", "theirs")
    return world


def paged(repository: OpenRepository, delimiter: str) -> list[str]:
    found: list[str] = []
    after = ""
    for _ in range(100):
        page = repository.list_objects("main", after=after, delimiter=delimiter, amount=5)
        found += [
            item.path if isinstance(item, CommonPrefix) else f"{item.path} {item.checksum}" for item in page.results
        ]
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the pages do not end")


def changed_pages(repository: OpenRepository) -> list[object]:
    found: list[object] = []
    after = ""
    for _ in range(100):
        page = repository.diff("dev", "main", after=after, amount=1)
        found += page.results
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the pages do not end")


def exported(repository: OpenRepository, folder: Path) -> object:
    return repository.export("main", folder, dry_run=True)


READS: dict[str, Verb] = {
    "stat": lambda r: [r.stat("main", path) for path in ("d0/00", "d1/05", "d2/999")],
    "stat many": lambda r: r.stat_many("main", [*PATHS, "d2/999", "x"]),
    "list": lambda r: paged(r, ""),
    "list with a delimiter": lambda r: paged(r, "/"),
    "diff": changed_pages,
    "compare": lambda r: r.compare("main", "dev").results,
    "summary": lambda r: r.diff_summary("main", "dev", delimiter="/"),
    "du": lambda r: r.du("main", delimiter="/"),
    "log of a path": lambda r: [commit.id for commit in r.log("main", paths=["d1/05"]).results],
    "blame": lambda r: r.blame("main", "d1/05").id,
}


def all_of(repository: OpenRepository) -> object:
    return [(entry.path, entry.checksum) for entry in repository.objects("main")]


def merge(repository: OpenRepository) -> None:
    repository.merge("dev", "main", strategy=MergeStrategy.SOURCE_WINS)


def commit_on_top(repository: OpenRepository) -> None:
    put(repository, {"d1/06": "top", "d9": "top"})
    repository.commit("main", "top")


def revert(repository: OpenRepository) -> None:
    repository.revert("main", "main")


WRITES: dict[str, Callable[[OpenRepository], None]] = {
    "commit on top": commit_on_top,
    "merge": merge,
    "revert": revert,
}


State = tuple[dict[str, tuple[list[bytes], dict[bytes, bytes]]], dict[str, bytes]]


def state_of(world: World) -> State:
    """All that table and store hold."""
    assert isinstance(world.tables, MemoryTables)
    items = {name: (list(order), dict(bodies)) for name, (order, bodies) in world.tables.partitions.items()}
    return items, {stored.key: world.objects().get(stored.key) for stored in world.objects().list("")}


def with_state(world: World, state: State) -> None:
    """Make it so again."""
    assert isinstance(world.tables, MemoryTables)
    items, objects = state
    world.tables.partitions = {name: (list(order), dict(bodies)) for name, (order, bodies) in items.items()}
    for stored in list(world.objects().list("")):
        if stored.key not in objects:
            world.objects().delete(stored.key)
    for key, data in objects.items():
        world.objects().put(key, data)


def files_of(world: World) -> list[str]:
    kinds = f"{FOLDER}/ranges/", f"{FOLDER}/metaranges/"
    return [stored.key for kind in kinds for stored in world.objects().list(kind)]


def test_every_read_is_right_or_refused(tmp_path: Path) -> None:
    world = history()
    reads: dict[str, Verb] = {**READS, "export": lambda r: exported(r, tmp_path / "out")}
    right = {name: read(world.repository()) for name, read in reads.items()}
    whole = state_of(world)
    refused = dict.fromkeys(reads, 0)
    for here, there in permutations(files_of(world), 2):
        with_state(world, whole)
        world.objects().put(here, world.objects().get(there))
        repository = world.repository()
        for name, read in reads.items():
            try:
                answer = read(repository)
            except DamagedFileError as error:
                refused[name] += error.name in here
                continue
            assert answer == right[name], (name, here, there)
    assert all(refused.values()), refused


@pytest.mark.parametrize("name", WRITES)
def test_what_is_built_on_exchanged_files_is_right_or_refused(name: str) -> None:
    world = history()
    whole = state_of(world)
    WRITES[name](world.repository())
    right = all_of(world.repository())
    for here, there in permutations(files_of(world), 2):
        with_state(world, whole)
        if not {here, there} <= set(files_of(world)):
            continue
        world.objects().put(here, world.objects().get(there))
        try:
            WRITES[name](world.repository())
            answer = all_of(world.repository())
        except CorruptError:
            continue
        assert answer == right, (here, there)


def test_an_exchanged_copy_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    world = history()
    right = {name: read(world.repository()) for name, read in READS.items()}

    def cache() -> FileCache:
        return FileCache(tmp_path, 1 << 20, 3600, world.clock.now)

    for read in READS.values():
        read(world.repository(cache=cache()))
    copies = {path: path.read_bytes() for path in sorted(tmp_path.iterdir()) if "range" in path.name}
    assert len(copies) >= 10
    for here, there in permutations(copies, 2):
        here.write_bytes(copies[there])
        assert all_of(world.repository(cache=cache())) == all_of(world.main)
        if here.read_bytes() != copies[here]:  # it was not needed, so far
            for name, read in READS.items():
                assert read(world.repository(cache=cache())) == right[name], (name, here, there)
        assert here.read_bytes() == copies[here], "the copy is the store's again"


def test_fsck_reports_and_mends_exchanged_files() -> None:
    world = history()
    whole = state_of(world)
    mended = 0
    for here, there in permutations(files_of(world), 2):
        with_state(world, whole)
        world.objects().put(here, world.objects().get(there))
        report = world.lake().fsck(NAME)
        name = here.rpartition("/")[2]
        (finding,) = [finding for finding in report.findings if name in finding.what]
        assert "contains another file" in finding.why
        assert there.rpartition("/")[2] in finding.why
        if mended < 3:
            again = world.lake().fsck(NAME, repair=True)
            mended += all(finding.repaired for finding in again.findings)
    assert mended
