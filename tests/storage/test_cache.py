"""The cache is bounded, forgets the least recently used files, and never makes an operation fail."""

import multiprocessing
import os
import pickle
from pathlib import Path
from threading import Thread

import pytest

from graveler.errors import InvalidError
from graveler.storage.objects.cache import Cache, FileCache, Tiers
from graveler.storage.owned_files import LOCKED
from graveler.system.temporary_files import try_lock
from tests.storage.processes import fill_cache, fill_tiers, fill_until_killed, run_all


class Clock:
    """A clock that goes when it is told to. It is far ahead, so that a time which the system sets counts as long ago."""

    def __init__(self) -> None:
        self.now = 4_000_000_000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> FileCache:
    return FileCache(tmp_path / "new" / "cache", 16_000, 1000, clock)


def _held(cache: FileCache, *names: str) -> list[bytes | None]:
    copies = [cache.get(name) for name in names]
    return [None if copy is None else copy.data for copy in copies]


def test_what_was_put_is_got_until_it_is_dropped(cache: FileCache) -> None:
    assert cache.get("a") is None
    cache.put("a", b"1")
    cache.put("b", b"")
    cache.put("a", b"22")
    assert _held(cache, "a", "b") == [b"22", b""]
    cache.drop("a")
    cache.drop("a")
    assert _held(cache, "a", "b") == [None, b""]
    assert cache.failures == 0


@pytest.mark.parametrize("name", ["", "a/b", "..", ".writing-1", "a\0", "ä", "x" * 201, "a\n"])
def test_names_that_could_lead_elsewhere_are_refused(cache: FileCache, name: str) -> None:
    for call in (cache.get, cache.drop, cache.confirm, lambda name: cache.put(name, b"")):
        with pytest.raises(InvalidError, match="cannot name"):
            call(name)


def test_it_never_holds_more_than_its_bound(cache: FileCache, tmp_path: Path, clock: Clock) -> None:
    for number in range(300):
        clock.forward(61)
        cache.put(f"f{number}", bytes(100 + number * 7 % 900))
        assert _size(tmp_path / "new" / "cache") <= 16_000
    assert _size(tmp_path / "new" / "cache") > 8_000
    assert cache.get("f299") is not None


def test_the_least_recently_used_go_first(cache: FileCache, clock: Clock) -> None:
    names = [f"f{number:02}" for number in range(14)]
    for name in names:
        cache.put(name, bytes(1000))
        clock.forward(61)
    assert all(_held(cache, "f00", "f03"))
    cache.put("g", bytes(1500))
    kept = [name for name in names if cache.get(name) is not None]
    assert kept == ["f00", "f03", *names[6:]]


def test_evicting_makes_room_for_more_than_one(cache: FileCache, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(15):
        cache.put(f"f{number}", bytes(1000))
        clock.forward(61)
    scans = []
    scandir = os.scandir

    def recording(path: Path) -> object:
        scans.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", recording)
    for number in range(15, 115):
        cache.put(f"f{number}", bytes(100))
    assert len(scans) <= 12  # and not 100


def test_a_file_larger_than_the_cache_is_not_kept(cache: FileCache) -> None:
    cache.put("a", bytes(1000))
    cache.put("big", bytes(16_001))
    assert _held(cache, "big", "a") == [None, bytes(1000)]
    cache.put("just", bytes(16_000))
    assert _held(cache, "just", "a") == [bytes(16_000), None]


def test_an_old_copy_is_due_until_somebody_has_looked(cache: FileCache, clock: Clock) -> None:
    cache.put("a", b"1")
    clock.forward(999)
    assert _due(cache, "a") is False
    clock.forward(2)
    assert _due(cache, "a") is True  # reading it does not make it young
    assert _due(cache, "a") is True
    cache.confirm("a")
    assert _due(cache, "a") is False
    clock.forward(-5000)  # a clock that was set back proves nothing
    assert _due(cache, "a") is True
    cache.confirm("missing")
    assert cache.failures == 0


def test_processes_share_it(tmp_path: Path) -> None:
    run_all(fill_cache, [(tmp_path, 64_000, name, 300) for name in "abc"])
    # Each looks after a sixteenth of its own: two more processes, two sixteenths more, at most.
    assert _size(tmp_path) <= 64_000 * 18 // 16
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_processes_with_caches_of_their_own_share_one_and_some_are_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    far, mine, theirs = tmp_path / "far", *context.Pipe()
    mortal = context.Process(target=fill_until_killed, args=(tmp_path / "c", far, 64_000, "c", theirs))
    mortal.start()
    mine.recv()
    run_all(fill_tiers, [(tmp_path / name, far, 64_000, name, 300) for name in "ab"])
    mortal.kill()
    mortal.join()
    mortal.close()
    mine.close()
    theirs.close()
    assert _size(far) <= 64_000 * 18 // 16
    assert all(_size(tmp_path / name) <= 8_000 for name in "abc")
    left = FileCache(far, 64_000, 1000)
    for path in far.iterdir():
        if not path.name.startswith("."):  # what it was writing when it was killed is removed as a leftover
            copy = left.get(path.name)
            assert copy is not None
            assert copy.data == bytes([int(path.name[2:]) % 256]) * 1000


@pytest.mark.parametrize("locks", [True, False])
def test_a_temporary_file_whose_writer_locks_it_after_a_look_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, locks: bool
) -> None:
    """Between its creation and its lock, a file looks like one whose writer is dead."""
    temporary = tmp_path / f".writing-{LOCKED}00"
    temporary.write_bytes(bytes(9_000))
    look = FileCache._look
    with temporary.open("r+b") as writer:

        def look_before_the_lock(cache: FileCache) -> tuple[int, list[tuple[float, int, str]]]:
            size, files = look(cache)
            assert [name for _, _, name in files] == [temporary.name]
            if locks:
                assert try_lock(writer.fileno())
            return size, files

        monkeypatch.setattr(FileCache, "_look", look_before_the_lock)
        FileCache(tmp_path, 10_000, 1000).put("a", bytes(5_000))
        assert temporary.exists() is locks


def test_what_is_found_far_is_copied_near_with_its_age(tmp_path: Path, clock: Clock) -> None:
    near, far = (FileCache(tmp_path / name, 16_000, 1000, clock) for name in ("near", "far"))
    tiers = Tiers(near, far)
    assert tiers.get("a") is None
    far.put("a", b"1")
    clock.forward(900)
    found = tiers.get("a")
    assert found is not None
    assert (found.data, found.due) == (b"1", False)
    clock.forward(200)
    assert _dues(near, far, tiers) == [True, True, True]
    far.confirm("a")  # by another machine
    assert _dues(near, far, tiers) == [True, False, False]
    assert _dues(near) == [False], "and now this one knows"
    clock.forward(1001)
    tiers.confirm("a")
    assert _dues(near, far) == [False, False]
    tiers.drop("a")
    assert _held(near, "a") == _held(far, "a") == [None]
    tiers.put("b", b"2")
    assert _held(near, "b") == _held(far, "b") == [b"2"]
    far.drop("b")
    assert tiers.get("b") is not None


def _dues(*caches: Cache) -> list[bool | None]:
    copies = [cache.get("a") for cache in caches]
    return [None if copy is None else copy.due for copy in copies]


def test_folders_in_it_are_somebody_elses(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x").write_bytes(b"kept")
    cache = FileCache(tmp_path, 16_000, 1000, clock)
    for number in range(40):
        cache.put(f"k{number}", bytes(1000))
    assert cache.failures == 0
    assert (tmp_path / "notes" / "x").read_bytes() == b"kept"


def test_threads_share_it(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 64_000, 1000)
    failures: list[Exception] = []

    def work(name: str) -> None:
        try:
            for number in range(300):
                cache.put(f"{name}-{number}", bytes([number % 256]) * 1000)
                for other in "abc":
                    copy = cache.get(f"{other}-{number}")
                    assert copy is None or copy.data == bytes([number % 256]) * 1000
        except Exception as error:  # noqa: BLE001 - to be raised by the test
            failures.append(error)

    threads = [Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache.failures == 0
    assert _size(tmp_path) <= 64_000


def test_what_vanishes_is_not_missed(cache: FileCache, tmp_path: Path) -> None:
    cache.put("a", b"1")
    for path in (tmp_path / "new" / "cache").iterdir():
        path.unlink()
    assert cache.get("a") is None
    (tmp_path / "new" / "cache").rmdir()
    assert cache.get("a") is None
    cache.put("a", b"2")
    assert _held(cache, "a") == [b"2"]
    assert cache.failures == 0


def test_a_damaged_copy_is_the_readers_to_notice_and_is_replaced(cache: FileCache, tmp_path: Path) -> None:
    cache.put("a", b"whole")
    os.truncate(tmp_path / "new" / "cache" / "a", 2)
    assert _held(cache, "a") == [b"wh"]
    cache.drop("a")
    cache.put("a", b"whole")
    assert _held(cache, "a") == [b"whole"]


def test_what_is_in_its_way_is_counted_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FileCache(tmp_path / "file" / "cache", 1000, 1000)
    cache.put("a", b"1")
    assert cache.get("a") is None
    cache.drop("a")
    cache.confirm("a")
    assert cache.failures == 4


def test_leftovers_of_crashed_writers_go_first(cache: FileCache, tmp_path: Path, clock: Clock) -> None:
    cache.put("a", bytes(9000))
    leftover = tmp_path / "new" / "cache" / ".writing-crashed"
    leftover.write_bytes(bytes(5000))
    os.utime(leftover, (clock.now, clock.now))
    clock.forward(7200)
    cache.get("a")
    cache.put("b", bytes(1500))
    assert not leftover.exists()
    assert cache.get("a") is not None


def test_it_can_be_pickled(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 1000, 1000)
    cache.put("a", b"1")
    assert _held(pickle.loads(pickle.dumps(cache)), "a") == [b"1"]


def test_a_cache_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="0 bytes"):
        FileCache(tmp_path, 0, 1)


def _due(cache: FileCache, name: str) -> bool:
    copy = cache.get(name)
    assert copy is not None
    return copy.due


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
