"""Functions that tests run in separate processes (importable, so that ``spawn`` finds them)."""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from graveler.lake.opening.folder import open_folder_lake
from graveler.storage.objects.cache import Cache, FileCache, Tiers
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.objects.port import ObjectConditionError, ObjectMissingError
from graveler.storage.tables.port import Absent, ConditionFailedError, Key, Matches, Put
from graveler.storage.tables.sqlite import SqliteTables


def run_all(function: Callable[..., None], arguments: Sequence[tuple[object, ...]]) -> None:
    """Run ``function`` in one process for each of ``arguments``, all at once; AssertionError if one fails."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=each) for each in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.close()
    assert codes == [0] * len(codes)


def count_up(path: Path, times: int) -> None:
    """Add one to a counter, by compare-and-set."""
    key = Key("counter", b"n")
    with SqliteTables(path) as tables:
        done = 0
        while done < times:
            item = tables.get(key)
            number = 0 if item is None else item["n"]
            assert isinstance(number, int)
            try:
                tables.put(key, {"n": number + 1}, Absent() if item is None else Matches({"n": number}))
            except ConditionFailedError:
                continue
            done += 1


def transact_until_killed(path: Path, acknowledgements: Connection) -> None:
    """Write the same number to twenty items, again and again, and tell each number that is acknowledged."""
    with SqliteTables(path) as tables:
        there = tables.get(Key("all", b"00"))
        first = 0 if there is None else there["round"]
        assert isinstance(first, int)
        for number in count(first + 1):
            tables.transact([Put(Key("all", b"%02d" % place), {"round": number}) for place in range(20)])
            acknowledgements.send(number)


def put_if_absent(objects: FolderObjects, name: str, folder: Path, times: int) -> None:
    """Try to create keys that others try to create too; write down which were won."""
    won = []
    for number in range(times):
        try:
            objects.put(f"contested/{number}/k", f"{name} {number}".encode(), if_absent=True)
        except ObjectConditionError:
            continue
        won.append(str(number))
    (folder / name).write_text("\n".join(won))


def replace_and_sweep(objects: FolderObjects, times: int) -> None:
    """Put a key again, as a writer does; then remove what another one wrote, by the ETag seen, as a sweep does."""
    for _ in range(times):
        mine = objects.put("k/k", b"contents").etag
        try:
            found = objects.head("k/k").etag
            objects.delete("k/k", if_match=found if found != mine else "another")
        except (ObjectMissingError, ObjectConditionError):
            continue


def put_until_killed(objects: FolderObjects, acknowledgements: Connection) -> None:
    """Overwrite one key with ever another byte, and tell each that is acknowledged."""
    for number in count():
        objects.put("k", bytes([number % 256]) * 200_000)
        acknowledgements.send(number % 256)


def fill_cache(folder: Path, max_bytes: int, name: str, times: int) -> None:
    """Add to a cache that others add to, and read what they have added."""
    cache = FileCache(folder, max_bytes, 1000)
    _fill(cache, name, times)
    assert cache.failures == 0


def fill_tiers(near: Path, far: Path, max_bytes: int, name: str, times: int) -> None:
    """The same where each process has a small cache of its own before the one that all share."""
    own, shared = FileCache(near, max_bytes // 8, 1000), FileCache(far, max_bytes, 1000)
    _fill(Tiers(own, shared), name, times)
    assert own.failures == shared.failures == 0


def fill_until_killed(near: Path, far: Path, max_bytes: int, name: str, begun: Connection) -> None:
    """The same for ever. Tells when it has begun."""
    cache = Tiers(FileCache(near, max_bytes // 8, 1000), FileCache(far, max_bytes, 1000))
    while True:
        _fill(cache, name, 50)
        begun.send(None)


def _fill(cache: Cache, name: str, times: int) -> None:
    for number in range(times):
        cache.put(f"{name}-{number}", bytes([number % 256]) * 1000)
        for other in "abc":
            copy = cache.get(f"{other}-{number}")
            assert copy is None or copy.data == bytes([number % 256]) * 1000


def read_through_shared_cache(lake: Path, near: Path, shared: Path, objects: int, enough: Event) -> None:
    """Read a whole repository again and again, each time as a machine that has just come, behind a small cache that all share,
    eight times and until that is ``enough``."""
    from graveler.lake.lake import Lake
    from graveler.lake.opening.lake_parts import TreeSettings

    with SqliteTables(lake / "tables.sqlite") as tables:
        for turn in count():
            if turn >= 8 and enough.is_set():
                break
            cache = Tiers(FileCache(near / str(turn), 1 << 20, 1000), FileCache(shared, 12_000, 1000))
            repository = Lake(
                tables, lambda _: FolderObjects(lake / "objects" / "repo"), trees=TreeSettings(cache=cache)
            ).repository("repo")
            assert [entry.size for entry in repository.objects("main@")] == list(range(objects))


def put_a_clock_ahead(seconds: float, replace: Callable[[object, str, object], None] = setattr) -> None:
    """Let this process's clock be so many seconds fast. ``replace`` sets an attribute of a module."""
    now, now_ns = time.time, time.time_ns
    replace(time, "time", lambda: now() + seconds)
    replace(time, "time_ns", lambda: now_ns() + int(seconds * 1e9))


def write_until_told(objects: FolderObjects, key: str, upload: str, pipe: Connection) -> None:
    """Write half of an object, or of part 1 of an upload; finish it when told, and send its ETag."""
    with objects.part_writer(key, upload, 1) if upload else objects.writer(key) as writer:
        writer.write(b"half")
        pipe.send("half")
        pipe.recv()
        writer.write(b" and half")
        pipe.send(writer.finish().etag)


def write_and_commit(folder: Path, name: str, rounds: int) -> None:
    """Put objects on a branch of a lake and commit each, as a program of its own."""
    with open_folder_lake(folder) as lake:
        repository = lake.repository("load")
        repository.create_branch(name, "main")
        for number in range(rounds):
            repository.upload(name, f"{name}/{number}", bytes(number + 1))
            repository.commit(name, f"number {number}")


def sweep_until_told(root: Path, seconds: float, stop: Event) -> None:
    """Sweep the folder again and again, with a clock so many seconds fast and files whose times are so many seconds behind."""
    put_a_clock_ahead(seconds)
    objects = FolderObjects(root)
    while not stop.is_set():
        for path in root.glob(f"{HIDDEN}/*/*"):
            with suppress(FileNotFoundError):
                os.utime(path, (0, 0))
        objects.sweep_leftovers()
