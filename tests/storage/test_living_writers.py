"""Clean-ups in a folder that others write to: the files of living writers stay, whatever a clock or a file's times say, and those
of killed ones go."""

import errno
import fcntl
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from graveler.errors import NoChangesError, UnavailableError
from graveler.lake.opening.folder import create_folder_lake
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.objects.port import UploadMissingError
from tests.storage.processes import put_a_clock_ahead, sweep_until_told, write_and_commit, write_until_told
from tests.support.patience import PATIENCE

SPAWN = multiprocessing.get_context("spawn")
DAY = 24 * 3600
YEAR = 366 * DAY
ROUNDS = int(float(os.environ.get("GRAVELER_SOAK_SECONDS", "0")) * 5) or 12


@pytest.fixture
def store(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "top")


def files_in(store: FolderObjects, folder: str = "writes") -> list[Path]:
    return [path for path in (store.file_of("x").parent / HIDDEN / folder).rglob("*") if path.is_file()]


def a_clock_ahead(paths: list[Path], patch: pytest.MonkeyPatch) -> None:
    put_a_clock_ahead(YEAR, patch.setattr)


def times_behind(paths: list[Path], patch: pytest.MonkeyPatch) -> None:
    for path in paths:
        os.utime(path, (time.time() - YEAR, time.time() - YEAR))


WRONG = pytest.mark.parametrize("wrong", [a_clock_ahead, times_behind])


class Writer:
    """A process with an unfinished object or part."""

    def __init__(self, store: FolderObjects, upload: str = "") -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: BaseProcess = SPAWN.Process(
            target=write_until_told, args=(store, "big", upload, theirs), daemon=True
        )
        self.process.start()
        theirs.close()
        assert self.pipe.poll(PATIENCE)
        assert self.pipe.recv() == "half"

    def finish(self) -> str:
        self.pipe.send("finish")
        assert self.pipe.poll(PATIENCE)
        etag = str(self.pipe.recv())
        self.process.join(PATIENCE)
        return etag

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE)


@WRONG
def test_the_file_of_a_living_writer_stays_and_that_of_a_killed_one_goes(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[list[Path], pytest.MonkeyPatch], None]
) -> None:
    living, killed = Writer(store), Writer(store)
    assert len(files_in(store)) == 2
    killed.kill()
    wrong(files_in(store), monkeypatch)
    assert store.sweep_leftovers() == 1
    assert store.sweep_leftovers() == 0
    living.finish()
    assert store.get("big") == b"half and half"
    assert files_in(store) == []


@WRONG
def test_an_upload_with_a_part_under_way_stays(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[list[Path], pytest.MonkeyPatch], None]
) -> None:
    upload = store.create_multipart("big")
    writer = Writer(store, upload)
    uploads = store.file_of("x").parent / HIDDEN / "uploads"
    wrong([uploads / upload, *(uploads / upload).iterdir()], monkeypatch)
    assert store.sweep_leftovers() == 0
    etag = writer.finish()
    store.complete_multipart("big", upload, [(1, etag)])
    assert store.get("big") == b"half and half"
    assert list(uploads.iterdir()) == []


def test_an_upload_goes_a_week_after_its_last_part_by_the_times_of_the_file_system(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = store.create_multipart("big")
    part = store.put_part("big", upload, 1, b"part")
    folder = store.file_of("x").parent / HIDDEN / "uploads" / upload
    with monkeypatch.context() as patch:
        put_a_clock_ahead(YEAR, patch.setattr)
        assert store.sweep_leftovers() == 0, "the process's clock does not count"
    os.utime(folder, (time.time() - 6 * DAY, time.time() - 6 * DAY))
    assert store.sweep_leftovers() == 0
    assert store.put_part("big", upload, 1, b"part again") != part
    assert store.sweep_leftovers() == 0
    killed = Writer(store, upload)
    killed.kill()
    os.utime(folder, (time.time() - 8 * DAY, time.time() - 8 * DAY))
    assert store.sweep_leftovers() == 1
    assert not folder.exists()
    with pytest.raises(UploadMissingError):
        store.put_part("big", upload, 2, b"too late")
    assert not folder.exists()


def test_what_an_older_version_left_goes_a_day_later_unless_someone_has_locked_it(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("k", b"")
    folder = store.file_of("x").parent / HIDDEN / "writes"
    young, old, locked = (folder / name for name in ("1-young", "1-old", "1-locked"))
    for path in (young, old, locked):
        path.write_bytes(b"half")
    for path in (old, locked):
        os.utime(path, (time.time() - 2 * DAY, time.time() - 2 * DAY))
    with locked.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        put_a_clock_ahead(YEAR, monkeypatch.setattr)
        assert store.sweep_leftovers() == 1
    assert sorted(files_in(store)) == [locked, young]
    FolderObjects(store.file_of("x").parent).put("k", b"who writes first sweeps")
    assert files_in(store) == [young]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_without_locks_nothing_is_removed_and_a_writer_that_got_none_is_left_alone_later(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    locked = store.writer("with a lock")
    locked.write(b"x")
    with monkeypatch.context() as patch:

        def no_locks(descriptor: int, operation: int) -> None:
            raise OSError(code, os.strerror(code))

        patch.setattr(fcntl, "flock", no_locks)
        unlocked = store.writer("without a lock")
        unlocked.write(b"x")
        times_behind(files_in(store), patch)
        assert FolderObjects(store.file_of("x").parent).sweep_leftovers() == 0
    assert FolderObjects(store.file_of("x").parent).sweep_leftovers() == 0
    assert locked.finish().size == unlocked.finish().size == 1
    assert files_in(store) == []


def test_a_writer_whose_new_file_is_swept_before_it_is_locked_begins_again(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("k", b"")
    sweeper, real = FolderObjects(store.file_of("x").parent), fcntl.flock
    swept: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not swept:
            swept.append(0)
            swept[0] = sweeper.sweep_leftovers()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    store.put("k", b"x", if_absent=False)
    assert (store.get("k"), swept) == (b"x", [1])


@pytest.mark.parametrize("verb", ["replace", "put if absent", "put unsynced", "part"])
def test_a_complete_file_stays_locked_until_it_has_its_name(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store.put("k" if verb == "replace" else "other", b"")
    upload = store.create_multipart("big") if verb == "part" else ""
    call = "rename" if verb in ("replace", "part") else "link"
    real, sweeper = getattr(os, call), FolderObjects(store.file_of("x").parent)
    swept: list[tuple[int, int]] = []

    def after_a_sweep(*arguments: object, **options: object) -> None:
        swept.append((len(files_in(store)) + len(files_in(store, "uploads")), sweeper.sweep_leftovers()))
        real(*arguments, **options)

    monkeypatch.setattr(os, call, after_a_sweep)
    if verb == "part":
        store.put_part("big", upload, 1, b"x")
    elif verb == "put unsynced":
        store.put_unsynced("k", b"x")
    else:
        store.put("k", b"x", if_absent=verb == "put if absent")
    assert swept == [(1, 0)]
    assert verb == "part" or store.get("k") == b"x"


def test_a_lock_of_a_key_that_was_tidied_up_excludes_no_one_and_is_taken_again(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("k", b"x")
    other, real_flock, real_unlink = FolderObjects(store.file_of("x").parent), fcntl.flock, os.unlink
    events: list[str] = []

    def flock(descriptor: int, operation: int) -> None:
        if not events:
            events.append("tidied")
            other.tidy()
        real_flock(descriptor, operation)

    def unlink(path: str | os.PathLike[str], *, dir_fd: int | None = None) -> None:
        if os.fspath(path) == str(store.file_of("k")) and len(events) == 1:
            events.append("unlinks")
            with pytest.raises(UnavailableError, match="another process has held its lock"):
                other.delete("k")
        real_unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr("graveler.storage.objects.folder_names._LOCK_WAIT", 0.0)
    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(os, "unlink", unlink)
    store.delete("k")
    assert events == ["tidied", "unlinks"]


@pytest.mark.parametrize("if_absent", [False, True])
def test_an_error_names_the_temporary_file_that_a_stranger_removed(store: FolderObjects, if_absent: bool) -> None:
    with store.writer("a/k", if_absent=if_absent) as writer:
        writer.write(b"x")
        (temporary,) = files_in(store)
        temporary.unlink()
        with pytest.raises(UnavailableError) as caught:
            writer.finish()
    assert str(caught.value) == (
        f"writing {store.namespace}/a/k failed: another program removed its temporary file {str(temporary)!r} before it was "
        "complete; exclude this folder from that program's clean-up, then try again"
    )
    upload = store.create_multipart("big")
    with store.part_writer("big", upload, 1) as writer:
        (temporary,) = files_in(store, "uploads")
        temporary.unlink()
        with pytest.raises(UnavailableError, match=f"another program removed its temporary file '{temporary}'"):
            writer.finish()


def test_links_among_the_temporary_files_stop_no_writer(tmp_path: Path) -> None:
    from graveler.storage.objects.confined_folder import Confinement

    store = FolderObjects(tmp_path / "top", confinement=Confinement())
    folder = tmp_path / "top" / HIDDEN / "writes"
    folder.mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    (folder / "1-link").symlink_to(tmp_path / "elsewhere")
    store.put("k", b"x")
    assert (store.get("k"), (tmp_path / "elsewhere").read_bytes()) == (b"x", b"theirs")


def test_writers_lose_nothing_to_a_process_with_a_wrong_clock_that_sweeps_all_the_time(tmp_path: Path) -> None:
    """``GRAVELER_SOAK_SECONDS=n`` makes it five rounds for each second."""
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("load", "local://load")
    stop = SPAWN.Event()
    root = tmp_path / "lake" / "objects" / "load"
    sweeper = SPAWN.Process(target=sweep_until_told, args=(root, YEAR, stop), daemon=True)
    writers = {}
    sweeper.start()
    for name in ("a", "b"):
        writers[name] = SPAWN.Process(target=write_and_commit, args=(tmp_path / "lake", name, ROUNDS), daemon=True)
        writers[name].start()
    for writer in writers.values():
        writer.join(PATIENCE + ROUNDS)
    stop.set()
    sweeper.join(PATIENCE)
    assert [process.exitcode for process in (*writers.values(), sweeper)] == [0, 0, 0]
    assert files_in(FolderObjects(root)) == []
    from graveler.lake.opening.folder import open_folder_lake

    with open_folder_lake(tmp_path / "lake") as lake:
        for name in writers:
            stored = {entry.path: entry.size for entry in lake.repository("load").objects(name)}
            assert stored == {f"{name}/{number}": number + 1 for number in range(ROUNDS)}
            with pytest.raises(NoChangesError):
                lake.repository("load").commit(name, "nothing is left to commit")


@WRONG
def test_the_cache_removes_the_file_of_a_killed_writer_and_not_that_of_a_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[list[Path], pytest.MonkeyPatch], None]
) -> None:
    cache = FileCache(tmp_path / "cache", 10_000, 1000)
    cache.put("a", bytes(8000))
    killed = tmp_path / "cache" / ".writing-killed"
    killed.write_bytes(bytes(4000))
    real = os.utime
    sizes: list[int] = []

    def in_the_middle(*arguments: object, **options: object) -> None:
        if not sizes:  # another process needs room while this one's file is complete, but not renamed
            sizes.append(0)
            wrong(list((tmp_path / "cache").glob(".writing-*")), monkeypatch)
            FileCache(tmp_path / "cache", 10_000, 1000).put("c", bytes(9000))
            sizes[0] = len(list((tmp_path / "cache").glob(".writing-*")))
        real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "utime", in_the_middle)
    cache.put("b", bytes(500))
    copy = cache.get("b")
    assert copy is not None
    assert (copy.data, sizes, cache.failures, killed.exists()) == (bytes(500), [1], 0, False)
