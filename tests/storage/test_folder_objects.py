"""Properties of objects in a folder: processes, crashes, the disk, other people's files."""

import errno
import multiprocessing
import os
import pickle
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.durable_files import make_folder
from graveler.storage.file_modes import GROUP, PLAIN, PRIVATE, Modes
from graveler.storage.objects import folder_names
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.folder_names import HIDDEN, FolderNames
from graveler.storage.objects.folder_writer import described
from graveler.storage.objects.port import (
    NotSyncedError,
    ObjectConditionError,
    ObjectMissingError,
    UploadMissingError,
)
from graveler.storage.objects.presigned import UrlSigner
from graveler.storage.objects.tree_files import ImmutableFiles
from tests.storage.processes import put_if_absent, put_until_killed, replace_and_sweep, run_all
from tests.support.disk import Syncs
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def store(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "top")


def test_an_object_is_a_plain_file_at_its_address(store: FolderObjects, tmp_path: Path) -> None:
    store.put("a b/c%20d", b"x")
    assert store.namespace == f"file://{tmp_path}/top"
    assert (tmp_path / "top" / "a b" / "c%20d").read_bytes() == b"x"
    assert FolderObjects(tmp_path, "s3://bucket/lake/").namespace == "s3://bucket/lake"
    assert FolderObjects(Path("/")).namespace + "/etc/x" == "file:///etc/x"
    with pytest.raises(ObjectMissingError, match=f"^file://{tmp_path}/gone does not exist"):
        FolderObjects(Path("/")).get(f"{tmp_path}/gone"[1:])


@pytest.mark.parametrize(
    ("modes", "folder", "file"), [(PRIVATE, 0o700, 0o600), (GROUP, 0o2770, 0o660), (PLAIN, 0o750, 0o640)]
)
def test_who_may_read_what_is_made(tmp_path: Path, modes: Modes, folder: int, file: int) -> None:
    before = os.umask(0o027)
    try:
        store = pickle.loads(pickle.dumps(FolderObjects(tmp_path / "top", modes=modes)))
        store.put("a/k", b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("top", "top/a", "top/a/k")] == [
        folder,
        folder,
        file,
    ]


def test_it_can_be_pickled(tmp_path: Path) -> None:
    store = FolderObjects(tmp_path / "top", "s3://b/p", UrlSigner("http://h/o", b"secret"))
    store.put("k", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert (copy.get("k"), copy.namespace) == (b"x", "s3://b/p")
    assert store.presign("k", "GET", 60).startswith("http://h/o/k?")
    assert b"secret" not in pickle.dumps(store)
    with pytest.raises(UnavailableError):
        copy.presign("k", "GET", 60)


@pytest.mark.parametrize("key", [HIDDEN, f"{HIDDEN}/writes/x", f"a/{HIDDEN}/b"])
def test_the_name_for_temporary_files_is_reserved(store: FolderObjects, key: str) -> None:
    for call in (store.get, store.head, store.delete):
        with pytest.raises(InvalidError, match="reserved"):
            call(key)
    with pytest.raises(InvalidError, match="reserved"):
        store.put(key, b"")


def test_a_key_cannot_be_the_folder_of_another(store: FolderObjects) -> None:
    store.put("x/y", b"1")
    for key in ("x", "x/y/z", "x/y/z/w"):
        for if_absent in (False, True):
            with pytest.raises(InvalidError, match="cannot both"):
                store.put(key, b"2", if_absent=if_absent)
    assert [stored.key for stored in store.list()] == ["x/y"]
    assert _temporary_files(store) == []


def test_an_empty_folder_is_in_nobodys_way(store: FolderObjects, tmp_path: Path) -> None:
    (tmp_path / "top" / "x").mkdir(parents=True)
    (tmp_path / "top" / "y").mkdir(parents=True)
    store.put("x", b"1")
    store.put("y", b"1", if_absent=True)
    assert [stored.key for stored in store.list()] == ["x", "y"]


def test_deleting_removes_the_folders_that_became_empty(store: FolderObjects, tmp_path: Path) -> None:
    store.put("a/b/c", b"")
    store.put("a/d", b"")
    store.delete("a/b/c")
    assert [path.name for path in (tmp_path / "top" / "a").iterdir()] == ["d"]
    store.delete("a/d")
    assert [path.name for path in (tmp_path / "top").iterdir()] == [HIDDEN]
    store.put("a/b/c", b"")


# Processes


def test_of_many_processes_that_put_if_absent_one_wins(store: FolderObjects, tmp_path: Path) -> None:
    run_all(put_if_absent, [(store, name, tmp_path, 100) for name in "abcd"])
    for number in range(100):
        winner, _, _ = store.get(f"contested/{number}/k").decode().partition(" ")
        claims = [name for name in "abcd" if str(number) in (tmp_path / name).read_text().split("\n")]
        assert claims == [winner]
    assert _temporary_files(store) == []


def test_a_conditional_delete_never_hits_what_was_put_meanwhile(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.put("k", b"old").etag
    real = described
    ready, done = SPAWN.Event(), SPAWN.Event()
    started = False

    def put_between(key: str, status: os.stat_result) -> object:
        # Between the look and the deletion another process puts: it has to wait for the lock.
        nonlocal started
        if not started:
            started = True
            putter.start()
            assert ready.wait(PATIENCE)
            assert not done.wait(0.2)
        return real(key, status)

    putter = SPAWN.Process(target=_put_and_tell, args=(store, ready, done))
    monkeypatch.setattr("graveler.storage.objects.folder.described", put_between)
    store.delete("k", if_match=old)
    putter.join()
    putter.close()
    assert done.is_set()
    assert store.get("k") == b"new"


def _put_and_tell(store: FolderObjects, ready: Event, done: Event) -> None:
    ready.set()
    store.put("k", b"new")
    done.set()


def test_putting_and_sweeping_at_once(store: FolderObjects) -> None:
    run_all(replace_and_sweep, [(store, 150)] * 3)
    # Each deletion was of an object that somebody had seen, and nothing broke: folder and locks still work.
    store.put("k/k", b"contents")
    assert store.get("k/k") == b"contents"
    assert _temporary_files(store) == []


def test_a_killed_writer_leaves_the_old_object_or_the_new_one(store: FolderObjects) -> None:
    for number in range(3):
        receiver, sender = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=put_until_killed, args=(store, sender))
        process.start()
        sender.close()
        for _ in range(3 + 10 * number):
            acknowledged = receiver.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        try:
            while True:
                acknowledged = receiver.recv()
        except EOFError:
            receiver.close()
        process.join()
        process.close()
        contents = store.get("k")
        assert len(contents) == 200_000
        assert len(set(contents)) == 1
        assert contents[0] in (acknowledged, (acknowledged + 1) % 256)
        assert [stored.key for stored in store.list()] == ["k"]


# What a power cut would find


def test_the_order_of_calls_makes_a_put_durable(
    store: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("other", b"")
    root = tmp_path / "top"
    events = _recorded(monkeypatch)
    store.put("a/b", b"contents", if_absent=True)
    # Contents first; then the name; then the folder that holds it, and the new folder's own name.
    assert events == ["sync file", f"link {root}/a/b", f"sync {root}/a", f"sync {root}"]
    events.clear()
    store.put("a/b", b"contents")
    assert events == ["sync file", f"rename {root}/a/b", f"sync {root}/a"]
    events.clear()
    store.delete("a/b")
    assert events == [f"sync {root}"]


def test_a_new_root_is_durable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = _recorded(monkeypatch)
    FolderObjects(tmp_path / "new" / "top").put("k", b"")
    assert f"sync {tmp_path}" in events
    assert f"sync {tmp_path}/new" in events
    assert events[-1] == f"sync {tmp_path}/new/top"


def test_who_loses_to_an_unsynced_object_makes_it_durable(
    store: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a writer leaves it that dies between giving the name and syncing the folder: the loser builds on that object.
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "top" / "a" / "b").write_bytes(b"x")
    events = _recorded(monkeypatch)
    with pytest.raises(ObjectConditionError):
        store.put("a/b", b"y", if_absent=True)
    assert events == [f"sync {tmp_path}/top/a", f"sync {tmp_path}/top"]


def test_a_folder_made_anew_under_an_old_name_is_synced_again(
    store: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/b", b"")
    FolderObjects(tmp_path / "top").delete("a/b")  # as another process would, so that the store does not know
    (tmp_path / "top" / "takes the inode").mkdir()
    events = _recorded(monkeypatch)
    store.put("a/b", b"")
    assert f"sync {tmp_path}/top" in events


def test_what_is_put_without_a_sync_is_made_durable_later(
    store: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("other", b"")
    root = tmp_path / "top"
    events = _recorded(monkeypatch)
    for key in ("a/b", "a/c"):
        store.put_unsynced(key, b"contents")
    assert events == [f"link {root}/a/b", f"link {root}/a/c"]
    assert (store.get("a/b"), _temporary_files(store)) == (b"contents", [])
    events.clear()
    assert store.sync(["a/b", "a/c", "a/gone"]) == []
    assert events == ["sync file", "sync file", f"sync {root}/a", f"sync {root}"]
    store.put_unsynced("a/b", b"another one")
    assert store.get("a/b") == b"contents", "what is there is left as it is"


def test_a_sync_tells_what_the_disk_has_not_made_sure_of(store: FolderObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_unsynced("a/b", b"")
    store.put_unsynced("a/c", b"")
    real, seen = os.fsync, []

    def fsync(descriptor: int) -> None:
        seen.append(descriptor)
        if len(seen) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        assert store.sync(["a/b", "a/c"]) == ["a/b"]


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk from now on, in order."""
    events: list[str] = []
    fsync, link, rename = os.fsync, os.link, os.rename

    def recording_fsync(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink()}" if folder else "sync file")
        fsync(descriptor)

    def recording_link(source: str, target: str, **options: Any) -> None:
        link(source, target, **options)
        events.append(f"link {target}")

    def recording_rename(source: str, target: str, **options: Any) -> None:
        rename(source, target, **options)
        events.append(f"rename {target}")

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "link", recording_link)
    monkeypatch.setattr(os, "rename", recording_rename)
    return events


# Leftovers


def test_temporary_files_and_parts_of_uploads_are_hidden(store: FolderObjects, tmp_path: Path) -> None:
    store.put("k", b"")
    store.put_part("big", store.create_multipart("big"), 1, b"part")
    with store.writer("j") as writer:
        writer.write(b"half")
        assert [stored.key for stored in store.list()] == ["k"]
        assert {path.name for path in (tmp_path / "top").iterdir()} == {"k", HIDDEN}


def test_a_folder_is_tidied_up_once_nobody_needs_its_hidden_files(store: FolderObjects, tmp_path: Path) -> None:
    store.put("k", b"1")
    store.put("k", b"2")
    upload = store.create_multipart("big")
    with store.writer("k") as writer:
        writer.write(b"3")
        store.tidy()
        store.abort_multipart("big", upload)
        FolderObjects(tmp_path / "top").tidy()
        writer.finish()
    assert store.get("k") == b"3"
    store.tidy()
    assert [path.name for path in (tmp_path / "top").iterdir()] == ["k"]
    store.put("k", b"4")
    assert store.get("k") == b"4"


# The disk says no


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "input/output"),
        (errno.EFBIG, "larger"),
        (errno.EROFS, "read-only"),
        (errno.EMFILE, "too many open files"),
        (errno.ECANCELED, os.strerror(errno.ECANCELED)),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "utime", "open"])
def test_what_the_system_refuses_leaves_the_old_object(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, code: int, words: str, call: str
) -> None:
    store.put("k", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _refusing(code))
        with pytest.raises(UnavailableError, match=f"writing file://.*/k failed: .*{words}"):
            store.put("k", b"new")
        with pytest.raises(UnavailableError):
            store.put("fresh", b"new", if_absent=True)
    assert store.get("k") == b"old"
    assert [stored.key for stored in store.list()] == ["k"]
    assert _temporary_files(store) == []


def _refusing(code: int) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


def test_a_short_write_goes_on(store: FolderObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
        store.put("k", b"0123456789" * 10)
    assert store.get("k") == b"0123456789" * 10


def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    store = FolderObjects(tiny_disk / "root")
    store.put("k", bytes(200_000))
    with pytest.raises(UnavailableError, match="disk is full; free some space"):
        store.put("k", bytes(2_000_000))
    source = tiny_disk.parent / "source"
    source.write_bytes(bytes(2_000_000))
    with pytest.raises(UnavailableError, match="disk is full"):
        store.put("j", source)
    assert store.get("k") == bytes(200_000)
    store.put("j", bytes(200_000))  # the failed ones left nothing
    assert [stored.key for stored in store.list()] == ["j", "k"]


def test_no_permission(store: FolderObjects, tmp_path: Path) -> None:
    store.put("a/k", b"x")
    for path in (tmp_path / "top" / "a" / "k", tmp_path / "top" / "a", tmp_path / "top" / HIDDEN / "writes"):
        path.chmod(0o000)
    try:
        calls: list[Callable[[], object]] = [
            lambda: store.get("a/k"),
            lambda: store.put("k", b""),
            lambda: list(store.list()),
            lambda: store.delete("a/k"),
        ]
        with _as_nobody(tmp_path):
            for call in calls:
                with pytest.raises(UnavailableError, match="no permission"):
                    call()
    finally:
        for path in (tmp_path / "top" / HIDDEN / "writes", tmp_path / "top" / "a", tmp_path / "top" / "a" / "k"):
            path.chmod(0o700)
    assert store.get("a/k") == b"x"


def test_a_name_that_is_too_long(store: FolderObjects) -> None:
    with pytest.raises(UnavailableError, match="too long"):
        store.put("x" * 256, b"")
    with pytest.raises(ObjectMissingError):
        store.get("x" * 256)
    store.delete("x" * 256)


def test_a_source_that_cannot_be_read(store: FolderObjects, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"reading .*nowhere failed"):
        store.put("k", tmp_path / "nowhere")
    assert list(store.list()) == []
    assert _temporary_files(store) == []


def test_another_file_system_below_the_root(store: FolderObjects, tmp_path: Path, tiny_disk: Path) -> None:
    (tmp_path / "top").mkdir(exist_ok=True)
    (tmp_path / "top" / "elsewhere").symlink_to(tiny_disk)
    with pytest.raises(UnavailableError, match="another file system"):
        store.put("elsewhere/k", b"")
    assert _temporary_files(store) == []


def test_a_lock_that_nobody_gives_back(store: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("k", b"old")
    monkeypatch.setattr(folder_names, "_LOCK_WAIT", 0.02)
    with FolderNames(store.files, store.namespace, PRIVATE).locked("k"):
        with pytest.raises(UnavailableError, match="has held its lock"):
            store.put("k", b"new")
        with pytest.raises(UnavailableError, match="has held its lock"):
            store.delete("k")
        store.put("new", b"needs no lock", if_absent=True)
    assert store.get("k") == b"old"


# Other people's files


def test_only_plain_files_are_objects(store: FolderObjects, tmp_path: Path) -> None:
    store.put("k", b"")
    os.mkfifo(tmp_path / "top" / "pipe")
    (tmp_path / "top" / "dangling").symlink_to("nowhere")
    (tmp_path / "top" / "folder").mkdir()
    assert [stored.key for stored in store.list()] == ["k"]
    for key in ("pipe", "dangling", "folder"):
        with pytest.raises(ObjectMissingError):
            store.get(key)
        with pytest.raises(ObjectMissingError):
            store.head(key)


def test_symbolic_links_are_followed_but_not_round_in_circles(store: FolderObjects, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "k").write_bytes(b"linked")
    store.put("a/b", b"")
    (tmp_path / "top" / "a" / "link").symlink_to(elsewhere)
    (tmp_path / "top" / "a" / "up").symlink_to("..")
    (tmp_path / "top" / "file").symlink_to(elsewhere / "k")
    assert [stored.key for stored in store.list()] == ["a/b", "a/link/k", "file"]
    assert store.get("a/link/k") == b"linked"


@pytest.mark.parametrize("foreign", [False, True])
def test_a_link_in_a_circle_leads_to_nothing(tmp_path: Path, *, foreign: bool) -> None:
    store = FolderObjects(tmp_path / "top", foreign=foreign)
    for key in ("a", "in/b"):
        (tmp_path / "top" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / key).write_bytes(b"1")
    for path, target in (("circle", "circle"), ("in/one", "other"), ("in/other", "one")):
        (tmp_path / "top" / path).symlink_to(target)
    assert [stored.key for stored in store.list()] == ["a", "in/b"]
    for key in ("circle", "circle/a", "in/one"):
        with pytest.raises(ObjectMissingError):
            store.head(key)
        with pytest.raises(ObjectMissingError):
            store.get(key)


def test_a_name_that_is_not_utf_8_is_told(store: FolderObjects, tmp_path: Path) -> None:
    store.put("k", b"")
    Path(os.fsdecode(os.fsencode(tmp_path / "top") + b"/latin-\xe4")).write_bytes(b"")
    with pytest.raises(InvalidError, match=r"latin-.*not valid Unicode"):
        list(store.list())


def test_a_file_changed_by_others_has_a_new_etag(store: FolderObjects, tmp_path: Path) -> None:
    before = store.put("k", b"1").etag
    (tmp_path / "top" / "k").write_bytes(b"2")
    assert store.head("k").etag != before


def test_listing_reads_only_the_folders_it_comes_through(store: FolderObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in "abcde":
        for number in range(3):
            store.put(f"{folder}/{number}/k", b"")
    read: list[str] = []
    scandir = os.scandir

    def recording(path: Path) -> object:
        read.append(path.name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", recording)
    assert [stored.key for stored in store.list("c/1")] == ["c/1/k"]
    assert read == ["c", "1"]
    read.clear()
    assert next(iter(store.list(after="d/1/k"))).key == "d/2/k"
    assert read == ["top", "d", "1", "2"]


# Helpers


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; skips where none can be mounted."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _as_nobody(folder: Path) -> Iterator[None]:
    """As a user without rights, if this is root; the folders above stay passable."""
    if os.geteuid() != 0:
        yield
        return
    above = [parent for parent in (folder, *folder.parents) if not parent.stat().st_mode & 0o001]
    modes = [parent.stat().st_mode for parent in above]
    for parent in above:
        parent.chmod(0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in zip(above, modes, strict=True):
            parent.chmod(stat.S_IMODE(mode))


def _temporary_files(store: FolderObjects) -> list[Path]:
    return list((store.files.root / HIDDEN / "writes").iterdir())


# Names that survive a power cut


def test_every_folder_on_the_way_to_an_object_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs(monkeypatch)
    FolderObjects(tmp_path / "a/b/top").put("c/d/e", b"x")
    assert syncs.lost(tmp_path / "a/b/top/c/d/e") == []


def test_a_root_that_another_process_has_just_made_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/top").mkdir(parents=True)  # by one who has not synced the parents yet, or died
    syncs = Syncs(monkeypatch)
    FolderObjects(tmp_path / "a/top").put("k", b"x")
    assert syncs.lost(tmp_path / "a/top/k") == []


def test_the_folder_of_an_upload_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs(monkeypatch)
    store = FolderObjects(tmp_path / "top")
    upload = store.create_multipart("k")
    store.put_part("k", upload, 1, b"x")
    (part,) = (tmp_path / "top" / HIDDEN / "uploads" / upload).iterdir()
    assert syncs.lost(part) == []


def test_a_folder_relative_to_where_one_is_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    shell.cd(tmp_path)
    syncs = Syncs(monkeypatch)
    make_folder(Path("x/y"), PRIVATE)
    assert syncs.lost(tmp_path / "x/y") == []


@pytest.mark.parametrize("verb", ["put", "delete", "part"])
def test_a_name_that_could_not_be_synced_may_be_there_or_not(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store.put("k", b"1")
    upload = store.create_multipart("k")

    monkeypatch.setattr(store.files, "sync", _refusing(errno.EIO))
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: store.put("k", b"2"),
        "delete": lambda: store.delete("k"),
        "part": lambda: store.put_part("k", upload, 1, b"2"),
    }
    with pytest.raises(NotSyncedError, match="input/output error; check it"):
        calls[verb]()


def test_a_file_of_a_tree_whose_name_could_not_be_synced_is_not_built_on(
    store: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.files, "sync", _refusing(errno.EIO))
    files = ImmutableFiles(store, None)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="input/output error"):
            files.put("ranges", "r", b"1")


def test_a_completion_and_an_abortion_at_once_end_the_upload(store: FolderObjects) -> None:
    with ThreadPoolExecutor(2) as threads:
        for turn in range(60):
            key = f"k{turn}"
            upload = store.create_multipart(key)
            part = store.put_part(key, upload, 1, b"x" * 1000)
            start = Barrier(2)

            def complete() -> None:
                start.wait()  # noqa: B023
                with suppress(UploadMissingError):
                    store.complete_multipart(key, upload, [(1, part)])  # noqa: B023

            completion = threads.submit(complete)
            start.wait()
            store.abort_multipart(key, upload)
            completion.result()
            with pytest.raises(UploadMissingError):
                store.complete_multipart(key, upload, [(1, part)])
            assert all(stored.size == 1000 for stored in store.list(key))
