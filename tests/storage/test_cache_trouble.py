"""Whatever the file system does, a cache loses copies at most: its answers are right, and no caller fails."""

import logging
import multiprocessing
from collections.abc import Callable, Iterator
from functools import cache as memoised
from pathlib import Path
from random import Random

import pytest

from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.model import ObjectEntry
from graveler.storage.objects.cache import Cache, FileCache, Tiers
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import TINY, changes, commit, texts
from tests.storage.processes import read_through_shared_cache
from tests.support.disk import CALLS, ERRORS, FaultyDisk, faulty_disk, on_a_disk_of_its_own, trouble

VERBS: dict[str, Callable[[Cache], object]] = {
    "get": lambda cache: cache.get("a"),
    "get none": lambda cache: cache.get("none"),
    "put": lambda cache: cache.put("new", b"new" * 100),
    "put again": lambda cache: cache.put("a", b"a" * 1000),
    "put into the last room": lambda cache: cache.put("large", bytes(6000)),
    "confirm": lambda cache: cache.confirm("a"),
    "drop": lambda cache: cache.drop("b"),
}
CONTENTS = {"a": b"a" * 1000, "b": b"b" * 1000, "new": b"new" * 100, "large": bytes(6000)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    with faulty_disk(tmp_path / "cache") as made:
        yield made


def a_cache(folder: Path) -> FileCache:
    """Two files, and so many others that a large one needs their room; a new one, which has not looked at them yet."""
    made = FileCache(folder, 16_000, 1000)
    for name in "ab":
        made.put(name, CONTENTS[name])
    for number in range(10):
        made.put(f"f{number}", bytes(1000))
    return FileCache(folder, 16_000, 1000, lambda: 4_000_000_000.0)  # each use is written down


@pytest.mark.parametrize("name", ERRORS)
def test_no_fault_of_the_file_system_reaches_who_asks(name: str, tmp_path: Path, disk: FaultyDisk) -> None:
    folder = tmp_path / "cache"
    injected = 0
    for verb in VERBS.values():
        for call in CALLS:
            for always in (False, True):
                disk.begin(lambda *_: None)
                cache = a_cache(folder)
                disk.begin(lambda made, number: trouble(name) if made == call and (always or not number) else None)  # noqa: B023
                verb(cache)
                injected += disk.seen.get(call, 0)
                disk.begin(lambda *_: None)
                for copy_name, data in CONTENTS.items():
                    copy = cache.get(copy_name)
                    assert copy is None or copy.data == data, (name, call, copy_name)
                for path in folder.iterdir():  # its own leftovers need time; nothing else is in the way
                    path.unlink()
    assert injected > 20


def test_a_file_that_another_machine_replaces_is_read_again(tmp_path: Path, disk: FaultyDisk) -> None:
    cache = a_cache(tmp_path / "cache")
    for call in ("open", "fstat", "read"):
        disk.begin(lambda made, number: trouble("ESTALE") if made == call and not number else None)  # noqa: B023
        copy = cache.get("a")
        assert copy is not None
        assert copy.data == CONTENTS["a"]
    assert cache.failures == 0
    disk.begin(lambda made, _: trouble("ESTALE") if made == "read" else None)
    assert cache.get("a") is None
    assert cache.failures == 1


def test_a_read_that_is_cut_short_goes_on(tmp_path: Path, disk: FaultyDisk) -> None:
    cache = a_cache(tmp_path / "cache")
    disk.short_reads = True
    copy = cache.get("a")
    assert copy is not None
    assert copy.data == CONTENTS["a"]


def test_what_can_be_read_is_read_where_nothing_may_be_written(tmp_path: Path, disk: FaultyDisk) -> None:
    told: list[None] = []
    a_cache(tmp_path / "cache")
    cache = FileCache(tmp_path / "cache", 16_000, 1000, lambda: 4_000_000_000.0, lambda: told.append(None))
    disk.begin(lambda call, _: trouble("EROFS") if call in ("utime", "write", "rename", "unlink", "mkdir") else None)
    copy = cache.get("a")
    assert copy is not None
    assert copy.data == CONTENTS["a"]
    assert cache.failures == len(told) == 1, "when it was used is not written down"


def test_trouble_is_logged_once_a_minute_and_counted_each_time(
    tmp_path: Path, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    cache = a_cache(tmp_path / "cache")
    disk.begin(lambda call, _: trouble("EIO") if call == "open" else None)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert cache.get("a") is None
            cache.put("c", b"")
    assert cache.failures == 10
    assert [record.getMessage().split(":")[1] for record in caplog.records] == [
        " cannot read a (Input/output error); continuing without it",
        " cannot write c (Input/output error); continuing without it",
    ]


def test_on_a_disk_that_is_full_before_its_time_the_cache_gives_way(tmp_path: Path) -> None:
    program = """
from graveler.storage.objects.cache import FileCache
cache = FileCache(disk, 64 << 20, 1000)
for number in range(300):
    cache.put(f"f{number}", bytes([number % 256]) * 20_000)
kept = [number for number in range(300) if (copy := cache.get(f"f{number}")) is not None]
assert all(cache.get(f"f{number}").data == bytes([number % 256]) * 20_000 for number in kept)
assert kept[-1] >= 298 and len(kept) >= 30, kept
assert 0 < cache.failures < 300 // 2, cache.failures
assert not list(disk.glob(".writing-*"))
"""
    on_a_disk_of_its_own(program, tmp_path / "disk", size="1m")


def test_a_disk_that_becomes_read_only(tmp_path: Path) -> None:
    program = """
import os
from graveler.storage.objects.cache import FileCache
cache = FileCache(disk, 100_000, 1000)
for number in range(45):
    cache.put(f"f{number}", bytes([number]) * 2000)
    os.utime(disk / f"f{number}", (1, os.stat(disk / f"f{number}").st_mtime))
mount("-o", "remount,ro")
cache = FileCache(disk, 100_000, 1000)
assert all(cache.get(f"f{number}").data == bytes([number]) * 2000 for number in range(45))
assert cache.failures == 45, "that they were used could not be written down"
cache.put("new", bytes(20_000))
cache.confirm("f1")
cache.drop("f2")
assert cache.get("new") is None and cache.get("f2") is not None
assert cache.failures <= 50
mount("-o", "remount,rw")
cache.put("new", b"1")
assert cache.get("new").data == b"1"
"""
    on_a_disk_of_its_own(program, tmp_path / "disk", size="1m")


@pytest.mark.parametrize("name", ["ESTALE", "ENOSPC"])
def test_a_lake_behind_a_cache_whose_disk_fails_now_and_then(name: str, tmp_path: Path, disk: FaultyDisk) -> None:
    """What is found is what a lake without caches finds, and the caches' calls do fail."""
    tables, objects = MemoryTables(), memoised(MemoryObjects)
    random = Random(name)

    def lake() -> Lake:
        near, far = (
            FileCache(tmp_path / "cache" / tier, size, 1000) for tier, size in (("near", 3000), ("far", 30_000))
        )
        return Lake(tables, objects, trees=TreeSettings(cache=Tiers(near, far)))

    failed = 0

    def order(*_: object) -> OSError | None:
        nonlocal failed
        if random.random() < 0.85:
            return None
        failed += 1
        return trouble(name)

    lake().create_repository("repo", "mem://repo", split=TINY)
    plain = Lake(tables, objects).repository("repo")
    disk.begin(order)
    for turn in range(6):
        repository = lake().repository("repo")
        commit(repository, {f"{turn % 3}/{number:03}": f"{turn}" for number in range(40)}, message=str(turn))
        assert texts(lake().repository("repo")) == texts(plain)
    assert changes(plain) == {}
    assert failed > 100
    assert plain.stat("main", "2/000").size == 1


def test_processes_share_a_folder_that_somebody_ruins(tmp_path: Path) -> None:
    """Copies are cut off, overwritten, removed while they are read: what the processes find is what was committed."""
    tables = tmp_path / "tables"
    with create_folder_lake(tables) as lake:
        repository = lake.create_repository("repo", "local://repo", split=TINY)
        entries = [ObjectEntry(f"{number:04}", "s3://x/y", number, "0" * 32, 1) for number in range(400)]
        repository.link_many("main", entries)
        repository.commit("main", "all")
    shared = tmp_path / "shared"
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    processes = [
        context.Process(target=read_through_shared_cache, args=(tables, tmp_path / str(number), shared, 400, enough))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    random = Random(1)
    ruined = 0
    while any(process.is_alive() for process in processes):
        for path in list(shared.iterdir()) if shared.exists() else []:
            way = random.randrange(3)
            try:
                if way == 0:
                    path.unlink()
                elif way == 1:
                    path.write_bytes(path.read_bytes()[:-1])
                else:
                    with path.open("r+b") as file:
                        file.write(random.randbytes(20))
            except FileNotFoundError:
                continue
            ruined += 1
            if ruined > 10:
                enough.set()
        processes[0].join(0.01)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.close()
    assert codes == [0, 0, 0]
